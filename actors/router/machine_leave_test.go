package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
)

// heard are the messages that a step has for a call.
func (r *rig) heard(call *stream.Call, message any) []any {
	var all []any
	for _, e := range r.m.step(r.now, message, r.views()) {
		if tell, ok := e.(tellCall); ok && tell.call == call {
			all = append(all, tell.message)
		}
	}
	return all
}

// TestEveryWithdrawalIsAnswered, also of what the router does not know; and whoever asks hears whether it knows.
func TestEveryWithdrawalIsAnswered(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	stranger := &stream.Call{Request: &stream.Request{}}
	require.Equal(t, []any{stream.Lost{Number: 3}}, r.heard(stranger, stream.Inquire{Call: stranger, Number: 3}))
	require.Equal(t, []any{stream.Withdrawn{Number: 3}}, r.heard(stranger, stream.Withdraw{Call: stranger, Number: 3}))
	require.Equal(t, []any{stream.Withdrawn{}}, r.heard(stranger, stream.Withdraw{Call: stranger}))

	asked := r.ask(1, 100, new(16))
	asked.Number = 5
	r.step(asked)
	require.Len(t, r.sent, 1, "a replica was asked")
	known := []any{stream.Known{Number: 5}}
	require.Equal(t, known, r.heard(asked.Call, stream.Inquire{Call: asked.Call, Number: 5}))
	require.Equal(t, []any{stream.Lost{Number: 4}}, r.heard(asked.Call, stream.Inquire{Call: asked.Call, Number: 4}))
	require.Equal(t, []any{stream.Withdrawn{Number: 4}}, r.heard(asked.Call, stream.Withdraw{Call: asked.Call, Number: 4}))
	require.Equal(t, known, r.heard(asked.Call, stream.Inquire{Call: asked.Call, Number: 5}), "it was about an older one")
	require.Equal(t, []any{stream.Withdrawn{Number: 5}}, r.heard(asked.Call, stream.Withdraw{Call: asked.Call, Number: 5}))
	require.Equal(t, []any{stream.Lost{Number: 5}}, r.heard(asked.Call, stream.Inquire{Call: asked.Call, Number: 5}))
	r.deliver()
	r.empty()

	r.sites[0].snap.State = fleet.Warming
	waits := r.ask(2, 100, new(16))
	waits.Number = 1
	r.step(waits)
	require.True(t, r.waits(waits))
	require.Equal(t, []any{stream.Known{Number: 1}}, r.heard(waits.Call, stream.Inquire{Call: waits.Call, Number: 1}))
	require.Equal(t, []any{stream.Withdrawn{}}, r.heard(waits.Call, stream.Withdraw{Call: waits.Call}))
	r.now = r.now.Add(time.Second)
	r.empty()
}
