package fleet_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/router"
	"plimsoll/scoring/policy"
	"plimsoll/testbench/fleet"
	"plimsoll/testbench/trace"
)

func config(t *testing.T, s fleet.Spec) fleet.Config {
	t.Helper()
	engines, err := s.Engines()
	require.NoError(t, err)
	return fleet.DefaultConfig(engines)
}

func traffic(t *testing.T, name string, seed uint64, n int, faster float64) trace.Source {
	t.Helper()
	s, err := trace.Generate(name, seed)
	require.NoError(t, err)
	s, err = trace.Scaled(trace.Cut(s, 0, n), faster)
	require.NoError(t, err)
	return s
}

func run(t *testing.T, cfg fleet.Config, s trace.Source) *fleet.Result {
	t.Helper()
	r, err := fleet.Run(cfg, s, nil)
	require.NoError(t, err)
	return r
}

// parts are of IDs and lengths in turns.
func parts(pairs ...int) []trace.Part {
	var list []trace.Part
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, trace.Part{ID: uint64(pairs[i]), Tokens: pairs[i+1]}) //nolint:gosec // small numbers
	}
	return list
}

// TestOneRequestAtATimeTakesWhatTheEngineTakes: with requests far apart all times follow from the engine's formula.
func TestOneRequestAtATimeTakesWhatTheEngineTakes(t *testing.T) {
	spec := fleet.DefaultSpec()
	spec.Replicas = 1
	cfg := config(t, spec)
	list := []trace.Request{
		{Number: 0, PromptTokens: 5000, OutputTokens: 10, Parts: parts(1, 5000, 2, 10)},
		{Number: 1, At: 20 * time.Second, PromptTokens: 5010, OutputTokens: 1, Parts: parts(1, 5000, 2, 10)},
		{Number: 2, At: 40 * time.Second, PromptTokens: 300, OutputTokens: 3, MaxTokens: new(2)},
	}
	r := run(t, cfg, trace.List(list))
	require.Len(t, r.Samples, 3)
	first, second, third := r.Samples[0], r.Samples[1], r.Samples[2]
	timing := cfg.Engines[0].Timing
	require.Equal(t, timing.Pass(5000, 0, 0, 0), first.TTFT())
	require.Equal(t, first.At, first.Dispatched)
	tpot, ok := first.TPOT()
	require.True(t, ok)
	require.InDelta(t, float64(timing.Pass(0, 0, 1, 5004)), float64(tpot), float64(10*time.Microsecond))
	require.Zero(t, first.CachedTokens)

	require.Equal(t, 5009/64*64, second.CachedTokens, "prompt and answer of the first, but for the block that is not full")
	require.Equal(t, timing.Pass(5010-second.CachedTokens, second.CachedTokens, 0, 0), second.TTFT())
	_, ok = second.TPOT()
	require.False(t, ok)

	require.Equal(t, fleet.Finished, third.Outcome)
	require.Equal(t, timing.Pass(0, 0, 1, 300), third.Last-third.First, "its limit ends it after the second token")
}

func TestEqualSeedsGiveEqualResults(t *testing.T) {
	for _, name := range policy.Names() {
		once := func(seed uint64) *fleet.Result {
			cfg := config(t, fleet.DefaultSpec())
			cfg.Router.Policy.Name, cfg.Seed = name, seed
			return run(t, cfg, traffic(t, trace.AgentsName, 3, 120, 1))
		}
		a, b := once(1), once(1)
		require.Equal(t, a.Digest, b.Digest, name)
		require.Equal(t, a, b, name)
	}
}

func TestEverythingThatComesEnds(t *testing.T) {
	for _, spec := range fleet.Names() {
		s, err := fleet.Named(spec)
		require.NoError(t, err)
		for _, name := range trace.Generators() {
			r := run(t, config(t, s), traffic(t, name, 1, 80, 1))
			require.Len(t, r.Samples, 80)
			for i := range r.Samples {
				x := &r.Samples[i]
				require.Equal(t, fleet.Finished, x.Outcome, "%s on %s: request %d: %s", name, spec, i, x.Why)
				require.GreaterOrEqual(t, x.Dispatched, x.At)
				require.Greater(t, x.First, x.Dispatched)
				require.GreaterOrEqual(t, x.Last, x.First)
				require.Less(t, x.CachedTokens, x.PromptTokens)
				require.Less(t, x.Replica, s.Replicas)
			}
		}
	}
}

