package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// sluice is a feed's machine and what its shell would hold: the subscription, the slots and which one is published.
type sluice struct {
	t     require.TestingT
	m     *feedMachine
	now   time.Time
	last  time.Time // of the last batch
	words []string  // the last step's effects

	run    uint64 // of the open subscription, 0: none
	runs   uint64 // begun so far
	routed bool
	shown  string // what is published: "", "events", "routed"
	state  fleet.IndexState
	begins int // since the last tune
	voids  int
}

var patience = feedConfig{Silence: 10 * time.Second, RetryFirst: 50 * time.Millisecond, RetryCap: 5 * time.Second, AbsentRetry: time.Minute}

func newSluice(t require.TestingT, source bool) *sluice {
	return &sluice{t: t, m: newFeedMachine(patience, rand.New(rand.NewPCG(1, 2)), source, 0), now: start}
}

// step performs a step's effects as the shell does, and checks that each of them can be done.
func (s *sluice) step(event any) []string {
	s.words = []string{}
	for _, e := range s.m.step(s.now, event) {
		word := ""
		switch e := e.(type) {
		case openFeed:
			require.Zero(s.t, s.run, "one subscription at a time")
			require.Greater(s.t, e.run, s.runs)
			require.Equal(s.t, !s.routed, e.shown, "never both at once")
			s.run, s.runs = e.run, e.run
			word = "hidden"
			if e.shown {
				s.shown, word = "events", "open"
			}
		case closeFeed:
			require.NotZero(s.t, s.run)
			s.run, word = 0, "close"
			if s.shown == "events" {
				s.shown = ""
			}
		case showFeed:
			require.NotZero(s.t, s.run)
			require.False(s.t, s.routed, "never both at once")
			s.shown, word = "events", "show"
		case feedAnew:
			require.Equal(s.t, "events", s.shown)
			word = "anew"
		case openRouted:
			require.False(s.t, s.routed)
			require.Empty(s.t, s.shown, "never both at once")
			s.routed, s.shown, word = true, "routed", "remember"
		case closeRouted:
			require.True(s.t, s.routed)
			s.routed, s.shown, word = false, "", "forget"
		case clearRouted:
			require.True(s.t, s.routed)
			word = "clear"
		case nowIndex:
			require.NotEqual(s.t, s.state, e.state)
			require.NotEmpty(s.t, e.why)
			s.state, word = e.state, e.state.String()
		case feedBegun:
			s.begins++
			word = "begun"
		case distrusted:
			require.NotEmpty(s.t, e.why)
			s.voids++
			word = "distrusted"
		}
		s.words = append(s.words, word)
	}
	require.Equal(s.t, s.state, s.m.state)
	switch s.state {
	case fleet.IndexNone:
		require.Empty(s.t, s.shown)
	case fleet.IndexVoid:
		require.NotEqual(s.t, "routed", s.shown)
	case fleet.IndexLive, fleet.IndexReplaying, fleet.IndexPartial:
		require.Equal(s.t, "events", s.shown)
	case fleet.IndexApproximate:
		require.Equal(s.t, "routed", s.shown)
	case fleet.NumIndexStates:
	}
	return s.words
}

func lifeOf(n uint64) tune { return tune{blockTokens: 16, capacity: 1600, incarnation: n} }

// batch is one of the open subscription.
func (s *sluice) batch(state engine.KVState, events bool) []string {
	s.last = s.now
	return s.step(fed{run: s.run, state: state, events: events})
}

func (s *sluice) breaks(err error) []string { return s.step(feedEnded{s.run, err}) }

// pass lets time go by with the ticks that the machine wants.
func (s *sluice) pass(d time.Duration) []string {
	until := s.now.Add(d)
	all := []string{}
	for {
		at, ok := s.m.nextTick()
		if !ok || at.After(until) {
			s.now = until
			return all
		}
		s.now = at
		all = append(all, s.step(feedTick{s.last})...)
	}
}

// works has the engine compute a sequence for a second.
func (s *sluice) works(tokens scoring.Tokens) []string {
	s.now = s.now.Add(time.Millisecond)
	began := s.now
	s.now = s.now.Add(time.Second)
	return s.step(served{began: began, freshTokens: tokens, last: s.last})
}

var errCut = errors.New("cut")

