package replica

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// gaps counts what a Beats holds.
func (b *Beats) count() (n uint32) {
	for _, c := range b.Gaps {
		n += c
	}
	return n
}

// TestPulse: the last sign of life is that of whoever was last; gaps that overlap count once, and what is taken is gone.
func TestPulse(t *testing.T) {
	ref := &Ref{}
	ref.pulse.start(start)
	require.Nil(t, new(Beats).Last)
	none := ref.pulse.take()
	require.Nil(t, none.Last, "nobody has said anything")

	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	a, b, c := ref.Beat(), ref.Beat(), ref.Beat()
	for step := range 10 { // three streams in step, the engine's pauses are theirs
		for i, s := range []*Beat{&a, &b, &c} {
			s.Heard(at(10*step + i))
		}
	}
	got := ref.pulse.take()
	require.Equal(t, at(92), *got.Last)
	require.EqualValues(t, 9, got.count(), "one for each step")
	require.EqualValues(t, 9, got.Gaps[paceBucket(10*time.Millisecond)])

	a.Heard(at(5092)) // a long pause, of all
	b.Heard(at(5093))
	c.Heard(at(5094))
	got = ref.pulse.take()
	require.EqualValues(t, 1, got.count())
	got = ref.pulse.take()
	require.Zero(t, got.count())
	require.Equal(t, at(5094), *got.Last, "life is not taken")
	b.Heard(at(5000))
	got = ref.pulse.take()
	require.Equal(t, at(5094), *got.Last, "a goroutine that was late takes nothing back")
}

// TestPulseOfMany: no sign of life is lost among goroutines.
func TestPulseOfMany(t *testing.T) {
	ref := &Ref{}
	ref.pulse.start(start)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			b := ref.Beat()
			for i := range 10_000 {
				b.Heard(start.Add(time.Duration(i*8+g) * time.Microsecond))
			}
		})
	}
	all.Wait()
	got := ref.pulse.take()
	require.Equal(t, start.Add((9_999*8+7)*time.Microsecond), *got.Last)
	require.Positive(t, got.count())
}

// TestPaceAgainstSorting: the quantile of a histogram is that of the sorted gaps, rounded up by a fifth at most.
func TestPaceAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.IntRange(1, 30_000_000), paceEnough, 300).Draw(t, "microseconds")
		var p pace
		var b Beats
		for _, us := range gaps {
			b.Gaps[paceBucket(time.Duration(us)*time.Microsecond)]++
		}
		p.add(&b.Gaps)
		got, ok := p.step()
		require.True(t, ok)
		below, within := 0, 0
		for _, us := range gaps {
			gap := time.Duration(us) * time.Microsecond
			if gap <= got {
				within++
			}
			if float64(gap) <= float64(got)/paceGrowth/(1+1e-9) {
				below++
			}
		}
		require.GreaterOrEqual(t, float64(within), stepWithin*float64(len(gaps)))
		if got > paceLeast {
			require.Less(t, float64(below), stepWithin*float64(len(gaps)), "a bucket less would not do")
		}
	})
}

// TestPaceForgets: what was long ago weighs little.
func TestPaceForgets(t *testing.T) {
	var p pace
	_, ok := p.step()
	require.False(t, ok)
	feed := func(gap time.Duration, n uint32) {
		var gaps [paceBuckets]uint32
		gaps[paceBucket(gap)] = n
		p.add(&gaps)
	}
	feed(time.Second, paceKept)
	for range 10 {
		feed(10*time.Millisecond, paceKept)
	}
	got, ok := p.step()
	require.True(t, ok)
	require.Less(t, got, 13*time.Millisecond)
	require.LessOrEqual(t, p.total, float64(paceKept))
	feed(time.Hour, 10*paceKept)
	got, _ = p.step()
	require.Less(t, got, time.Minute, "the last bucket has no end")
}

func BenchmarkHeard(b *testing.B) {
	ref := &Ref{}
	ref.pulse.start(start)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		beat := ref.Beat()
		for now := start; pb.Next(); now = now.Add(10 * time.Millisecond) {
			beat.Heard(now)
		}
	})
}
