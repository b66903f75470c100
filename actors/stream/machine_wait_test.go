package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestALostSubmissionIsMadeAgain: a router that says nothing is asked whether it knows the submission. If it does the call waits
// on, as long as its queue lets it; if not the call submits anew.
func TestALostSubmissionIsMadeAgain(t *testing.T) {
	cfg := DefaultConfig()
	r := newRig(t, cfg, &Request{})
	for range 20 {
		r.later(cfg.RouterWait - 1)
		require.Empty(t, r.do(timeout{}))
		r.later(1)
		require.Equal(t, []string{"inquire 1"}, r.do(timeout{}))
		require.Empty(t, r.do(Known{Number: 1}))
	}
	r.later(cfg.RouterWait)
	require.Equal(t, []string{"inquire 1"}, r.do(timeout{}))
	require.Empty(t, r.do(Lost{Number: 7}), "of another one")
	require.Equal(t, []string{"submit 2, leg 0"}, r.do(Lost{Number: 1}))
	require.Empty(t, r.do(Lost{Number: 1}), "said of the one before")
	with(t, r.run(9, "a"), "start 1 for leg 0 on a")
	require.Empty(t, r.do(Lost{Number: 2}), "it was answered")
}

// TestASilentRouterIsNotWaitedForWithoutBound: what it does not answer is submitted a few times anew, and then the request fails.
func TestASilentRouterIsNotWaitedForWithoutBound(t *testing.T) {
	cfg := DefaultConfig()
	r := newRig(t, cfg, &Request{})
	var said []string
	for at, ok := r.m.nextTimeout(); ok; at, ok = r.m.nextTimeout() {
		r.now = at
		said = append(said, r.do(timeout{})...)
	}
	require.Equal(t, []string{
		"inquire 1", "submit 2, leg 0", "inquire 2", "submit 3, leg 0", "inquire 3", "submit 4, leg 0", "inquire 4",
		"ended: internal", "withdraw 4",
	}, said)
	require.Equal(t, 8*cfg.RouterWait, r.now.Sub(epoch))
	require.True(t, r.m.done())
}

// TestTokenizationIsNotWaitedForWithoutBound: a router that says for ever that it has the submission, and never its prompts.
func TestTokenizationIsNotWaitedForWithoutBound(t *testing.T) {
	cfg := DefaultConfig()
	r := newRig(t, cfg, &Request{Arrival: epoch})
	r.m.prompts = nil // as before the rig has brought them
	for at, ok := r.m.nextTimeout(); ok; at, ok = r.m.nextTimeout() {
		r.now = at
		require.Equal(t, []string{"inquire 1"}, r.do(timeout{}))
		if got := r.do(Known{Number: 1}); len(got) > 0 {
			require.Equal(t, []string{"ended: contended", "withdraw 1"}, got)
		}
	}
	require.True(t, r.m.done())
	require.Equal(t, cfg.EncodeWait, r.now.Sub(epoch))
}

// TestAHedgeOfWhichTheRouterSaysNothingIsTakenBack: the first attempt goes on.
func TestAHedgeOfWhichTheRouterSaysNothingIsTakenBack(t *testing.T) {
	cfg := hedging()
	cfg.RouterWait = time.Second
	r := stuck(t, cfg, &Request{}, "a")
	r.late()
	r.later(r.m.cfg.RouterWait)
	require.Equal(t, []string{"inquire 2"}, r.do(timeout{}))
	r.later(r.m.cfg.RouterWait)
	require.Equal(t, []string{"withdraw 2", "hedge withdrawn"}, r.do(timeout{}))
	require.Zero(t, r.of.taken)
}
