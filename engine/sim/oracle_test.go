package sim_test

import (
	"fmt"
	"maps"
	"strings"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/prefix"
)

// naiveIndex predicts hits from cache events alone, the slow way: a block's name is all that precedes it in writing.
type naiveIndex struct {
	blockTokens int
	names       map[uint64]string
	copies      map[string]int
	host        map[string]int
}

func newNaiveIndex(blockTokens int) *naiveIndex {
	return &naiveIndex{blockTokens: blockTokens, names: map[uint64]string{}, copies: map[string]int{}, host: map[string]int{}}
}

func (n *naiveIndex) apply(events []prefix.Event) {
	for _, e := range events {
		if e.Tier == prefix.Host {
			change := 1
			if e.Kind == prefix.Removed {
				change = -1
			}
			for _, h := range e.Hashes {
				n.host[n.names[h]] += change
			}
			continue
		}
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
	for _, c := range n.host {
		if c < 0 || c > 1 {
			return true
		}
	}
	return false
}

// compare looks whether a snapshot says what the events have said, each block after its parent if that is there.
func (n *naiveIndex) compare(tb require.TestingT, snapshot []prefix.Event) {
	device, host, before := map[string]int{}, map[string]int{}, map[uint64]bool{}
	for _, e := range snapshot {
		name := n.names[e.Hashes[0]]
		require.Equal(tb, prefix.Stored, e.Kind)
		require.True(tb, strings.HasSuffix(name, fmt.Sprint(e.Tokens)))
		before[e.Hashes[0]] = true
		if e.Tier == prefix.Host {
			host[name]++
		} else {
			device[name]++
		}
		if e.Parent != nil && n.copies[n.names[*e.Parent]]+n.host[n.names[*e.Parent]] > 0 {
			require.True(tb, before[*e.Parent], "a child before its parent")
		}
	}
	gone := func(_ string, copies int) bool { return copies == 0 }
	maps.DeleteFunc(n.copies, gone)
	maps.DeleteFunc(n.host, gone)
	require.Equal(tb, n.copies, device)
	require.Equal(tb, n.host, host)
}

// onHost counts the blocks that the host keeps.
func (n *naiveIndex) onHost() (blocks int) {
	for _, c := range n.host {
		blocks += c
	}
	return blocks
}

// predict returns how many tokens are hit: what the device has from the start on, then what the host has.
func (n *naiveIndex) predict(ids []uint32, lora, salt string) (hit, loaded int) {
	name, tier := fmt.Sprint(lora, "/", salt), n.copies
	for hit+n.blockTokens < len(ids) {
		name += fmt.Sprint(ids[hit : hit+n.blockTokens])
		if tier[name] == 0 && loaded == 0 {
			tier = n.host
		}
		if tier[name] == 0 {
			break
		}
		hit += n.blockTokens
		if loaded > 0 || n.copies[name] == 0 {
			loaded += n.blockTokens
		}
	}
	return hit, loaded
}
