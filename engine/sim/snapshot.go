package sim

import (
	"cmp"
	"slices"

	"plimsoll/scoring/prefix"
)

// snapshot describes all cached blocks as stores, parents before children, each copy once, those of the host in full too.
func (p *pool) snapshot() []prefix.Event {
	type content struct {
		identity
		tokens []uint32
		tier   prefix.Tier
	}
	all := make([]content, 0, p.cached+p.host.used.Len())
	for id := range p.blocks {
		if p.blocks[id].cached {
			all = append(all, content{p.blocks[id].identity, slices.Clone(p.content(int32(id))), prefix.Device}) //nolint:gosec // an index
		}
	}
	for at := p.host.used.Front(); at != nil; at = at.Next() {
		b := at.Value.(hostBlock)
		all = append(all, content{b.identity, b.tokens, prefix.Host})
	}
	slices.SortStableFunc(all, func(a, b content) int { return cmp.Compare(a.depth, b.depth) })
	events := make([]prefix.Event, 0, len(all))
	for _, c := range all {
		e := prefix.Event{
			Kind: prefix.Stored, Hashes: []uint64{c.hash}, Tokens: c.tokens, BlockTokens: p.blockTokens,
			LoRA: c.space.lora, Salt: c.space.salt, Tier: c.tier,
		}
		if c.hasParent {
			parent := c.parent
			e.Parent = &parent
		}
		events = append(events, e)
	}
	return events
}
