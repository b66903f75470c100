package stream

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
)

// TestTokenizerRestarted: what was submitted without its prompts is submitted again; what the tokenizer has passed on is not its any more.
func TestTokenizerRestarted(t *testing.T) {
	req := &Request{N: 1, Input: Input{Tokens: [][]uint32{{1, 2, 3}}}}
	of := NewBudget()
	r := &rig{t: t, now: epoch, refs: map[string]*fleet.Ref{}, of: of}
	r.m = newMachine(DefaultConfig(), req, Model{Decoder: letters{}, EndTokens: []uint32{idEOS, idEnd2}, Encode: encodeBytes}, nil, of.join())
	r.m.start(r.now)
	require.Equal(t, []string{"submit 2, leg 0"}, r.do(TokenizerRestarted{}))
	r.do(Encoded{Prompts: []Prompt{{IDs: []uint32{1, 2, 3}}}})
	require.Empty(t, r.do(TokenizerRestarted{}))
	require.Equal(t, []string{"submit 3, leg 0"}, r.do(RouterRestarted{}))
}

// TestTokenizerRestartedAfterTheClientLeft: the withdrawal is forgotten with the submission, so that nothing is owed.
func TestTokenizerRestartedAfterTheClientLeft(t *testing.T) {
	req := &Request{N: 1, Input: Input{Tokens: [][]uint32{{1, 2, 3}}}}
	of := NewBudget()
	r := &rig{t: t, now: epoch, refs: map[string]*fleet.Ref{}, of: of}
	r.m = newMachine(DefaultConfig(), req, Model{Decoder: letters{}, EndTokens: []uint32{idEOS, idEnd2}, Encode: encodeBytes}, nil, of.join())
	r.m.start(r.now)
	require.Contains(t, r.do(clientGone{}), "withdraw 1")
	require.Empty(t, r.do(TokenizerRestarted{}))
	require.True(t, r.m.done())
}
