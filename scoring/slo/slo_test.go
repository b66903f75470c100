package slo_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring/slo"
)

// idle is a replica with room: 100 blocks and 10 seats, of which a request takes 10 and 1, and keeps them for 4 s.
func idle() slo.Replica {
	return slo.Replica{
		PrefillSeconds: 0.5, LifeSeconds: 4,
		Blocks: slo.Stock{Usable: 100, Free: 100, Need: 10}, Seats: slo.Stock{Usable: 10, Free: 10, Need: 1},
	}
}

func with(change func(*slo.Replica)) slo.Replica {
	r := idle()
	change(&r)
	return r
}

func TestPredictByHand(t *testing.T) {
	busy := with(func(r *slo.Replica) { r.WaitSeconds = 2 })
	for _, c := range []struct {
		name        string
		replicas    []slo.Replica
		ahead       slo.Ahead
		room, first float64
	}{
		{"idle", []slo.Replica{idle()}, slo.Ahead{}, 0, 0.5},
		{"behind what it was sent", []slo.Replica{busy}, slo.Ahead{}, 2, 2.5},
		{"the idle one of two", []slo.Replica{busy, idle()}, slo.Ahead{}, 0, 0.5},
		{"a queue fills the idle one first", []slo.Replica{busy, idle()}, slo.Ahead{PrefillSeconds: 1.5}, 1.5, 2},
		{"then both alike", []slo.Replica{busy, idle()}, slo.Ahead{PrefillSeconds: 4}, 3, 3.5},
		{"the quick one though it has a queue", []slo.Replica{
			with(func(r *slo.Replica) { r.WaitSeconds, r.PrefillSeconds = 0.1, 0.1 }), idle(),
		}, slo.Ahead{}, 0.1, 0.2},
		// 10 seats come back in 4 s: one every 0.4 s.
		{"no seat is free", []slo.Replica{with(func(r *slo.Replica) { r.Seats.Free = 0 })}, slo.Ahead{}, 0.4, 0.9},
		{"3 before it find no seat", []slo.Replica{with(func(r *slo.Replica) { r.Seats.Free = 0 })}, slo.Ahead{Seats: 3}, 1.6, 2.1},
		{"5 before it of which 2 find a seat", []slo.Replica{with(func(r *slo.Replica) { r.Seats.Free = 2 })}, slo.Ahead{Seats: 5}, 1.6, 2.1},
		// 100 blocks come back in 4 s: 25 a second.
		{"4 blocks are free of 10", []slo.Replica{with(func(r *slo.Replica) { r.Blocks.Free = 4 })}, slo.Ahead{}, 0.24, 0.74},
		{"it owes 15 blocks", []slo.Replica{with(func(r *slo.Replica) { r.Blocks.Free = -15 })}, slo.Ahead{}, 1, 1.5},
		{"two give back together", []slo.Replica{
			with(func(r *slo.Replica) { r.Seats.Free = 0 }), with(func(r *slo.Replica) { r.Seats.Free = 0 }),
		}, slo.Ahead{Seats: 5}, 1.4, 1.9},
		{"nothing to give", []slo.Replica{{Seats: slo.Stock{Need: 1}}}, slo.Ahead{}, slo.SecondsMost, slo.SecondsMost},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ok := slo.Predict(c.replicas, c.ahead)
			require.True(t, ok)
			require.InDelta(t, c.room, p.RoomSeconds, 1e-9)
			require.InDelta(t, c.first, p.FirstSeconds, 1e-9)
		})
	}
	_, ok := slo.Predict(nil, slo.Ahead{})
	require.False(t, ok)
}

func drawReplica(t *rapid.T) slo.Replica {
	stock := func(name string) slo.Stock {
		usable := rapid.Float64Range(0, 1000).Draw(t, name)
		return slo.Stock{
			Usable: usable, Free: rapid.Float64Range(-100, usable).Draw(t, name+" free"), Need: rapid.Float64Range(0, 100).Draw(t, name+" need"),
		}
	}
	return slo.Replica{
		WaitSeconds: rapid.Float64Range(0, 50).Draw(t, "wait"), PrefillSeconds: rapid.Float64Range(0, 5).Draw(t, "prefill"),
		Blocks: stock("blocks"), Seats: stock("seats"), LifeSeconds: rapid.Float64Range(0, 100).Draw(t, "life"),
	}
}

