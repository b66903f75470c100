package prefix_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

const (
	windowTokens = 4 // touches two blocks
	windowBlocks = 2
)

// tierGroup is a tier of a cache group.
type tierGroup struct {
	tier  prefix.Tier
	group int
}

// planesOracle says what a slot with tiers and groups must answer, block by block. Groups 0 and 1 have full attention,
// group 2 a window.
type planesOracle struct {
	asSet    bool
	copies   map[tierGroup]map[uint64]int
	texts    map[uint64]bool // names whose content is known
	seen     [3]bool
	offloads bool     // a tier below the device was told of
	gone     []uint64 // the last lingerMax names to lose their last copy, 0 for one that got another since
}

const lingerMax = 3

func newPlanesOracle(asSet, offloads bool) *planesOracle {
	return &planesOracle{
		asSet: asSet, offloads: offloads, copies: map[tierGroup]map[uint64]int{}, texts: map[uint64]bool{},
	}
}

func (o *planesOracle) told(tg tierGroup) {
	o.offloads = o.offloads || tg.tier != prefix.Device
}

func (o *planesOracle) lingering() int {
	n := 0
	for _, h := range o.gone {
		if h != 0 {
			n++
		}
	}
	return n
}

func (o *planesOracle) add(tg tierGroup, hash uint64) {
	if i := slices.Index(o.gone, hash); i >= 0 {
		o.gone[i] = 0
	}
	if o.copies[tg] == nil {
		o.copies[tg] = map[uint64]int{}
	}
	if !o.asSet || o.copies[tg][hash] == 0 {
		o.copies[tg][hash]++
	}
}

func (o *planesOracle) remove(tg tierGroup, hash uint64) {
	if o.copies[tg][hash] == 0 {
		return
	}
	o.copies[tg][hash]--
	for _, c := range o.copies {
		if c[hash] > 0 {
			return
		}
	}
	if !o.texts[hash] || !o.offloads {
		delete(o.texts, hash)
		return
	}
	if o.gone = append(o.gone, hash); len(o.gone) > lingerMax {
		delete(o.texts, o.gone[0]) // nothing if it is 0
		o.gone = o.gone[1:]
	}
}

// storeByHash is a store by hash alone; it returns of how many blocks it is known what they are.
func (o *planesOracle) storeByHash(tg tierGroup, hashes []uint64) (known int) {
	o.told(tg)
	for _, h := range hashes {
		if o.seen[tg.group] && o.texts[h] {
			o.add(tg, h)
			known++
		}
	}
	return known
}

// store is a described store from a sequence's start.
func (o *planesOracle) store(tg tierGroup, hashes []uint64) {
	o.told(tg)
	o.seen[tg.group] = true
	report := !o.asSet
	for _, h := range hashes {
		report = report && o.texts[h] && o.copies[tg][h] > 0
	}
	for _, h := range hashes {
		if !report {
			o.add(tg, h)
			o.texts[h] = true
		}
	}
}

func (o *planesOracle) has(hash uint64, group int, upTo prefix.Tier) bool {
	for t := prefix.Device; t <= upTo; t++ {
		if o.texts[hash] && o.copies[tierGroup{t, group}][hash] > 0 {
			return true
		}
	}
	return false
}

// hit is how many leading blocks a request would hit with tiers up to one.
func (o *planesOracle) hit(hashes []uint64, upTo prefix.Tier) int {
	for k := len(hashes); k > 0; k-- {
		ok := o.seen[0] || o.seen[1]
		for i, h := range hashes[:k] {
			ok = ok && (!o.seen[0] || o.has(h, 0, upTo)) && (!o.seen[1] || o.has(h, 1, upTo)) &&
				(!o.seen[2] || i < k-windowBlocks || o.has(h, 2, upTo))
		}
		if ok {
			return k
		}
	}
	return 0
}

func (o *planesOracle) overlap(hashes []uint64) prefix.Overlap {
	device := o.hit(hashes, prefix.Device)
	host := max(device, o.hit(hashes, prefix.Host))
	disk := max(host, o.hit(hashes, prefix.Disk))
	return prefix.Overlap{
		Device: scoring.Blocks(device), Host: scoring.Blocks(host - device), Disk: scoring.Blocks(disk - host),
	}
}

func (s sequence) engineHashes() []uint64 {
	out := make([]uint64, s.blocks())
	for i := range out {
		out[i] = s.engineHash(i)
	}
	return out
}

