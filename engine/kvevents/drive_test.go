package kvevents

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
)

// asked notes what a machine asks for.
type asked struct{ attempt, from, dropped uint64 }

func (a *asked) Replay(attempt, from uint64) { a.attempt, a.from = attempt, from }
func (a *asked) Drop(attempt uint64)         { a.dropped = attempt }

// TestMachineWithoutSockets: who brings a network of his own hears all that a source's sockets would be asked for, and the
// batches in order.
func TestMachineWithoutSockets(t *testing.T) {
	cfg := DefaultConfig()
	cfg.ReplayEndpoint = "tcp://127.0.0.1:1"
	var states []engine.KVState
	var seqs []uint64
	m := NewMachine(cfg, func() uint64 { return 0 }, func(b engine.KVBatch) {
		states, seqs = append(states, b.State), append(seqs, b.Seq)
	})
	empty := func(seq byte) []byte { return []byte{0x92, seq, 0x90} } // [its time, no events]
	now := time.Unix(1, 0)
	to := &asked{}

	m.Connected(now, to)
	require.Equal(t, asked{attempt: 1}, *to)
	m.Published(now, 1, empty(1), to)
	m.Replayed(now, 1, 0, empty(0), to)
	m.ReplayEnded(now, 1, to)
	require.Equal(t, []uint64{0, 0, 1, 1}, seqs)
	require.Equal(t, []engine.KVState{engine.KVReplaying, engine.KVReplaying, engine.KVReplaying, engine.KVLive}, states)

	m.Published(now, 3, empty(3), to)
	require.Equal(t, asked{attempt: 2, from: 1}, *to)
	m.ReplayFailed(now, 2, to)
	require.Equal(t, engine.KVPartial, states[len(states)-1])
	at := now
	for to.attempt == 2 { // it looks now and then, and tries again
		next, ok := m.NextTick()
		require.True(t, ok)
		at = next
		m.Tick(at, to)
	}
	require.Equal(t, asked{attempt: 3, dropped: 2}, *to)
	m.Broken(at, to)
	require.Equal(t, asked{attempt: 3, dropped: 3}, *to)
}
