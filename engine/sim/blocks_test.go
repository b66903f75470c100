package sim

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naivePool is the pool as one would tell it: lists, searched from the front.
type naivePool struct {
	free   []int32            // next to be taken first
	refs   map[int32]int32    // of held blocks
	cached map[int32]uint64   // content
	order  map[uint64][]int32 // copies, oldest first
}

func (n *naivePool) take() (id int32, evicted *uint64) {
	id, n.free = n.free[0], n.free[1:]
	if h, ok := n.cached[id]; ok {
		delete(n.cached, id)
		n.order[h] = slices.DeleteFunc(n.order[h], func(o int32) bool { return o == id })
		evicted = &h
	}
	n.refs[id] = 1
	return id, evicted
}

func (n *naivePool) hold(h uint64) int32 {
	id := n.order[h][0]
	n.free = slices.DeleteFunc(n.free, func(o int32) bool { return o == id })
	n.refs[id]++
	return id
}

func (n *naivePool) release(id int32) {
	if n.refs[id]--; n.refs[id] > 0 {
		return
	}
	delete(n.refs, id)
	if _, ok := n.cached[id]; ok {
		n.free = append(n.free, id)
	} else {
		n.free = slices.Insert(n.free, 0, id)
	}
}

// The pool takes, hits and evicts the very blocks that the naive one does.
func TestPoolAgainstNaive(t *testing.T) {
	hit := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		cfg := TinyConfig()
		cfg.BlockTokens, cfg.KVBlocks = 2, 12
		p := newPool(cfg, 1)
		n := &naivePool{refs: map[int32]int32{}, cached: map[int32]uint64{}, order: map[uint64][]int32{}}
		for id := p.head; id != none; id = p.blocks[id].next {
			n.free = append(n.free, id)
		}
		var sequences []*sequence
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				refs := make([]int32, len(p.blocks))
				for id, r := range n.refs {
					refs[id] = r
				}
				require.NoError(t, p.audit(refs))
				require.Len(t, n.free, p.free)
				require.Len(t, n.cached, p.cached)
			},
			"begin": func(t *rapid.T) {
				s := &sequence{ids: rapid.SliceOfN(rapid.Uint32Range(0, 1), 2, 12).Draw(t, "ids")}
				s.grow(p)
				hits := s.hashes[:p.hits(s.hashes)]
				missing := len(s.hashes) - len(hits)
				if missing+p.idle(hits) > p.free {
					hit["full"]++
					return
				}
				s.blocks = p.hold(hits, nil)
				for i, h := range hits {
					require.Equal(t, n.hold(h), s.blocks[i], "the oldest copy is hit")
				}
				p.events = nil
				s.blocks = p.take(missing, s.blocks)
				var removed []uint64
				for i := range missing {
					id, evicted := n.take()
					require.Equal(t, id, s.blocks[len(hits)+i])
					if evicted != nil {
						removed = append(removed, *evicted)
						hit["evicted"]++
					}
				}
				if len(removed) > 0 {
					require.Equal(t, removed, p.events[0].Hashes)
				} else {
					require.Empty(t, p.events)
				}
				if stored := rapid.IntRange(len(hits), len(s.hashes)).Draw(t, "stored"); stored > len(hits) {
					p.store(s, len(hits), stored)
					for i := len(hits); i < stored; i++ {
						n.cached[s.blocks[i]] = s.hashes[i]
						n.order[s.hashes[i]] = append(n.order[s.hashes[i]], s.blocks[i])
					}
				}
				hit["hits"] += len(hits)
				sequences = append(sequences, s)
			},
			"end": func(t *rapid.T) {
				if len(sequences) == 0 {
					return
				}
				i := rapid.IntRange(0, len(sequences)-1).Draw(t, "which")
				p.release(sequences[i].blocks)
				for _, id := range slices.Backward(sequences[i].blocks) {
					n.release(id)
				}
				sequences = slices.Delete(sequences, i, i+1)
			},
			"clear": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "rarely") > 0 {
					return
				}
				done := p.clear()
				require.Equal(t, len(n.refs) == 0, done)
				if done {
					n.cached, n.order = map[int32]uint64{}, map[uint64][]int32{}
					hit["cleared"]++
				}
			},
		})
	})
	t.Log(hit)
	for _, what := range []string{"full", "evicted", "hits", "cleared"} {
		require.Positive(t, hit[what], "%s never happened", what)
	}
}
