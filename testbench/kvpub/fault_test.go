package kvpub_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/kvpub"
)

// script is a plan by sequence number and by the start of a replay.
type script struct {
	batches map[uint64]kvpub.BatchFault
	replays map[uint64]kvpub.ReplayFault
}

func (s script) Batch(seq uint64) kvpub.BatchFault     { return s.batches[seq] }
func (s script) Replay(start uint64) kvpub.ReplayFault { return s.replays[start] }

func TestFaultsOfBatches(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault kvpub.BatchFault
		live  []uint64 // what comes of the batches 0 to 3, where 1 and 2 have the fault
		kept  []uint64
	}{
		{"drop", kvpub.Drop, []uint64{0, 3}, []uint64{0, 1, 2, 3, end}},
		{"lose", kvpub.Lose, []uint64{0, 3}, []uint64{0, 3, end}},
		{"double", kvpub.Double, []uint64{0, 1, 1, 2, 2, 3}, []uint64{0, 1, 2, 3, end}},
		{"reorder", kvpub.Reorder, []uint64{0, 1, 3, 2}, []uint64{0, 1, 2, 3, end}},
		{"delay", kvpub.Delay, []uint64{0, 1, 2, 3}, []uint64{0, 1, 2, 3, end}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, kvpub.DefaultConfig(), script{batches: map[uint64]kvpub.BatchFault{1: c.fault, 2: c.fault}})
			s := subscribe(t, p, "")
			for hash := range uint64(4) {
				p.Publish(stored(hash))
			}
			require.Equal(t, c.live, s.seqs(t, len(c.live)))
			d := dealer(t, p)
			d.ask(t, 0)
			require.Equal(t, c.kept, d.replayed(t))
			require.Equal(t, uint64(2), p.Stats().Faults[c.fault])
			require.Equal(t, uint64(2), p.Stats().Faults[kvpub.Deliver])
		})
	}
}

// A delayed batch does not come before the next one does, or it is asked for.
func TestFlush(t *testing.T) {
	for _, fault := range []kvpub.BatchFault{kvpub.Delay, kvpub.Reorder} {
		p := open(t, kvpub.DefaultConfig(), script{batches: map[uint64]kvpub.BatchFault{1: fault}})
		s := subscribe(t, p, "")
		p.Publish(stored(1))
		p.Publish(stored(2))
		require.Equal(t, []uint64{0}, s.seqs(t, 1))
		require.Empty(t, s.heard)
		p.Flush()
		require.Equal(t, []uint64{1}, s.seqs(t, 1))
	}
}

func TestGarble(t *testing.T) {
	p := open(t, kvpub.DefaultConfig(), script{batches: map[uint64]kvpub.BatchFault{0: kvpub.Garble}})
	s := subscribe(t, p, "")
	p.Publish(stored(1))
	h := s.next(t)
	require.Zero(t, h.seq(t))
	require.Equal(t, byte(0xc1), h.frames[2][0], "which msgpack never uses")
	d := dealer(t, p)
	d.ask(t, 0)
	require.Equal(t, encode(kvpub.DefaultConfig(), stored(1)...), d.next(t).frames[3])
}

func TestSever(t *testing.T) {
	p := open(t, kvpub.DefaultConfig(), script{batches: map[uint64]kvpub.BatchFault{1: kvpub.Sever}})
	s, d := subscribe(t, p, ""), dealer(t, p)
	p.Publish(stored(1))
	require.Equal(t, []uint64{0}, s.seqs(t, 1))
	p.Publish(stored(2))
	require.Error(t, s.next(t).err)
	require.Error(t, d.next(t).err)
	s = subscribe(t, p, "")
	p.Publish(stored(3))
	require.Equal(t, []uint64{2}, s.seqs(t, 1))
	p.Cut()
	require.Error(t, s.next(t).err)
	require.Equal(t, uint64(2), p.Stats().Cuts)
}

func TestFaultsOfReplays(t *testing.T) {
	plan := script{replays: map[uint64]kvpub.ReplayFault{0: kvpub.Silent, 1: kvpub.Partial, 2: kvpub.Broken, 9: kvpub.Partial}}
	p := open(t, kvpub.DefaultConfig(), plan)
	for hash := range uint64(6) {
		p.Publish(stored(hash))
	}
	d := dealer(t, p)
	d.ask(t, 0)
	d.ask(t, 1)
	require.Equal(t, []uint64{4, 5, end}, d.replayed(t), "3 of 5 are gone; the first request was not answered")
	d.ask(t, 2)
	d.ask(t, 5)
	require.Equal(t, []uint64{2, 3, 5, end}, d.replayed(t), "the answer before stopped half way")
	d.ask(t, 9)
	require.Equal(t, []uint64{end}, d.replayed(t))
	require.Equal(t, [kvpub.NumReplayFaults]uint64{kvpub.Answer: 2, kvpub.Silent: 1, kvpub.Partial: 1, kvpub.Broken: 1}, p.Stats().Replays)
}

func TestLateReplay(t *testing.T) {
	p := open(t, kvpub.DefaultConfig(), script{replays: map[uint64]kvpub.ReplayFault{0: kvpub.Late}})
	s, d := subscribe(t, p, ""), dealer(t, p)
	p.Publish(stored(1))
	require.Equal(t, []uint64{0}, s.seqs(t, 1))
	d.ask(t, 0)
	require.NoError(t, p.AwaitRequests(t.Context(), 1))
	require.Empty(t, d.heard)
	p.Publish(stored(2))
	require.Equal(t, []uint64{0, end}, d.replayed(t), "as it was when it was asked for")
	d.ask(t, 0)
	require.NoError(t, p.AwaitRequests(t.Context(), 2))
	p.Flush()
	require.Equal(t, []uint64{0, 1, end}, d.replayed(t))
}

func TestDice(t *testing.T) {
	dice := &kvpub.Dice{Rand: rand.New(rand.NewPCG(1, 2))}
	dice.Batches[kvpub.Drop], dice.Batches[kvpub.Sever], dice.Replays[kvpub.Late] = 0.2, 0.3, 1
	var seen [kvpub.NumBatchFaults]int
	for seq := range uint64(10_000) {
		seen[dice.Batch(seq)]++
		require.Equal(t, kvpub.Late, dice.Replay(seq))
	}
	require.InDelta(t, 2000, seen[kvpub.Drop], 200)
	require.InDelta(t, 3000, seen[kvpub.Sever], 200)
	require.Equal(t, 10_000, seen[kvpub.Deliver]+seen[kvpub.Drop]+seen[kvpub.Sever])
}

func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
