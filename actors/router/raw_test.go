package router

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// askRaw is a submission of n legs of a chat that the engine renders.
func (r *rig) askRaw(estimated, n int) *stream.Submit {
	most := 16
	sub := r.askFor(&stream.Request{Model: "m", N: n, MaxTokens: &most}, nil)
	sub.Prompts[0] = stream.Prompt{Raw: true, EstimatedTokens: estimated}
	return sub
}

// renders makes a site's engine one that renders chats.
func (s *site) renders() *site {
	s.ref.Capabilities.Chat = true
	return s
}

func TestARawPromptGoesWhereChatsAreRendered(t *testing.T) {
	r := newRig(t, testConfig(), 3)
	r.site("b").renders()
	for range 4 {
		p := r.places(r.submit(r.askRaw(100, 1)))[0]
		require.Equal(t, "b", string(p.Ref.ID))
		require.EqualValues(t, 100, p.Claim.PromptTokens, "the estimate is booked")
		require.Empty(t, p.Claim.SharedKeys)
		require.Zero(t, p.OverlapTokens)
	}
	fifth := r.submit(r.askRaw(100, 1))
	require.True(t, r.waits(fifth), "the others have room, and cannot render it")
	r.end(r.placed[0])
	r.deliver()
	require.Len(t, r.places(fifth), 1)
}

func TestARawPromptWithoutAnEngineThatRendersIsRefused(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	sub := r.submit(r.askRaw(100, 1))
	require.Equal(t, fault.NoReplica, r.fault(sub).Kind)
	r.empty()
}

// TestARawPromptIsNoPrefixOfAnything: neither its own legs nor other prompts count on its blocks.
func TestARawPromptIsNoPrefixOfAnything(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	s := r.site("a").renders()
	places := r.places(r.submit(r.askRaw(160, 3)))
	require.Len(t, places, 3)
	for _, p := range places {
		require.Zero(t, p.OverlapTokens)
		require.Empty(t, p.Claim.SharedKeys)
		require.GreaterOrEqual(t, int(p.Claim.PrivateBlocks), 160/16)
	}
	require.Equal(t, engine.SharingFromDispatch, s.ref.Capabilities.Sharing, "which tokenized legs would make use of")
	ns := prefix.Namespace{Model: "m"}
	keys := prefix.AppendKeys(nil, ns.Seed(), ids(1, 160), 16)
	require.Zero(t, s.place.Index.Match(r.now, keys, nil)[s.place.Slot])
}