// TestAQueueThatIsFullRefuses: what is refused has no place and says why.
func TestAQueueThatIsFullRefuses(t *testing.T) {
	s := fleet.DefaultSpec()
	s.Replicas, s.Seats = 1, new(2)
	cfg := config(t, s)
	cfg.Router.Queue.RequestsMax = 1
	r := run(t, cfg, traffic(t, trace.HeavyMixName, 1, 60, 100))
	ends := map[fleet.Outcome]int{}
	for i := range r.Samples {
		x := &r.Samples[i]
		ends[x.Outcome]++
		if x.Outcome == fleet.Refused {
			require.Equal(t, "contended", x.Why)
			require.Equal(t, -1, x.Replica)
			require.Zero(t, x.Attempts)
		}
	}
	require.Positive(t, ends[fleet.Refused])
	require.Positive(t, ends[fleet.Finished])
	require.Zero(t, ends[fleet.Failed])
}

// TestStrictAdmissionNeverPreempts, and a fleet whose predictions are far off does.
func TestStrictAdmissionNeverPreempts(t *testing.T) {
	preemptions := func(admission router.Admission) (engines, requests int) {
		s := fleet.DefaultSpec()
		s.Replicas, s.KVTokens = 2, new(130_000)
		cfg := config(t, s)
		cfg.Router.Admission = admission
		cfg.Router.QueueTimeout = time.Hour
		var list []trace.Request
		for i := range 80 {
			// Short answers first: what is predicted of the long ones is far too little.
			r := trace.Request{Number: uint64(i), At: time.Duration(i) * 50 * time.Millisecond, PromptTokens: 300, OutputTokens: 10}
			if i >= 40 {
				r.At += 10 * time.Second
				r.PromptTokens, r.OutputTokens = 6_000, 2_500
			}
			r.MaxTokens = new(4_000)
			list = append(list, r)
		}
		r := run(t, cfg, trace.List(list))
		for i := range r.Samples {
			require.Equal(t, fleet.Finished, r.Samples[i].Outcome)
			requests += r.Samples[i].Preemptions
		}
		for _, f := range r.Replicas {
			engines += f.Preemptions
		}
		return engines, requests
	}
	engines, requests := preemptions(router.Strict)
	require.Zero(t, engines)
	require.Zero(t, requests)
	engines, requests = preemptions(router.Expected)
	require.Equal(t, engines, requests)
	require.Positive(t, engines, "the figure means something")
}

// TestUnqueuedRequestsGoToAnEngineAtOnce: engines queue them, and preempt where their memory runs out.
func TestUnqueuedRequestsGoToAnEngineAtOnce(t *testing.T) {
	s := fleet.DefaultSpec()
	s.Replicas, s.KVTokens = 2, new(30_000)
	for _, name := range policy.Names()[1:] {
		cfg := config(t, s)
		cfg.Router.Policy.Name, cfg.Unqueued = name, true
		var list []trace.Request
		for i := range 40 {
			list = append(list, trace.Request{Number: uint64(i), PromptTokens: 3000 + i, OutputTokens: 1500}) //nolint:gosec // small numbers
		}
		r := run(t, cfg, trace.List(list))
		preemptions := 0
		for _, f := range r.Replicas {
			preemptions += f.Preemptions
			require.Zero(t, f.Refusals, name)
		}
		require.Positive(t, preemptions, name)
		for i := range r.Samples {
			require.Equal(t, fleet.Finished, r.Samples[i].Outcome, name)
			require.Equal(t, r.Samples[i].At, r.Samples[i].Dispatched, name)
		}
		cfg.Unqueued = false
		r = run(t, cfg, trace.List(list))
		waited := 0
		for i := range r.Samples {
			if r.Samples[i].Outcome == fleet.Refused || r.Samples[i].Dispatched > r.Samples[i].At {
				waited++
			}
		}
		require.Greater(t, waited, 20, "behind the queue they wait for room")
	}
}

