package kvevents

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// FuzzDecode: no input panics, and what is read keeps what the index relies on: it is the same when it is read again
// with buffers that were used, and no list is longer than its payload.
func FuzzDecode(f *testing.F) {
	for _, digits := range []string{vectorMapStore, vectorMapRemove, vectorArray, vectorSGLang} {
		f.Add(unhex(f, digits))
	}
	f.Add(batchOf(storeOf("lora_id", 1, "lora_name", "a", "extra_keys", l{l{"a", "s", l{"image", 3}}, nothing})))
	f.Add(batchOf(l{"BlockStored", l{1, 2}, nothing, l{10, 11, 12, 13}, 2, nothing, "GPU", m{"cache_salt", "s"}}))
	f.Add(benchBatch(3, true))
	var used Decoder
	f.Fuzz(func(t *testing.T, payload []byte) {
		var fresh Decoder
		want, err := fresh.Decode(payload)
		again, errAgain := used.Decode(payload)
		require.Equal(t, err, errAgain)
		if err != nil {
			require.ErrorIs(t, err, ErrGarbled)
			require.Empty(t, want.Events)
			return
		}
		rank, ok := rankOf(payload)
		require.Equal(t, want.Ranked, ok)
		require.Equal(t, want.Rank, rank)
		require.Len(t, again.Events, len(want.Events))
		require.Equal(t, want.Skipped, again.Skipped)
		for i, e := range want.Events {
			requireSameEvent(t, e, again.Events[i])
			require.Less(t, e.Kind, prefix.NumEventKinds)
			require.Less(t, e.Tier, prefix.NumTiers)
			require.Less(t, e.Attention, prefix.NumAttentions)
			require.LessOrEqual(t, len(e.Hashes)+len(e.Tokens), len(payload))
			require.LessOrEqual(t, len(e.Extras), len(payload))
			require.Equal(t, e.Attention == prefix.SlidingWindow, e.WindowTokens > 0)
		}
	})
}

// FuzzMachine: whatever is published on a connection and replayed, byte for byte, the machine neither panics nor claims anything before
// the first Reset, and keeps its bounds.
func FuzzMachine(f *testing.F) {
	f.Add([]byte("\x00\x02\x00\x02\x01\x06\x02\x01\x07"))
	f.Add([]byte("\x00\x02\x05\x02\x07\x02\x03\x05\x05\x07"))
	f.Fuzz(func(t *testing.T, script []byte) {
		first, up := true, false
		s := newStage(t, func(l *limits) { l.bufferBatchesMax = 4 })
		s.m.sink = func(b engine.KVBatch) {
			require.True(t, b.Reset || !first)
			require.Less(t, b.State, engine.NumKVStates)
			first = false
		}
		for len(script) > 1 {
			verb, seq := script[0], uint64(script[1]>>2)
			life := int(script[1] & 3)
			script = script[2:]
			in := input{kind: inputKind(verb % uint8(tick+1)), seq: seq, attempt: s.m.attempts}
			if life == 3 {
				in.payload = script
			} else {
				in.payload = payloadOf(life, seq, []uint64{seq + 1}, nil, false)
			}
			switch in.kind {
			case connected:
				if up {
					continue
				}
				up = true
			case broken:
				up = false
			case live, junk, stale:
				if !up {
					continue
				}
			case replayed, replayEnded, replayFailed, tick:
			}
			if in.kind == tick && !s.m.deadline().IsZero() {
				s.now = s.m.deadline()
			}
			s.step(in)
			require.LessOrEqual(t, len(s.m.held.batches), 4)
		}
	})
}
