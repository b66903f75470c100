package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
)

// A process of ours that answers no probe any more is given up when that has lasted, once; not while its streams go on, and
// not when it answers after all.
func TestOneThatAnswersNoProbeIsGivenUp(t *testing.T) {
	type second func(b *bench) // of one second
	fails := func(b *bench) { b.probeFailed(engine.Broken) }
	for name, c := range map[string]struct {
		busy bool
		then []second // one after the other, the last one for all that follows
		want []int    // seconds after it went down
	}{
		"idle and silent": {false, []second{fails}, []int{10}},
		"busy and silent": {true, []second{fails}, []int{10}},
		"its streams go on for a while": {true, []second{
			fails, fails, fails, fails, fails, fails,
			func(b *bench) { fails(b); at := b.now; b.now = b.now.Add(-time.Second); b.step(fleet.Beats{Last: &at}) }, fails,
		}, []int{17}},
		"it answers":    {false, []second{fails, func(b *bench) { b.probed(status("a")) }, func(b *bench) { b.step(tick{}) }}, nil},
		"it is drained": {false, []second{fails, func(b *bench) { b.step(fleet.Drain{}) }, func(b *bench) { b.step(tick{}) }}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.HangLeast, cfg.HangBlind = time.Hour, time.Hour // so that it is no suspicion that gives it up
			b := newBench(t, cfg, withoutFeed)
			b.probed(status("a"))
			require.Equal(t, fleet.Ready, b.m.state)
			if c.busy {
				b.granted()
			}
			for range cfg.FailedProbes {
				fails(b)
			}
			require.Equal(t, fleet.Down, b.m.state)
			down := b.now
			b.all = nil
			var given []int
			for i := range 40 {
				c.then[min(i, len(c.then)-1)](b)
				b.all = append(b.all, b.m.step(b.now, tick{})...)
				if n := count[giveUp](b.all); n > 0 {
					require.Equal(t, 1, n)
					given, b.all = append(given, int(b.now.Sub(down).Seconds())), nil
				}
			}
			require.Equal(t, c.want, given)
			if at, wanted := b.m.nextTick(); wanted && b.m.mute != nil {
				require.Fail(t, "it waits for ever", "%s", at)
			}
		})
	}
}
