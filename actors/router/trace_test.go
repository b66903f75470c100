package router

import (
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
)

// watchedRig is a rig whose decisions are remembered, and tried on shadows.
func watchedRig(t *testing.T, replicas int, shadows ...string) *rig {
	t.Helper()
	r := newRig(t, testConfig(), replicas)
	r.watch = watch(t, shadows...)
	return r
}

// watch is one that must not panic.
func watch(t require.TestingT, shadows ...string) *explain.Watch {
	configs := make([]policy.Config, len(shadows))
	for i, name := range shadows {
		configs[i] = policy.DefaultConfig()
		configs[i].Name = name
	}
	w, err := explain.New(explain.DefaultConfig(), "m", configs, 1, explain.Deps{
		Log: slog.New(slog.DiscardHandler), Panicked: func() { require.Fail(t, "the watch panicked") },
	})
	require.NoError(t, err)
	return w
}

func named(id string) *stream.Request {
	return &stream.Request{ID: id, Model: "m", N: 1, MaxTokens: new(64)}
}

// record is the only one of a request.
func (r *rig) record(id string) explain.Record {
	found := r.watch.Find(id)
	require.Len(r.t, found, 1, id)
	return found[0]
}

// TestADecisionIsRemembered: a row a replica, the chosen one marked, and what came beside what was predicted.
func TestADecisionIsRemembered(t *testing.T) {
	r := watchedRig(t, 2)
	r.sites[0].snap.State = fleet.Draining
	sub := r.submit(r.askFor(named("req-1"), ids(1, 100)))
	p := r.places(sub)[0]
	got := r.record("req-1")
	require.Equal(t, explain.Prefill, got.State)
	require.Equal(t, "b", got.Replica)
	require.Equal(t, 100, got.PromptTokens)
	require.Len(t, got.Looks, 1)
	require.Equal(t, "dispatch", got.Looks[0].Verdict)
	require.Equal(t, "total", got.Looks[0].Terms[len(got.Looks[0].Terms)-1])
	a, b := got.Looks[0].Candidates[0], got.Looks[0].Candidates[1]
	require.Equal(t, []any{"a", "draining", false}, []any{a.Replica, a.Fit, a.Chosen})
	require.Equal(t, []any{"b", "eligible", true}, []any{b.Replica, b.Fit, b.Chosen})
	require.Len(t, b.Values, len(got.Looks[0].Terms))
	require.Positive(t, *got.Predicted.FirstTokenSeconds)
	require.Zero(t, *got.Predicted.OverlapTokens)
	require.Nil(t, got.Came)

	r.now = r.now.Add(70 * time.Millisecond)
	r.step(stream.FirstToken{Replica: "b", Ticket: p.Claim.Ticket, PrefillTokens: 100, Took: 60 * time.Millisecond})
	require.Equal(t, explain.Decode, r.record("req-1").State)
	r.now = r.now.Add(200 * time.Millisecond)
	cached := 0
	r.step(stream.Finished{Replica: "b", Ticket: p.Claim.Ticket, Prompt: 100, Produced: 21, Cached: &cached})
	got = r.record("req-1")
	require.Equal(t, explain.Done, got.State)
	require.InDelta(t, 0.06, *got.Came.FirstTokenSeconds, 1e-9)
	require.InDelta(t, 0.01, *got.Came.StepSeconds, 1e-9)
	require.Equal(t, 21, *got.Came.OutputTokens)
	require.Zero(t, *got.Came.OverlapTokens)
	require.Contains(t, got.Summary, "went to b; first token 60 ms after that, predicted ")
}

