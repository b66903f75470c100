package replica

import (
	"sync"

	"plimsoll/actors/fleet"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// Indexes holds one prefix index for each block size of a model's replicas, for as long as a replica has that size: a
// publisher may tell of any number of sizes, one after the other. It is safe for concurrent use.
type Indexes struct {
	model string

	mu      sync.Mutex
	byBlock map[scoring.Tokens]*sized
}

// sized is the index of a block size, and how many take part in it.
type sized struct {
	index *prefix.Index
	users int
}

// NewIndexes returns the indexes of a model.
func NewIndexes(model string) *Indexes {
	return &Indexes{model: model, byBlock: map[scoring.Tokens]*sized{}}
}

// Join returns the index of a block size, which the first to join makes. Each who joins leaves it in the end.
func (x *Indexes) Join(blockTokens scoring.Tokens) *prefix.Index {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.byBlock[blockTokens]
	if s == nil {
		cfg := prefix.DefaultConfig()
		cfg.Model, cfg.BlockTokens = x.model, int(blockTokens)
		s = &sized{index: prefix.NewIndex(cfg)}
		x.byBlock[blockTokens] = s
	}
	s.users++
	return s.index
}

// Leave is for those who joined, once their slot is given back. With the last of them the index goes.
func (x *Indexes) Leave(blockTokens scoring.Tokens) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.byBlock[blockTokens]
	if s.users--; s.users == 0 {
		delete(x.byBlock, blockTokens)
	}
}

// newPlace takes a slot in the index of a block size for a replica's life.
func newPlace(x *Indexes, life tune, blockTokens scoring.Tokens, source prefix.Source, copies prefix.Copies) *fleet.Place {
	ix := x.Join(blockTokens)
	return &fleet.Place{
		Index: ix, BlockTokens: blockTokens, Incarnation: life.incarnation,
		Slot: ix.Add(prefix.SlotConfig{
			Source: source, Copies: copies, CapacityBlocks: scoring.Blocks(max(1, life.capacity/blockTokens)),
		}),
	}
}

// free gives the place's slot in x back. Nothing may write to it any more.
func free(p *fleet.Place, x *Indexes) {
	p.Index.Remove(p.Slot)
	x.Leave(p.BlockTokens)
}
