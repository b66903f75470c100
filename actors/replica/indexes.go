package replica

import (
	"sync"

	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// Indexes holds one prefix index for each block size of a model's replicas. It is safe for concurrent use.
type Indexes struct {
	model string

	mu      sync.Mutex
	byBlock map[scoring.Tokens]*prefix.Index
}

// NewIndexes returns the indexes of a model.
func NewIndexes(model string) *Indexes {
	return &Indexes{model: model, byBlock: map[scoring.Tokens]*prefix.Index{}}
}

// For returns the index of a block size; the first call for a size makes it.
func (x *Indexes) For(blockTokens scoring.Tokens) *prefix.Index {
	x.mu.Lock()
	defer x.mu.Unlock()
	ix := x.byBlock[blockTokens]
	if ix == nil {
		cfg := prefix.DefaultConfig()
		cfg.Model, cfg.BlockTokens = x.model, int(blockTokens)
		ix = prefix.NewIndex(cfg)
		x.byBlock[blockTokens] = ix
	}
	return ix
}

// newPlace takes a slot in the index of a block size for a replica's life.
func newPlace(x *Indexes, life tune, blockTokens scoring.Tokens, source prefix.Source, copies prefix.Copies) *Place {
	ix := x.For(blockTokens)
	return &Place{
		Index: ix, BlockTokens: blockTokens, Incarnation: life.incarnation,
		Slot: ix.Add(prefix.SlotConfig{
			Source: source, Copies: copies, CapacityBlocks: scoring.Blocks(max(1, life.capacity/blockTokens)),
		}),
	}
}

// free gives the slot back. Nothing may write to it any more.
func (p *Place) free() { p.Index.Remove(p.Slot) }
