package explain

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/actors/meter"
	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
)

var rewrite = flag.Bool("rewrite", false, "write the golden texts anew")

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a router's machine as far as a watch sees it: a fleet, and the policy that acts.
type scene struct {
	t      *testing.T
	w      *Watch
	policy policy.Policy
	pass   policy.Pass
	fleet  []policy.Candidate
	now    time.Time
	next   uint64
}

func newScene(t *testing.T, cfg Config, replicas int, shadows ...string) *scene {
	t.Helper()
	configs := make([]policy.Config, len(shadows))
	for i, name := range shadows {
		configs[i] = policy.DefaultConfig()
		configs[i].Name = name
	}
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)
	w, err := New(cfg, "m", configs, 1, Deps{
		Log: slog.New(slog.DiscardHandler), Meter: m.Decisions("m"), Panicked: func() { t.Error("panicked") },
	})
	require.NoError(t, err)
	acting, err := policy.New(policy.DefaultConfig(), rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	s := &scene{t: t, w: w, policy: acting, now: start}
	for i := range replicas {
		s.fleet = append(s.fleet, policy.Candidate{
			ID: scoring.ReplicaID(fmt.Sprintf("r%d", i+1)), Rates: cost.DefaultRates(),
			Load: ledger.Load{Limits: scoring.Limits{KVBlocks: 1000, Seats: 8, SequenceTokens: 16_000, BlockTokens: 16}},
		})
	}
	return s
}

// decides notes what the acting policy decides for a request of its own, with so much of its prompt cached on the replicas; a dispatch is
// reserved and placed, with the ticket's number as its entry's.
func (s *scene) decides(b *Batch, subject Subject, prompt scoring.Tokens, arrival time.Time, overlaps ...scoring.Tokens) policy.Decision {
	d := &policy.Demand{PromptTokens: prompt, OutputTokens: 100, MinSequenceTokens: prompt + 1, Arrival: arrival, Seats: 1}
	fits := make([]policy.Fit, len(s.fleet))
	for i := range fits {
		if i < len(overlaps) {
			fits[i].OverlapTokens = overlaps[i]
		}
		fits[i].NeedBlocks = (prompt - fits[i].OverlapTokens + 100).Blocks(16)
	}
	s.pass.Begin(s.now, s.fleet, policy.Queue{})
	s.policy.Begin(&s.pass)
	b.Look()
	values := b.Values(s.policy, &s.pass, d, fits)
	dec := s.policy.Decide(d, fits)
	b.Decided(subject, s.policy, &s.pass, d, fits, values, dec)
	if dec.Verdict == policy.Dispatch {
		ticket := scoring.Ticket{Boot: 1, Number: subject.Entry}
		b.Changed(dec.Index, &s.fleet[dec.Index])
		b.Dispatched(dec.Index)
		b.Reserving(s.now, subject, ticket, s.fleet[dec.Index].ID, prompt)
		b.Placed(s.now, ticket)
	}
	return dec
}

func (s *scene) subject(name string) Subject {
	s.next++
	return Subject{Entry: s.next, Request: name}
}

func (s *scene) take(fill func(b *Batch)) {
	b := s.w.Batch()
	fill(b)
	s.w.Take(b)
	s.w.Keep(b)
}