func liveSluice(t require.TestingT) *sluice {
	s := newSluice(t, true)
	s.step(lifeOf(1))
	s.batch(engine.KVLive, false)
	require.Equal(t, fleet.IndexLive, s.state)
	return s
}

func TestAFeedBeginsVoid(t *testing.T) {
	s := newSluice(t, true)
	require.Equal(t, []string{"void", "open"}, s.step(lifeOf(1)))
	require.Equal(t, []string{"live", "begun"}, s.batch(engine.KVLive, false))
	require.Empty(t, s.batch(engine.KVLive, true))
	require.Equal(t, []string{"begun"}, s.step(lifeOf(1)), "the replica's actor was restarted and asks again")

	partial := newSluice(t, true)
	partial.step(lifeOf(1))
	require.Empty(t, partial.step(lifeOf(1)), "nothing has come yet")
	require.Equal(t, []string{"partial", "begun"}, partial.batch(engine.KVPartial, false))

	replaying := newSluice(t, true)
	replaying.step(lifeOf(1))
	require.Equal(t, []string{"replaying"}, replaying.batch(engine.KVReplaying, true))
	require.Equal(t, []string{"live", "begun"}, replaying.batch(engine.KVLive, true))
}

func TestAGapIsReplayed(t *testing.T) {
	s := liveSluice(t)
	require.Equal(t, []string{"replaying"}, s.batch(engine.KVReplaying, false))
	require.Equal(t, []string{"live"}, s.batch(engine.KVLive, true))
	require.Equal(t, []string{"replaying"}, s.batch(engine.KVReplaying, false))
	require.Equal(t, []string{"partial"}, s.batch(engine.KVPartial, false), "the replay was not whole")
}

func TestAnEngineWithoutEventsIsApproximate(t *testing.T) {
	s := newSluice(t, false)
	require.Equal(t, []string{"remember", "approximate", "begun"}, s.step(lifeOf(1)))
	require.Empty(t, s.works(1000))
	require.Empty(t, s.pass(time.Hour))
	require.Equal(t, []string{"clear"}, s.step(void{}))
	require.Equal(t, []string{"distrusted", "clear"}, s.step(misled{"wrong"}))
	require.Equal(t, []string{"forget", "remember", "begun"}, s.step(lifeOf(2)))
}

// TestAnAbsentFeed: an engine that publishes no events is approximate at once, and asked again seldom and at a new life.
func TestAnAbsentFeed(t *testing.T) {
	s := newSluice(t, true)
	s.step(lifeOf(1))
	absent := fmt.Errorf("vllm: %w", engine.ErrNoKVEvents)
	require.Equal(t, []string{"close", "remember", "approximate", "begun"}, s.breaks(absent))
	require.Empty(t, s.pass(patience.AbsentRetry-1))
	require.Equal(t, []string{"hidden"}, s.pass(1))
	require.Equal(t, []string{"close"}, s.breaks(absent))
	require.Equal(t, []string{"forget", "void", "open"}, s.step(lifeOf(2)))
	s.breaks(absent)
	require.Equal(t, []string{"hidden"}, s.pass(patience.AbsentRetry))
	require.Equal(t, []string{"forget", "show", "live"}, s.batch(engine.KVLive, false), "it was started with them in the meantime")
}

// TestABrokenFeedIsVoid until it is subscribed to again; after some time of that it is approximate.
func TestABrokenFeedIsVoid(t *testing.T) {
	s := liveSluice(t)
	require.Equal(t, []string{"close", "void"}, s.breaks(errCut))
	require.Empty(t, s.pass(patience.RetryFirst-1))
	require.Equal(t, []string{"open"}, s.pass(patience.RetryFirst))
	require.Equal(t, []string{"live"}, s.batch(engine.KVLive, true))

	began, tries := s.now, 0
	reopened := func() {
		at, planned := s.m.nextTick()
		require.True(t, planned, "it is tried on")
		s.pass(at.Sub(s.now))
		require.NotZero(t, s.run)
	}
	for s.state != fleet.IndexApproximate {
		s.breaks(errCut)
		tries++
		require.Less(t, tries, 12, "it backs off")
		reopened()
	}
	require.GreaterOrEqual(t, s.now.Sub(began), patience.Silence)
	require.Less(t, s.now.Sub(began), patience.Silence+2*patience.RetryCap)

	require.Empty(t, s.batch(engine.KVReplaying, true), "not rebuilt yet")
	require.Empty(t, s.batch(engine.KVPartial, false), "nothing is known")
	require.Equal(t, []string{"forget", "show", "partial"}, s.batch(engine.KVPartial, true))
}