// TestPlanes drives slots of two banks, one that counts and one that has sets, through stores in tiers and groups: whole,
// of a window's last blocks alone (before or after the store that tells what they are) and by hash alone (before or after
// the last copy was removed).
func TestPlanes(t *testing.T) {
	slots := []prefix.Slot{3, 68}
	did := tally{}
	checkOften(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.OverflowFactor, cfg.OffloadFactor = 1000, 1000
		ix := prefix.NewIndex(cfg)
		for i := range 70 {
			copies := prefix.Counted
			if i == 68 {
				copies = prefix.AsSet
			}
			ix.Add(prefix.SlotConfig{Source: prefix.Events, Copies: copies, CapacityBlocks: lingerMax})
		}
		oracles := []*planesOracle{newPlanesOracle(false, false), newPlanesOracle(true, false)}
		groups := rapid.IntRange(1, 3).Draw(t, "groups")
		tiers := rapid.IntRange(1, 3).Draw(t, "tiers")
		draw := func(t *rapid.T) (prefix.Slot, *planesOracle, sequence, tierGroup) {
			i := rapid.IntRange(0, 1).Draw(t, "slot")
			tg := tierGroup{prefix.Tier(rapid.IntRange(0, tiers-1).Draw(t, "tier")), rapid.IntRange(0, groups-1).Draw(t, "group")}
			return slots[i], oracles[i], drawSequence(t), tg
		}
		t.Repeat(map[string]func(*rapid.T){
			"store": func(t *rapid.T) {
				s, o, seq, tg := draw(t)
				e := seq.stored(0, seq.blocks())
				e.Tier, e.Group = tg.tier, tg.group
				if tg.group == 2 {
					e.Attention, e.WindowTokens = prefix.SlidingWindow, windowTokens
				}
				ix.Apply(s, []prefix.Event{e})
				o.store(tg, e.Hashes)
				did["store"]++
			},
			"store a window's end": func(t *rapid.T) {
				s, o, seq, tg := draw(t)
				if groups < 3 {
					t.Skip("no window")
				}
				tg.group = 2
				e := seq.stored(0, seq.blocks())
				e.Tier, e.Group, e.Attention, e.WindowTokens = tg.tier, 2, prefix.SlidingWindow, windowTokens
				e.Hashes = e.Hashes[min(len(e.Hashes), rapid.IntRange(1, 3).Draw(t, "left out")):]
				ix.Apply(s, []prefix.Event{e})
				o.told(tg)
				o.seen[2] = true
				for _, h := range e.Hashes {
					o.add(tg, h)
				}
				did["window"]++
			},
			"store by hash": func(t *rapid.T) {
				s, o, seq, tg := draw(t)
				ix.Apply(s, []prefix.Event{{Kind: prefix.Stored, Hashes: seq.engineHashes(), Tier: tg.tier, Group: tg.group}})
				did["by hash"] += o.storeByHash(tg, seq.engineHashes())
			},
			"evict, then store below": func(t *rapid.T) {
				s, o, seq, tg := draw(t)
				hashes := seq.engineHashes()
				slices.Reverse(hashes)
				var gone []uint64
				for _, h := range hashes { // tail first, copy by copy
					for range o.copies[tierGroup{prefix.Device, tg.group}][h] {
						gone = append(gone, h)
						o.remove(tierGroup{prefix.Device, tg.group}, h)
					}
				}
				ix.Apply(s, []prefix.Event{{Kind: prefix.Removed, Hashes: gone, Group: tg.group}})
				ix.Apply(s, []prefix.Event{{Kind: prefix.Stored, Hashes: seq.engineHashes(), Tier: tg.tier, Group: tg.group}})
				late := o.lingering()
				o.storeByHash(tg, seq.engineHashes())
				did["late by hash"] += late - o.lingering()
			},
			"remove": func(t *rapid.T) {
				s, o, seq, tg := draw(t)
				hashes := seq.engineHashes()
				hashes = rapid.Permutation(hashes).Draw(t, "order")[:rapid.IntRange(1, len(hashes)).Draw(t, "count")]
				ix.Apply(s, []prefix.Event{{Kind: prefix.Removed, Hashes: hashes, Tier: tg.tier, Group: tg.group}})
				for _, h := range hashes {
					o.remove(tg, h)
				}
				did["remove"]++
			},
			"clear or void": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "rarely") > 0 {
					t.Skip("rarely")
				}
				s, o, _, _ := draw(t)
				seen := o.seen
				*o = *newPlanesOracle(o.asSet, o.offloads)
				if rapid.Bool().Draw(t, "clear") {
					ix.Apply(s, []prefix.Event{{Kind: prefix.Cleared}})
					o.seen = seen // what is known of the groups stays
					did["clear"]++
				} else {
					ix.Void(s)
					did["void"]++
				}
			},
			"": func(t *rapid.T) {
				seq := drawSequence(t)
				got := ix.Match(start, seq.keys(), nil)
				require.Len(t, got, 70)
				for i, o := range oracles {
					want := o.overlap(seq.engineHashes())
					require.Equal(t, want, got[slots[i]], "slot %d", slots[i])
					require.Equal(t, o.lingering(), ix.Stats(slots[i]).Lingering, "slot %d", slots[i])
					if len(o.gone) == lingerMax {
						did["no room to linger"]++
					}
					if want.Device > 0 && o.seen[1] && o.seen[2] {
						did["hybrid hit"]++
					}
					if want.Host > 0 {
						did["host hit"]++
					}
					if want.Disk > 0 {
						did["disk hit"]++
					}
				}
				require.False(t, slices.ContainsFunc(got[:3], func(o prefix.Overlap) bool { return o != prefix.Overlap{} }))
			},
		})
	})
	did.require(t, 50, "store", "window", "by hash", "late by hash", "no room to linger", "remove", "clear", "void", "hybrid hit", "host hit", "disk hit")
}