// life is a request that is held for a better replica, goes there, and is answered.
func (s *scene) life(name string) {
	now := s.now
	oldest := now
	s.fleet[2].Load.Reserved, s.fleet[2].Load.QueuedPrefillTokens = 1, 6000
	s.fleet[2].Load.OldestPrefill, s.fleet[2].Load.OldestPrefillTokens = &oldest, 6000
	subject := s.subject(name)
	s.take(func(b *Batch) {
		require.Equal(s.t, policy.BetterBusy, s.decides(b, subject, 15_000, now, 0, 0, 14_992).Cause)
	})
	s.now = now.Add(180 * time.Millisecond)
	s.take(func(b *Batch) {
		require.Equal(s.t, policy.Dispatch, s.decides(b, subject, 15_000, now, 0, 0, 14_992).Verdict)
	})
	ticket := scoring.Ticket{Boot: 1, Number: subject.Entry}
	s.now = s.now.Add(140 * time.Millisecond)
	s.take(func(b *Batch) { b.FirstToken(s.now, ticket, "r3", 140*time.Millisecond, 12*time.Millisecond) })
	s.now = s.now.Add(time.Second)
	cached := 14_976
	s.take(func(b *Batch) { b.Finished(s.now, ticket, "r3", 81, 15_000, &cached, false) })
	s.fleet[2].Load.Reserved, s.fleet[2].Load.QueuedPrefillTokens, s.fleet[2].Load.OldestPrefill = 0, 0, nil
}

// TestTextGolden: what an operator reads of a request that was held, and of one that is not made.
func TestTextGolden(t *testing.T) {
	s := newScene(t, DefaultConfig(), 3, "round-robin", "least-requests")
	s.life("7f3a")
	asked := &Batch{}
	s.decides(asked, Subject{Kind: Asked}, 500, s.now)
	asked.notes = asked.notes[:2] // laid and decided: nothing else is done
	supposed := Suppose("m", asked)
	var b strings.Builder
	records := s.w.Find("7f3a")
	require.Len(t, records, 1)
	require.NoError(t, records[0].Write(&b))
	b.WriteString("\n")
	require.NoError(t, supposed.Write(&b))
	name := filepath.Join("testdata", "explain.txt")
	if *rewrite {
		require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
	require.Regexp(t, `held 180 ms for r3 \(better one busy\); went to r3; .*; saved \d+ ms against r\d at once`, records[0].Summary)
}

// TestRecordsAreBounded in number and in bytes, whatever the fleet's size: the oldest go, with all that is known of them.
func TestRecordsAreBounded(t *testing.T) {
	for _, tc := range []struct{ records, bytes, replicas int }{
		{10, 1 << 30, 4}, {1 << 20, 100_000, 4}, {1 << 20, 100_000, 64}, {1 << 20, 1000, 64}, {1, 1 << 30, 1},
	} {
		cfg := DefaultConfig()
		cfg.Records, cfg.Bytes = tc.records, tc.bytes
		s := newScene(t, cfg, tc.replicas, "round-robin")
		for i := range 500 {
			s.take(func(b *Batch) { s.decides(b, s.subject(fmt.Sprint("r", i)), 100, s.now) })
			require.LessOrEqual(t, len(s.w.records), tc.records)
			require.LessOrEqual(t, s.w.bytes, tc.bytes)
			sum := 0
			for _, r := range s.w.records {
				require.Equal(t, r.size(), r.bytes)
				sum += r.bytes
			}
			require.Equal(t, sum, s.w.bytes, "they are counted as they are")
		}
		require.Empty(t, s.w.entries)
		if recent := s.w.Recent(1); tc.bytes > 50_000 {
			require.Equal(t, "r499", recent[0].Request)
		}
		require.Empty(t, s.w.Find("r0"))
		for i := range 500 { // their outcomes find no record, and leave nothing
			s.take(func(b *Batch) {
				ticket := scoring.Ticket{Boot: 1, Number: uint64(i) + 1} //nolint:gosec // a count
				b.FirstToken(s.now, ticket, "r1", time.Millisecond, time.Millisecond)
				b.Finished(s.now, ticket, "r1", 2, 100, nil, false)
			})
		}
		require.Empty(t, s.w.open)
		require.LessOrEqual(t, s.w.bytes, tc.bytes)
	}
}

// TestPredictionsAreBounded: those beyond it are not waited for.
func TestPredictionsAreBounded(t *testing.T) {
	cfg := DefaultConfig()
	cfg.OpenMax = 20
	s := newScene(t, cfg, 2)
	for range 50 {
		s.take(func(b *Batch) { s.decides(b, s.subject("x"), 100, s.now) })
	}
	require.Len(t, s.w.open, 20)
}

// TestTextsOfClientsAreBounded: a request's ID is the client's.
func TestTextsOfClientsAreBounded(t *testing.T) {
	s := newScene(t, DefaultConfig(), 1)
	long := strings.Repeat("x", 5000)
	s.take(func(b *Batch) { s.decides(b, s.subject(long), 100, s.now) })
	require.Len(t, s.w.Find(long), 1)
	require.LessOrEqual(t, len(s.w.Recent(1)[0].Request), textMax+3)
}

// TestWhoIsBehindDrops: a watch that takes nothing in never makes a router wait, holds no more than its bounds, and counts what
// it drops.
func TestWhoIsBehindDrops(t *testing.T) {
	cfg := DefaultConfig()
	cfg.BatchesMax = 3
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)
	s := newScene(t, cfg, 4, "round-robin")
	s.w.deps.Meter = m.Decisions("m")
	for range 10 {
		b := s.w.Batch()
		s.decides(b, s.subject("x"), 100, s.now)
		s.w.Tell(b)
	}
	require.Len(t, s.w.in, 3)
	w := metricsOf(t, m)
	require.Contains(t, w, `plimsoll_router_shadow_decisions_total{model="m",outcome="dropped",policy="round-robin"} 7`)
	require.Contains(t, w, `plimsoll_router_notes_dropped_total{model="m"} 42`)

	cfg.BatchesMax, cfg.BatchBytesMax = 100, 100_000
	s = newScene(t, cfg, 64)
	for range 100 {
		b := s.w.Batch()
		s.decides(b, s.subject("x"), 100, s.now)
		s.w.Tell(b)
		require.LessOrEqual(t, int(s.w.behind.Load()), cfg.BatchBytesMax)
	}
	require.NotEmpty(t, s.w.in)
}