// TestAHoldIsRemembered: who waits for room has its first decision, the hold with its cause and length, and the decision that
// ended it.
func TestAHoldIsRemembered(t *testing.T) {
	r := watchedRig(t, 2)
	for _, s := range r.sites {
		s.fill()
	}
	sub := r.submit(r.askFor(named("waits"), ids(1, 100)))
	require.True(t, r.waits(sub))
	got := r.record("waits")
	require.Equal(t, explain.Waiting, got.State)
	require.Len(t, got.Holds, 1)
	require.Equal(t, "no room", got.Holds[0].Cause)
	require.Equal(t, "held (no room)", got.Summary)
	r.now = r.now.Add(180 * time.Millisecond)
	r.sites[1].free()
	r.step(fleet.Room{Replica: "b"})
	r.deliver()
	r.places(sub)
	got = r.record("waits")
	require.Len(t, got.Looks, 2)
	require.Equal(t, "hold", got.Looks[0].Verdict)
	require.Equal(t, "no seats", got.Looks[0].Candidates[0].Fit)
	require.Equal(t, "dispatch", got.Looks[1].Verdict)
	require.Equal(t, "eligible", got.Looks[1].Candidates[1].Fit)
	require.InDelta(t, 0.18, got.Holds[len(got.Holds)-1].AfterSeconds+got.Holds[len(got.Holds)-1].Seconds, 1e-9)
	require.Equal(t, "b", got.Replica)
}

// TestAWaitIsRememberedThoughNobodyDecides: while nothing is free, a newcomer is not decided for.
func TestAWaitIsRememberedThoughNobodyDecides(t *testing.T) {
	r := watchedRig(t, 1)
	r.sites[0].fill()
	for i := range 3 { // whoever finds that the fleet is another than before is decided for
		r.submit(r.askFor(named("one"), ids(10+i, 100)))
	}
	sub := r.submit(r.askFor(named("two"), ids(2, 100)))
	got := r.record("two")
	require.Equal(t, []any{explain.Waiting, 100, 3}, []any{got.State, got.PromptTokens, got.QueuedRequests})
	require.Equal(t, "held (in the queue)", got.Summary)
	r.now = r.now.Add(180 * time.Millisecond)
	r.sites[0].free()
	r.step(fleet.Room{Replica: "a"})
	r.deliver()
	r.places(sub)
	got = r.record("two")
	require.Len(t, got.Looks, 1)
	require.InDelta(t, 0.18, got.Looks[0].AfterSeconds, 1e-9)
	require.InDelta(t, 0.18, *got.WaitedSeconds, 1e-9)
	require.Contains(t, got.Summary, "held 180 ms (in the queue); went to a")
	require.Equal(t, "token-load", got.Policy)
}

// TestARefusalIsRemembered, and so is a client's leaving.
func TestARefusalIsRemembered(t *testing.T) {
	r := watchedRig(t, 1)
	r.submit(r.askFor(named("large"), ids(1, 5000)))
	got := r.record("large")
	require.Equal(t, explain.Refused, got.State)
	require.Contains(t, got.Error, "maximum context length")
	require.Equal(t, "too small", got.Looks[0].Candidates[0].Fit)

	r.sites[0].fill()
	r.submit(r.askFor(named("waits"), ids(3, 100)))
	r.submit(r.askFor(named("large too"), ids(4, 5000)))
	got = r.record("large too")
	require.Equal(t, explain.Refused, got.State)
	require.Equal(t, "too small", got.Looks[0].Candidates[0].Fit, "also while others wait")

	long := named("long")
	long.N = 2
	r.submit(r.askFor(long, ids(5, 5000)))
	require.Equal(t, explain.Refused, r.record("long").State, "also if nobody decided for it")

	sub := r.submit(r.askFor(named("leaves"), ids(2, 100)))
	r.step(stream.Withdraw{Call: sub.Call})
	require.Equal(t, explain.Left, r.record("leaves").State)
}

// TestADeniedReservationIsRemembered with who denied it.
func TestADeniedReservationIsRemembered(t *testing.T) {
	r := watchedRig(t, 1)
	r.sites[0].hangs = true
	r.submit(r.askFor(named("req"), ids(1, 100)))
	require.Equal(t, explain.Reserving, r.record("req").State)
	r.pass(3 * time.Second)
	got := r.record("req")
	require.NotEmpty(t, got.Denials)
	require.Equal(t, "a", got.Denials[0].Replica)
	require.InDelta(t, 2, got.Denials[0].AfterSeconds, 0.01)
}