// TestASilentFeed is not relied on after work that must have changed the cache.
func TestASilentFeed(t *testing.T) {
	for name, c := range map[string]struct {
		tokens  scoring.Tokens
		heard   bool // a batch comes after the work had begun
		partial bool
		want    fleet.IndexState
	}{
		"work in silence":              {tokens: 100, want: fleet.IndexApproximate},
		"work in silence, partial":     {tokens: 100, partial: true, want: fleet.IndexApproximate},
		"work that is heard of":        {tokens: 100, heard: true, want: fleet.IndexLive},
		"no whole block":               {tokens: 16, want: fleet.IndexLive}, // the last token may not be computed yet
		"one block and the last token": {tokens: 17, want: fleet.IndexApproximate},
		"no work":                      {want: fleet.IndexLive},
	} {
		t.Run(name, func(t *testing.T) {
			s := liveSluice(t)
			if c.partial {
				s.batch(engine.KVPartial, false)
			}
			s.pass(time.Hour)
			require.Empty(t, s.works(c.tokens))
			if c.heard {
				s.pass(time.Second)
				s.batch(engine.KVLive, true)
			}
			s.pass(patience.Silence - time.Second - 1)
			require.NotEqual(t, fleet.IndexApproximate, s.state)
			s.pass(patience.Silence)
			require.Equal(t, c.want, s.state)
		})
	}

	t.Run("events before the answer", func(t *testing.T) {
		s := liveSluice(t)
		began := s.now
		s.pass(time.Second)
		s.batch(engine.KVLive, true)
		s.pass(time.Minute)
		s.step(served{began: began, freshTokens: 100, last: s.last})
		require.Empty(t, s.pass(time.Hour))
	})

	t.Run("a feed that never begins", func(t *testing.T) {
		s := newSluice(t, true)
		s.step(lifeOf(1))
		s.works(100)
		s.pass(patience.Silence)
		require.Equal(t, fleet.IndexApproximate, s.state)
	})
}

// TestEventsFlowAgain after silence: what a replay tells of the past does not show that they do.
func TestEventsFlowAgain(t *testing.T) {
	s := liveSluice(t)
	s.works(100)
	require.Equal(t, []string{"close", "remember", "approximate", "hidden"}, s.pass(patience.Silence+time.Second))
	require.Empty(t, s.batch(engine.KVReplaying, true))
	require.Empty(t, s.batch(engine.KVLive, true), "the end of the replay")
	s.works(100)
	require.Empty(t, s.pass(time.Hour))
	require.Equal(t, []string{"forget", "show", "live"}, s.batch(engine.KVLive, true))
	s.works(100)
	s.pass(patience.Silence)
	require.Equal(t, fleet.IndexApproximate, s.state, "and again")
}

func TestANewLifeVoidsTheOld(t *testing.T) {
	s := liveSluice(t)
	old := s.run
	require.Equal(t, []string{"close", "void"}, s.step(void{}))
	require.Equal(t, []string{"open"}, s.step(lifeOf(2)))
	require.Empty(t, s.step(fed{run: old, state: engine.KVLive, events: true}), "the old life's word")
	require.Empty(t, s.step(feedEnded{old, errCut}))
	require.Equal(t, fleet.IndexVoid, s.state)
	require.Equal(t, []string{"live", "begun"}, s.batch(engine.KVLive, false))
	require.Equal(t, []string{"close", "void", "open"}, s.step(tune{blockTokens: 16, capacity: 3200, incarnation: 2}), "another capacity")
}

// TestAnEngineThatIsDown and comes back as the same life: its feed is read anew, without anybody asking, and says so again.
func TestAnEngineThatIsDown(t *testing.T) {
	s := liveSluice(t)
	require.Equal(t, []string{"close", "void"}, s.step(void{}))
	require.Equal(t, []string{"open"}, s.pass(time.Second))
	require.Equal(t, []string{"live", "begun"}, s.batch(engine.KVLive, true))
	require.Empty(t, newSluice(t, true).step(void{}), "nothing is known before the engine was seen")
}

