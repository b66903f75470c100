package fleet

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

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
	ref.Pulse().Start(start)
	require.Nil(t, new(Beats).Last)
	none := ref.Pulse().Take()
	require.Nil(t, none.Last, "nobody has said anything")

	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	a, b, c := ref.Beat(), ref.Beat(), ref.Beat()
	for step := range 10 { // three streams in step, the engine's pauses are theirs
		for i, s := range []*Beat{&a, &b, &c} {
			s.Heard(at(10*step + i))
		}
	}
	got := ref.Pulse().Take()
	require.Equal(t, at(92), *got.Last)
	require.EqualValues(t, 9, got.count(), "one for each step")
	require.EqualValues(t, 9, got.Gaps[PaceBucket(10*time.Millisecond)])

	a.Heard(at(5092)) // a long pause, of all
	b.Heard(at(5093))
	c.Heard(at(5094))
	got = ref.Pulse().Take()
	require.EqualValues(t, 1, got.count())
	got = ref.Pulse().Take()
	require.Zero(t, got.count())
	require.Equal(t, at(5094), *got.Last, "life is not taken")
	b.Heard(at(5000))
	got = ref.Pulse().Take()
	require.Equal(t, at(5094), *got.Last, "a goroutine that was late takes nothing back")
}

// TestPulseOfMany: no sign of life is lost among goroutines.
func TestPulseOfMany(t *testing.T) {
	ref := &Ref{}
	ref.Pulse().Start(start)
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
	got := ref.Pulse().Take()
	require.Equal(t, start.Add((9_999*8+7)*time.Microsecond), *got.Last)
	require.Positive(t, got.count())
}

func BenchmarkHeard(b *testing.B) {
	ref := &Ref{}
	ref.Pulse().Start(start)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		beat := ref.Beat()
		for now := start; pb.Next(); now = now.Add(10 * time.Millisecond) {
			beat.Heard(now)
		}
	})
}