// TestRepeatedHoldsAreNotNoted: a pump that finds nothing new tells nothing, however many wait.
func TestRepeatedHoldsAreNotNoted(t *testing.T) {
	r := watchedRig(t, 2)
	for _, s := range r.sites {
		s.fill()
	}
	for i := range 50 {
		r.submit(r.askFor(named(fmt.Sprint("r", i)), ids(i, 100)))
	}
	r.now = r.now.Add(time.Second)
	b := r.watch.Batch()
	r.m.trace = b
	r.m.step(r.now, fleet.Room{Replica: "a"}, r.views())
	require.True(t, b.Empty())
}

// TestWatchingChangesNothing: the same traffic with and without a watch, under every policy, is placed alike; and supposing
// changes nothing either.
func TestWatchingChangesNothing(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			var runs [3][]stream.Placement
			for way := range runs {
				cfg := testConfig()
				cfg.Policy.Name = name
				r := newRig(t, cfg, 3)
				if way > 0 {
					r.watch = watch(t, "p2c", "round-robin")
				}
				for i := range 60 {
					r.now = r.now.Add(3 * time.Millisecond)
					if way == 2 && name != "random" && name != "p2c" && i%5 != 0 {
						r.supposes(named("nobody"), ids(i, 300))
					}
					r.submit(r.askFor(&stream.Request{ID: "x", Model: "m", N: 1, Session: strconv.Itoa(i % 7), MaxTokens: new(16)}, ids(i%9, 50+i)))
					if len(r.placed) > 5 {
						runs[way] = append(runs[way], r.placed[0])
						r.end(r.placed[0])
						r.deliver()
					}
				}
			}
			require.NotEmpty(t, runs[0])
			require.Equal(t, where(runs[0]), where(runs[1]))
			if name == "round-robin" || name == "session-affinity" {
				require.Equal(t, where(runs[0]), where(runs[2])) // no ties are broken at random
			}
		})
	}
}

func where(places []stream.Placement) []string {
	out := make([]string, len(places))
	for i, p := range places {
		out[i] = string(p.Ref.ID)
	}
	return out
}

// supposes asks what would be decided.
func (r *rig) supposes(req *stream.Request, prompt []uint32) explain.Record {
	b := &explain.Batch{}
	r.m.trace = b
	r.m.suppose(r.now, &Suppose{Request: req, Prompts: []stream.Prompt{{IDs: prompt}}}, r.views())
	r.m.trace = nil
	return explain.Suppose("m", b)
}

// TestSupposing says what would be done, and leaves nothing behind.
func TestSupposing(t *testing.T) {
	r := watchedRig(t, 2)
	prompt := ids(1, 320)
	first := r.submit(r.askFor(named("first"), prompt))
	at := string(r.places(first)[0].Ref.ID)
	r.end(r.places(first)[0])
	got := r.supposes(named(""), prompt)
	require.Equal(t, "hypothetical", got.Kind)
	require.Contains(t, got.Summary, "would go to "+at+" now; first token predicted after ")
	require.Positive(t, *got.Predicted.OverlapTokens)
	for _, s := range r.sites {
		s.fill()
	}
	require.Equal(t, "would be held (no room)", r.supposes(named(""), prompt).Summary)
	r.submit(r.askFor(named("waits"), ids(2, 100)))
	require.Equal(t, "would be held (no room), but others wait and may come before it", r.supposes(named(""), prompt).Summary)
	require.Equal(t, "would be refused (too large)", r.supposes(named(""), ids(3, 5000)).Summary[:28])
	require.Len(t, r.watch.Recent(10), 2, "what is only asked is not remembered")
	require.Equal(t, 1, r.m.waiting.Len())
	r.pass(time.Minute)
	r.empty()
}

