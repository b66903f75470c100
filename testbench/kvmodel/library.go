package kvmodel

import (
	"math/rand/v2"
	"slices"

	"plimsoll/scoring/prefix"
)

// Node is a block of text together with all that stands before it. Equal numbers mean equal prefixes.
type Node int32

// none is the parent of a text's first block.
const none Node = -1

// Space is what isolates texts of equal tokens.
type Space struct{ LoRA, Salt string }

// Library is a tree of texts that share prefixes. It does not change once made.
type Library struct {
	BlockTokens int

	parent []Node
	depth  []int32 // blocks before the node
	space  []Space
	tokens []uint32 // BlockTokens for each node
}

// LibraryConfig is the shape of a library.
type LibraryConfig struct {
	BlockTokens int
	Nodes       int
	DepthMax    int     // blocks of the longest text
	Branch      float64 // chance that a block begins beside others rather than behind the newest
	Spaces      []Space // one is drawn for each first block; at least one
}

// NewLibrary draws a library.
func NewLibrary(cfg LibraryConfig, rng *rand.Rand) *Library {
	l := &Library{BlockTokens: cfg.BlockTokens}
	for range cfg.Nodes {
		l.add(cfg, rng)
	}
	return l
}

// add grows the newest text, or begins a branch of any, or a text of its own. Few token values make blocks of different
// texts equal in their tokens.
func (l *Library) add(cfg LibraryConfig, rng *rand.Rand) {
	n := Node(len(l.parent))
	parent := n - 1
	if n > 0 && rng.Float64() < cfg.Branch {
		parent = Node(rng.IntN(int(n)+1)) - 1
	}
	if parent != none && int(l.depth[parent])+1 >= cfg.DepthMax { // the longest text: go back any part of it
		for range 1 + rng.IntN(int(l.depth[parent])+1) {
			parent = l.parent[parent]
		}
	}
	depth, space := int32(0), cfg.Spaces[rng.IntN(len(cfg.Spaces))]
	if parent != none {
		depth, space = l.depth[parent]+1, l.space[parent]
	}
	l.parent, l.depth, l.space = append(l.parent, parent), append(l.depth, depth), append(l.space, space)
	// The first token tells siblings apart, the others repeat.
	l.tokens = append(l.tokens, uint32(n))
	for range cfg.BlockTokens - 1 {
		l.tokens = append(l.tokens, uint32(rng.IntN(3)))
	}
}

// Len returns how many nodes there are.
func (l *Library) Len() int { return len(l.parent) }

// Path appends the blocks of the text that ends with n, the first one first.
func (l *Library) Path(dst []Node, n Node) []Node {
	from := len(dst)
	for ; n != none; n = l.parent[n] {
		dst = append(dst, n)
	}
	slices.Reverse(dst[from:])
	return dst
}

// Tokens returns the tokens of one block.
func (l *Library) Tokens(n Node) []uint32 {
	return l.tokens[int(n)*l.BlockTokens:][:l.BlockTokens]
}

// Keys returns the index's keys of the text that ends with n.
func (l *Library) Keys(model string, n Node) []prefix.Key {
	s := l.space[n]
	key := prefix.Namespace{Model: model, LoRA: s.LoRA, Salt: s.Salt}.Seed()
	var keys []prefix.Key
	for _, block := range l.Path(nil, n) {
		keys = prefix.AppendKeys(keys, key, l.Tokens(block), l.BlockTokens)
		key = keys[len(keys)-1]
	}
	return keys
}