// TestBatchesAreUsedAgain: with a watch that keeps up, telling needs no new memory.
func TestBatchesAreUsedAgain(t *testing.T) {
	s := newScene(t, None(), 64)
	one := func() {
		s.take(func(b *Batch) { s.decides(b, s.subject("x"), 100, s.now) })
	}
	one()
	require.LessOrEqual(t, testing.AllocsPerRun(100, one), 4.0, "but for the test's own")
}

// TestARestartedRouter submits anew what waited: of the old submission nothing more is heard.
func TestARestartedRouter(t *testing.T) {
	s := newScene(t, DefaultConfig(), 2)
	for i := range s.fleet {
		s.fleet[i].Load.SeatsBooked = 8
	}
	s.take(func(b *Batch) { s.decides(b, s.subject("x"), 100, s.now) })
	require.Equal(t, Waiting, s.w.Find("x")[0].State)
	s.next = 0 // the new instance counts from the start
	s.take(func(b *Batch) {
		b.Instance = 2
		s.decides(b, s.subject("x"), 100, s.now)
	})
	found := s.w.Find("x")
	require.Len(t, found, 2)
	require.Equal(t, []string{Waiting, Lost}, []string{found[0].State, found[1].State})
}

// TestDenied: nothing came of a reservation. Its request waits for the next one, unless it was taken back or turned away meanwhile.
func TestDenied(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile    func(s *scene, b *Batch, subject Subject)
		state, error string
	}{
		"nothing":     {func(*scene, *Batch, Subject) {}, Waiting, ""},
		"withdrawn":   {func(s *scene, b *Batch, subject Subject) { b.Withdrawn(s.now, subject.Entry) }, Left, ""},
		"turned away": {func(s *scene, b *Batch, subject Subject) { b.Rejected(s.now, subject, 100, "too late") }, Refused, "too late"},
		"its router restarted": {func(s *scene, _ *Batch, _ Subject) {
			s.take(func(b *Batch) { b.Instance = 2 })
		}, Lost, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, DefaultConfig(), 1)
			subject, ticket := s.subject("x"), scoring.Ticket{Boot: 1, Number: 7}
			s.take(func(b *Batch) {
				s.decides(b, subject, 100, s.now)
				b.notes = b.notes[:len(b.notes)-2] // it is not asked for as others are
				b.Reserving(s.now, subject, ticket, "r1", 100)
			})
			require.Equal(t, Reserving, s.w.Find("x")[0].State)
			s.take(func(b *Batch) { c.meanwhile(s, b, subject) })
			s.take(func(b *Batch) { b.Denied(s.now, ticket, "r1", "given back") })
			r := s.w.Find("x")[0]
			require.Equal(t, c.state, r.State)
			require.Equal(t, c.error, r.Error)
			require.Len(t, r.Denials, 1)
			require.Equal(t, c.error, r.Summary)
			line := c.state
			if c.error != "" {
				line += ": " + c.error
			}
			var text strings.Builder
			require.NoError(t, r.Write(&text))
			require.Contains(t, text.String(), "\n"+line+"\n", "its state is named once")
		})
	}
}