func TestAMisleadingFeedIsReadAnew(t *testing.T) {
	s := liveSluice(t)
	require.Equal(t, []string{"distrusted", "close", "void"}, s.step(misled{"wrong"}))
	require.Empty(t, s.step(misled{"wrong"}), "it is void already")
	require.Equal(t, []string{"open"}, s.pass(time.Second))
	require.Equal(t, []string{"live"}, s.batch(engine.KVLive, true))
}

// TestBlocksOfAnotherSize: the slot moves, and with it what is published, unless nobody looks at it yet.
func TestBlocksOfAnotherSize(t *testing.T) {
	s := liveSluice(t)
	require.Equal(t, []string{"show"}, s.step(fed{run: s.run, state: engine.KVLive, events: true, moved: true}))
	s.works(100)
	s.pass(2 * patience.Silence)
	require.Equal(t, fleet.IndexApproximate, s.state)
	require.Empty(t, s.step(fed{run: s.run, state: engine.KVReplaying, events: true, moved: true}))
}

// TestASlotThatBeginsAnew is said to, unless nobody looks at it yet.
func TestASlotThatBeginsAnew(t *testing.T) {
	s := liveSluice(t)
	require.Equal(t, []string{"anew"}, s.step(fed{run: s.run, state: engine.KVLive, anew: true}))
	s.works(100)
	s.pass(2 * patience.Silence)
	require.Equal(t, fleet.IndexApproximate, s.state)
	require.Empty(t, s.step(fed{run: s.run, state: engine.KVReplaying, anew: true}))
}

// TestFeedMachineInAnyOrder: whatever comes, nothing is done that cannot be done, at most one slot is published and it is
// the one that the state names; and a life is never left without a subscription, running or planned.
func TestFeedMachineInAnyOrder(t *testing.T) {
	seen := map[fleet.IndexState]int{}
	did := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		s := newSluice(t, rapid.IntRange(0, 5).Draw(t, "source") > 0)
		life := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"tune": func(t *rapid.T) {
				if life == 0 || rapid.IntRange(0, 3).Draw(t, "new") == 0 {
					life++
					s.begins = 0
				}
				s.step(lifeOf(life))
			},
			"batch": func(t *rapid.T) {
				state := engine.KVState(rapid.IntRange(0, int(engine.NumKVStates)-1).Draw(t, "state")) //nolint:gosec // small
				s.last = s.now
				s.step(fed{
					run: s.run, state: state, events: rapid.Bool().Draw(t, "events"),
					anew: rapid.IntRange(0, 5).Draw(t, "anew") == 0, moved: rapid.IntRange(0, 5).Draw(t, "moved") == 0,
				})
			},
			"stale": func(t *rapid.T) {
				if s.runs == 0 || s.run == s.runs && s.runs == 1 {
					return
				}
				old := rapid.Uint64Range(1, s.runs).Draw(t, "run")
				if old == s.run {
					old--
				}
				require.Empty(t, s.step(fed{run: old, state: engine.KVLive, events: true, moved: true}))
				require.Empty(t, s.step(feedEnded{old, errCut}))
				did["stale"]++
			},
			"break": func(t *rapid.T) {
				if s.run == 0 {
					return
				}
				s.breaks(rapid.SampledFrom([]error{errCut, errCut, engine.ErrNoKVEvents}).Draw(t, "error"))
				did["broken"]++
			},
			"work":   func(t *rapid.T) { s.works(scoring.Tokens(rapid.IntRange(0, 40).Draw(t, "tokens"))) },
			"void":   func(*rapid.T) { s.step(void{}) },
			"misled": func(*rapid.T) { s.step(misled{"wrong"}) },
			"pass":   func(t *rapid.T) { s.pass(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond) },
			"": func(t *rapid.T) {
				seen[s.state]++
				if !s.m.source {
					require.Zero(t, s.runs, "there is nothing to subscribe to")
					return
				}
				if life > 0 && s.run == 0 {
					_, planned := s.m.nextTick()
					require.True(t, planned, "nobody would ever read its feed again")
				}
			},
		})
	})
	t.Log(seen, did)
	for state := range fleet.NumIndexStates {
		require.Positive(t, seen[state], "%s never occurred", state)
	}
	require.Positive(t, did["stale"])
	require.Positive(t, did["broken"])
}
