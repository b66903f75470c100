package sim_test

import (
	"fmt"

	"plimsoll/scoring/prefix"
)

// naiveIndex predicts hits from cache events alone, the slow way: a block's name is all that precedes it in writing.
type naiveIndex struct {
	blockTokens int
	names       map[uint64]string
	copies      map[string]int
}

func newNaiveIndex(blockTokens int) *naiveIndex {
	return &naiveIndex{blockTokens: blockTokens, names: map[uint64]string{}, copies: map[string]int{}}
}

func (n *naiveIndex) apply(events []prefix.Event) {
	for _, e := range events {
		switch e.Kind {
		case prefix.Stored:
			name := fmt.Sprint(e.LoRA, "/", e.Salt)
			if e.Parent != nil {
				name = n.names[*e.Parent]
			}
			for i, h := range e.Hashes {
				name += fmt.Sprint(e.Tokens[i*n.blockTokens : (i+1)*n.blockTokens])
				n.names[h] = name
				n.copies[name]++
			}
		case prefix.Removed:
			for _, h := range e.Hashes {
				n.copies[n.names[h]]--
			}
		case prefix.Cleared:
			clear(n.copies)
		case prefix.NumEventKinds:
		}
	}
}

func (n *naiveIndex) negative() bool {
	for _, c := range n.copies {
		if c < 0 {
			return true
		}
	}
	return false
}

func (n *naiveIndex) predict(ids []uint32, lora, salt string) int {
	name, hit := fmt.Sprint(lora, "/", salt), 0
	for hit+n.blockTokens < len(ids) {
		name += fmt.Sprint(ids[hit : hit+n.blockTokens])
		if n.copies[name] == 0 {
			break
		}
		hit += n.blockTokens
	}
	return hit
}