// TestSupposingAtTheBounds: what a newcomer would be refused for is said of one that is only supposed, too.
func TestSupposingAtTheBounds(t *testing.T) {
	cfg := testConfig()
	cfg.PromptTokensMax, cfg.Queue.RequestsMax = new(scoring.Tokens(950)), 2
	r := newRig(t, cfg, 1)
	require.Contains(t, r.supposes(named(""), ids(1, 951)).Summary, "would be refused (too large): the prompt has 951 tokens, but this server takes at most 950")
	fillAll(r)
	r.crowd(2, queue.Default)
	got := r.supposes(named(""), ids(2, 100))
	require.Equal(t, "would be refused (no room): all replicas are busy and the queue is full (2 requests); try again later", got.Summary)
	require.Len(t, got.Looks[0].Candidates, 1)
}

// TestSupposingHidesNoChange: a replica that comes back is noticed by those that wait though it was supposed on first.
func TestSupposingHidesNoChange(t *testing.T) {
	r := watchedRig(t, 1)
	r.sites[0].snap.State = fleet.Warming
	r.sites[0].fill()
	sub := r.submit(r.askFor(named("waits"), ids(1, 100)))
	require.True(t, r.waits(sub))
	r.sites[0].snap.State = fleet.Down
	r.supposes(named(""), ids(2, 100))
	r.step(fleet.Room{Replica: "a"})
	require.Equal(t, fault.NoReplica, r.fault(sub).Kind, "nobody is left who could serve it")
}

// TestShadows are asked beside the policy that acts, and tell where they differ.
func TestShadows(t *testing.T) {
	r := watchedRig(t, 2, "round-robin", "token-load")
	prompt := ids(1, 320)
	r.end(r.places(r.submit(r.askFor(named("one"), prompt)))[0])
	r.submit(r.askFor(named("two"), prompt)) // where the prompt is cached; by turns it would be the other's
	got := r.record("two")
	require.Len(t, got.Shadows, 2)
	require.Equal(t, []string{"differ", "agree"}, []string{got.Shadows[0].Outcome, got.Shadows[1].Outcome})
	require.Equal(t, got.Replica, got.Shadows[1].Replica)
	require.NotEqual(t, got.Replica, got.Shadows[0].Replica)

	for _, s := range r.sites {
		s.fill()
	}
	r.submit(r.askFor(named("three"), prompt))
	require.Equal(t, "agree", r.record("three").Shadows[0].Outcome, "both wait")
}

// BenchmarkWatched is BenchmarkDecide of 1,000 tokens where somebody watches: what the router's goroutine does more, and what the
// watch's does beside it, with and without shadows.
func BenchmarkWatched(b *testing.B) {
	for _, replicas := range []int{8, 64} {
		for _, who := range []string{"nobody", "router", "watch", "watch and 2 shadows"} {
			b.Run(fmt.Sprintf("replicas=%d/%s", replicas, who), func(b *testing.B) {
				r := fleetOf(b, replicas)
				var shadows []policy.Config
				if who == "watch and 2 shadows" {
					for _, name := range []string{"lmetric", "token-load"} {
						cfg := policy.DefaultConfig()
						cfg.Name = name
						shadows = append(shadows, cfg)
					}
				}
				w, err := explain.New(explain.DefaultConfig(), "m", shadows, 1, explain.Deps{Log: slog.New(slog.DiscardHandler), Panicked: b.FailNow})
				require.NoError(b, err)
				step := func(message any, vs []view) []effect {
					if who == "nobody" {
						return r.m.step(r.now, message, vs)
					}
					batch := w.Batch()
					r.m.trace = batch
					effects := r.m.step(r.now, message, vs)
					if who != "router" {
						w.Take(batch)
					}
					w.Keep(batch)
					return effects
				}
				prompt, vs := ids(1, 1000), r.views()
				req := &stream.Request{ID: "x", Model: "m", N: 1, MaxTokens: new(256)}
				b.ReportAllocs()
				for b.Loop() {
					asked, ok := step(r.askFor(req, prompt), vs)[0].(reserve)
					if !ok {
						b.Fatal("not placed")
					}
					ticket, id := asked.place.Claim.Ticket, asked.place.Ref.ID
					step(&fleet.Granted{Ticket: ticket, Replica: id, Snapshot: snapOf(vs, id)}, vs)
					step(stream.Failed{Replica: id, Ticket: ticket}, vs)
				}
			})
		}
	}
}