// TestWatchRuns: what is told is taken in by the goroutine, which ends with Close. Nobody watches without a watch.
func TestWatchRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, DefaultConfig(), 2)
		s.w.Start()
		b := s.w.Batch()
		s.decides(b, s.subject("x"), 100, s.now)
		s.w.Tell(b)
		synctest.Wait()
		require.Equal(t, Prefill, s.w.Find("x")[0].State)
		s.w.Close()
	})
	var nobody *Watch
	nobody.Start()
	require.Nil(t, nobody.Batch())
	nobody.Close()
}

// TestAPanicCostsABatch: the watch goes on after it, with shadows that know nothing.
func TestAPanicCostsABatch(t *testing.T) {
	s := newScene(t, DefaultConfig(), 2, "round-robin")
	panics := 0
	s.w.deps.Panicked = func() { panics++ }
	s.take(func(b *Batch) { b.Dispatched(0) }) // nothing was decided
	require.Equal(t, 1, panics)
	s.take(func(b *Batch) { s.decides(b, s.subject("x"), 100, s.now) })
	require.Len(t, s.w.Find("x"), 1)
}

func TestJudged(t *testing.T) {
	to := func(i int) policy.Decision { return policy.Decision{Verdict: policy.Dispatch, Index: i} }
	hold, refuse := policy.Decision{Verdict: policy.Hold}, policy.Decision{Verdict: policy.Refuse}
	for _, tc := range []struct {
		acting, would policy.Decision
		want          Outcome
	}{
		{to(1), to(1), Agree},
		{to(1), to(2), Differ},
		{to(0), hold, Holds},
		{to(0), refuse, Refuses},
		{hold, hold, Agree},
		{hold, to(0), Dispatches},
		{hold, refuse, Refuses},
		{refuse, refuse, Agree},
		{refuse, to(0), Dispatches},
		{refuse, hold, Holds},
	} {
		require.Equal(t, tc.want, judged(tc.acting, tc.would), "%+v", tc)
	}
}

// TestLostOutcomesAreNotWaitedForForEver: what ends an attempt can be in a batch that there was no room for. Who has no record any
// more makes room for predictions to come.
func TestLostOutcomesAreNotWaitedForForEver(t *testing.T) {
	cfg := DefaultConfig()
	cfg.OpenMax, cfg.Records = 20, 5
	s := newScene(t, cfg, 2)
	var last scoring.Ticket
	for i := range 200 {
		subject := s.subject(fmt.Sprint("r", i))
		last = scoring.Ticket{Boot: 1, Number: subject.Entry}
		s.take(func(b *Batch) { s.decides(b, subject, 100, s.now) }) // and no more is heard of it
		require.LessOrEqual(t, len(s.w.open), 20)
	}
	s.take(func(b *Batch) { b.FirstToken(s.now, last, "r1", time.Millisecond, time.Millisecond) })
	require.NotNil(t, s.w.Find("r199")[0].Came)
}