// A prediction is bounded; more ahead never makes it sooner, and one more replica never later.
func TestPredictIsMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.SliceOfN(rapid.Custom(drawReplica), 1, 6).Draw(t, "replicas")
		amount := rapid.Float64Range(0, 500)
		ahead := slo.Ahead{amount.Draw(t, "prefill"), amount.Draw(t, "blocks"), amount.Draw(t, "seats")}
		p, ok := slo.Predict(append([]slo.Replica(nil), replicas...), ahead)
		require.True(t, ok)
		require.GreaterOrEqual(t, p.RoomSeconds, 0.0)
		require.LessOrEqual(t, p.RoomSeconds, p.FirstSeconds)
		require.LessOrEqual(t, p.FirstSeconds, float64(slo.SecondsMost))

		more := slo.Ahead{ahead.PrefillSeconds + amount.Draw(t, "more prefill"), ahead.Blocks + amount.Draw(t, "more blocks"), ahead.Seats}
		later, _ := slo.Predict(append([]slo.Replica(nil), replicas...), more)
		require.GreaterOrEqual(t, later.FirstSeconds, p.FirstSeconds-1e-6)

		wider, _ := slo.Predict(append([]slo.Replica{drawReplica(t)}, replicas...), ahead)
		require.LessOrEqual(t, wider.FirstSeconds, p.FirstSeconds+1e-6)
	})
}

// With nothing seen the margin is the stated one; then 8 of 10 first tokens come within the factor, and a minute later nothing of
// that is left.
func TestErrorsAreLearnedAndForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	var e slo.Errors
	require.InDelta(t, slo.FactorPrior, e.Factor(now, 1), 0)
	for i := range 15 {
		e.Observe(now, 1, 1.6+float64(i)/100)
	}
	require.InDelta(t, slo.FactorPrior, e.Factor(now, 1), 0, "too few")
	for i := range 85 {
		e.Observe(now, 1, 1.15+float64(i)/100) // the last 64: 1.36 to 1.99
	}
	require.InDelta(t, 1.36+0.64*0.8, e.Factor(now, 1), 0.011)
	require.InDelta(t, 1.36+0.64*0.8, e.Factor(now, 1.7), 0.011, "of the next length, where there is nothing better")
	require.InDelta(t, slo.FactorPrior, e.Factor(now, 20), 0, "not of another")
	require.InDelta(t, slo.FactorPrior, e.Factor(now.Add(time.Minute), 1), 0)
}

// TestErrorsOfTheNextLengthsCount: where too little was seen of waits of a length, those of the lengths below and above say what is
// missing, together with its own; and only those of these.
func TestErrorsOfTheNextLengthsCount(t *testing.T) {
	now := time.Unix(1000, 0)
	const below, at, above = 0.7, 1.0, 1.7 // seconds, each of another band
	learned := func(seen map[float64]int) bool {
		var e slo.Errors
		for seconds, n := range seen {
			for range n {
				e.Observe(now, seconds, 2*seconds)
			}
		}
		return e.Factor(now, at) == 2
	}
	require.True(t, learned(map[float64]int{at: 16}))
	require.True(t, learned(map[float64]int{below: 16}))
	require.True(t, learned(map[float64]int{above: 16}))
	require.True(t, learned(map[float64]int{below: 5, at: 6, above: 5}))
	require.False(t, learned(map[float64]int{below: 5, at: 6, above: 4}))
	require.False(t, learned(map[float64]int{at / 5: 30, at: 15, 5 * at: 30}))
}

func TestFactorsAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	for came, want := range map[float64]float64{0: slo.FactorLeast, 1e9: slo.FactorMost, math.Inf(1): slo.FactorMost} {
		var e slo.Errors
		for range 50 {
			e.Observe(now, 3, came)
			e.Observe(now, 0, 1) // says nothing
			e.Observe(now, math.NaN(), 1)
		}
		require.InDelta(t, want, e.Factor(now, 3), 0)
	}
}

// Whole seconds from 1 to 60, around what was predicted, and not the same for all.
func TestRetrySeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.Float64Range(0, 200).Draw(t, "room")
		s := slo.RetrySeconds(room, rapid.Float64Range(0, 0.999999).Draw(t, "chance"))
		require.GreaterOrEqual(t, s, 1)
		require.LessOrEqual(t, s, 60)
		within := min(max(room, 1), 60)
		require.GreaterOrEqual(t, float64(s), math.Floor(within))
		require.LessOrEqual(t, float64(s), math.Ceil(1.25*within)+1)
	})
	for _, room := range []float64{0, 1, 5, 20} {
		seen := map[int]int{}
		for i := range 1000 {
			seen[slo.RetrySeconds(room, float64(i)/1000)]++
		}
		require.Greater(t, len(seen), 1, "%v", room)
		require.Greater(t, seen[int(max(1, room))], 10, "%v: some come when it is predicted", room)
	}
}

func BenchmarkPredict(b *testing.B) {
	replicas := make([]slo.Replica, 64)
	for i := range replicas {
		replicas[i] = with(func(r *slo.Replica) { r.WaitSeconds = float64(i*37%64) / 10 })
	}
	b.ReportAllocs()
	for b.Loop() {
		slo.Predict(replicas, slo.Ahead{PrefillSeconds: 100, Blocks: 20, Seats: 5})
	}
}