// TestABacklogKeepsTheFleetBusy: there is always somebody who waits, and never more than asked for.
func TestABacklogKeepsTheFleetBusy(t *testing.T) {
	s := fleet.DefaultSpec()
	s.Replicas = 2
	cfg := config(t, s)
	cfg.Backlog, cfg.SampleEvery = new(16), 100*time.Millisecond
	r := run(t, cfg, traffic(t, trace.HeavyMixName, 1, 500, 1))
	full := 0
	for _, p := range r.Series {
		require.LessOrEqual(t, p.Queued, 16)
		if p.Queued == 16 {
			full++
		}
	}
	require.Greater(t, full, 20)
	require.Len(t, r.Samples, 500)
}

func TestTheSlowHalfOfAnUnequalFleetIsSlow(t *testing.T) {
	s := fleet.DefaultSpec()
	s.Unequal = true
	engines, err := s.Engines()
	require.NoError(t, err)
	fast, slow := engines[0], engines[1]
	require.InDelta(t, 3, float64(slow.Timing.Pass(2000, 0, 3, 5000))/float64(fast.Timing.Pass(2000, 0, 3, 5000)), 0.001)
	require.Equal(t, fast.UsableBlocks()/2, slow.UsableBlocks())
	require.NotEqual(t, fast.HashSeed, slow.HashSeed)
}

func TestErrorsOfATraceEndTheRun(t *testing.T) {
	broken := errors.New("broken")
	_, err := fleet.Run(config(t, fleet.DefaultSpec()), failing{broken}, nil)
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

// Next implements trace.Source.
func (f failing) Next() (trace.Request, error) { return trace.Request{}, f.err }

func TestSpecsThatMakeNoSense(t *testing.T) {
	for want, change := range map[string]func(*fleet.Spec){
		"0 replicas":      func(s *fleet.Spec) { s.Replicas = 0 },
		"unknown profile": func(s *fleet.Spec) { s.Profile = "b200" },
		"blocks of 0":     func(s *fleet.Spec) { s.BlockTokens = 0 },
		"KVBlocks is 1":   func(s *fleet.Spec) { s.KVTokens = new(10) },
	} {
		s := fleet.DefaultSpec()
		change(&s)
		_, err := s.Engines()
		require.ErrorContains(t, err, want)
	}
	_, err := fleet.Named("7")
	require.ErrorContains(t, err, "choose one of 8, 32")
	cfg := config(t, fleet.DefaultSpec())
	cfg.Backlog, cfg.SampleEvery, cfg.FeedDelay = new(0), 0, -1
	require.Error(t, cfg.Validate())
}

// TestAnswersLongerThanTheRouterIsTold: what it predicts is the half of them.
func TestAnswersLongerThanTheRouterIsTold(t *testing.T) {
	s := fleet.DefaultSpec()
	s.Replicas, s.KVTokens = 1, new(40_000)
	atOnce := func(heard float64) (most int) {
		cfg := config(t, s)
		cfg.HeardShare, cfg.SampleEvery = heard, 50*time.Millisecond
		cfg.Router.QueueTimeout = time.Hour
		var list []trace.Request
		for i := range 200 {
			list = append(list, trace.Request{
				Number: uint64(i), At: time.Duration(i) * 200 * time.Millisecond, PromptTokens: 300 + i, OutputTokens: 1000, //nolint:gosec // small numbers
			})
		}
		for _, p := range run(t, cfg, trace.List(list)).Series {
			if p.At > 25*time.Second { // it has heard of some
				most = max(most, p.Replicas[0].Running)
			}
		}
		return most
	}
	whole, half := atOnce(1), atOnce(0.5)
	require.Greater(t, half, whole, "more are let in where less is expected of each")

	cfg := config(t, s)
	cfg.HeardShare = 0
	require.ErrorContains(t, cfg.Validate(), "a part of an answer's length")
}
