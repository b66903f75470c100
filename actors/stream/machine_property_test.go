package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// world is what is around a machine, at random: a router, replicas and their engines. It keeps its own account of what the
// machine was told and said, and checks one against the other.
type world struct {
	t    *rapid.T
	r    *rig
	req  *Request
	cfg  Config
	hits map[string]int

	submitted uint64          // the last submission
	open      map[uint64]bool // submissions that the router has not answered; true: withdrawn
	asks      []Ask           // of the last one
	calls     map[uint64]*generating
	tickets   map[uint64]*words
	legs      []*legModel
	ended     int
	fault     *fault.Fault
	usage     Usage
	announced []string
	restarted map[string]bool // replicas that were answered in epoch 7
	hedge     uint64          // the submission that asks for a second attempt; 0: there was none
	hedges    map[HedgeEvent]int
	hedging   uint64 // the attempt that it became
	recalled  bool   // it was withdrawn, and its answer is not waited for
	inquired  uint64 // the submission that the router was asked about and has said nothing of; 0: none
}

// generating is a Generate that has not returned.
type generating struct {
	id       uint64
	place    Placement
	base     int // what the leg had before
	maxes    int // what it may have at the end
	aborted  bool
	finished bool // the engine has said so
	produced int
}

// words are what a replica has heard of a ticket.
type words struct {
	placed        bool
	end, linger   int
	failed        []engine.FailKind
	finishedFirst bool
	confirms      bool
}

// legModel is an answer as a naive client would put it together.
type legModel struct {
	sent     []engine.Token // by the attempts that counted
	first    int            // the most that the first attempt that gave a token may give
	maxes    int            // the most that all of them may
	got      []Entry
	text     string
	finish   *Finish
	attempts int
}

const alphabet = "ab!"

func newWorld(t *rapid.T, hits map[string]int) *world {
	cfg := DefaultConfig()
	cfg.AttemptsMax, cfg.ResubmitsMax = 4, 2
	cfg.HedgeAfter = rapid.SampledFrom([]float64{0, 1, 3}).Draw(t, "hedge after")
	req := &Request{
		Resume: rapid.SampledFrom([]Resume{ResumeBest, ResumeBest, ResumeExact, ResumeOff, ResumeOff}).Draw(t, "resume"),
		Whole:  rapid.Bool().Draw(t, "whole"),
		N:      rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "n"), Stop: []string{"b!", "aab"}, StopTokenIDs: []uint32{idWord},
		Input: Input{Tokens: [][]uint32{{1, 2, 3}, {4}}[:rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "prompts")]},
	}
	return newWorldOf(t, hits, cfg, req)
}

func newWorldOf(t *rapid.T, hits map[string]int, cfg Config, req *Request) *world {
	w := &world{
		t: t, req: req, cfg: cfg, hits: hits, submitted: 1, open: map[uint64]bool{1: false},
		calls: map[uint64]*generating{}, tickets: map[uint64]*words{}, restarted: map[string]bool{}, hedges: map[HedgeEvent]int{}, legs: make([]*legModel, req.N*len(req.Input.Tokens)),
	}
	for i := range w.legs {
		w.legs[i] = &legModel{}
	}
	w.r = newRig(t, cfg, req)
	w.asks = w.r.m.waiting.asks
	return w
}

// step gives the machine an event and takes account of what it says.
func (w *world) step(event any) {
	w.announced = nil
	var effects []effect
	if f, ok := event.(frame); ok {
		f.at = w.r.now
		effects = w.r.m.read(f)
	} else {
		effects = w.r.m.step(w.r.now, event)
	}
	for _, e := range effects {
		w.take(e)
	}
	w.check()
}

func (w *world) take(e effect) {
	switch e := e.(type) {
	case toRouter:
		w.routed(e.message)
	case toReplica:
		w.told(e.ref, e.message)
	case startAttempt:
		l := w.legs[e.place.Leg]
		l.attempts++
		require.LessOrEqual(w.t, l.attempts, w.cfg.AttemptsMax)
		rivals := w.rivals(e.place.Leg)
		hedge := w.hedges[HedgeBegun] > 0 && w.hedging == 0
		require.Len(w.t, rivals, map[bool]int{false: 0, true: 1}[hedge], "two attempts count for one leg")
		w.hedging += map[bool]uint64{true: e.attempt}[hedge]
		for _, c := range rivals {
			require.NotEqual(w.t, c.place.Ref, e.place.Ref)
			require.Empty(w.t, l.sent)
		}
		base := 0
		want := slices.Clone(w.req.Input.Tokens[e.place.Leg/w.req.N])
		for _, t := range l.sent { // what the client has got is behind the prompt; lost IDs are there as text
			base += 1 + t.LostIDs
			if t.LostIDs > 0 {
				for _, c := range *t.Text {
					want = append(want, uint32(c)) //nolint:gosec // a letter
				}
			} else {
				want = append(want, t.ID)
			}
		}
		maxes := base + e.place.MaxTokens
		if base > 0 {
			maxes = min(l.first, maxes)
			l.maxes = maxes
		}
		w.hit(base > 0, "goes on")
		require.Equal(w.t, want, e.request.PromptTokens)
		require.Equal(w.t, maxes-base, e.request.MaxTokens)
		require.Positive(w.t, e.request.MaxTokens, "what is over goes nowhere")
		w.tickets[e.place.Claim.Ticket.Number].placed = true
		w.calls[e.attempt] = &generating{id: e.attempt, place: e.place, base: base, maxes: maxes}
	case abortAttempt:
		c := w.calls[e.attempt]
		require.NotNil(w.t, c, "the attempt has returned")
		require.False(w.t, c.aborted, "aborted twice")
		c.aborted = true
	case restartLeg:
		l := w.legs[e.leg]
		require.True(w.t, w.req.Whole, "what was sent is sent")
		require.NotEmpty(w.t, l.got)
		require.Nil(w.t, l.finish)
		*l = legModel{attempts: l.attempts}
		w.usage = e.usage
		w.hit(true, "begins anew")
	case observed:
		w.hit(true, e.outcome.String())
		require.Equal(w.t, e.gap != nil, e.outcome == Resumed || e.outcome == Restarted)
	case hedged:
		w.hedges[e.event]++
		w.hit(true, "hedge "+e.event.String())
		require.Equal(w.t, 1, w.hedges[e.event])
	case *appendLeg:
		require.Zero(w.t, w.ended)
		l := w.legs[e.leg]
		require.Nil(w.t, l.finish)
		l.got = append(l.got, e.entries...)
		for _, entry := range e.entries {
			l.text += entry.Text
		}
		w.usage = e.usage
	case finishLeg:
		require.Zero(w.t, w.ended)
		l := w.legs[e.leg]
		require.Nil(w.t, l.finish, "a leg ends once")
		f := e.finish
		l.finish = &f
		l.text += f.Text
		w.usage = e.usage
	case endResponse:
		w.ended++
		w.fault = e.fault
	}
}

func (w *world) routed(message any) {
	switch e := message.(type) {
	case *Submit:
		require.Greater(w.t, e.Number, w.submitted)
		require.Zero(w.t, w.ended)
		for n, withdrawn := range w.open {
			require.True(w.t, withdrawn || n == w.inquired, "submission %d is under way beside %d", n, e.Number)
			w.open[n] = true // of a router that was silent the new one takes its place
		}
		w.hit(w.inquired == w.submitted, "the router is silent")
		w.inquired = 0
		w.submitted, w.asks = e.Number, e.Legs
		w.open[e.Number] = false
		if e.Hedge {
			require.Zero(w.t, w.hedge, "once a request")
			require.Len(w.t, w.legs, 1)
			require.Empty(w.t, w.legs[0].sent)
			require.Len(w.t, w.rivals(0), 1)
			w.hedge = e.Number
		}
		w.hit(e.Again && !e.Hedge, "routed anew")
		w.hit(len(e.Legs) > 1 && e.Again, "joined a leg that waited")
		for _, a := range e.Legs {
			require.Less(w.t, w.legs[a.Leg].attempts, w.cfg.AttemptsMax)
			require.LessOrEqual(w.t, len(a.Excluded), w.legs[a.Leg].attempts, "a failure excludes at most one life of one engine")
			require.Equal(w.t, len(w.legs[a.Leg].sent) > 0, a.MaxTokens != nil)
		}
	case Inquire:
		require.Equal(w.t, w.submitted, e.Number)
		require.Zero(w.t, w.ended)
		w.inquired = e.Number
	case Withdraw:
		require.Equal(w.t, w.submitted, e.Number)
		if _, ok := w.open[e.Number]; ok {
			w.open[e.Number] = true
		}
		w.recalled = w.recalled || e.Number == w.hedge && w.ended == 0
	}
}

func (w *world) told(ref *fleet.Ref, message any) {
	of := func(t scoring.Ticket) *words {
		require.NotNil(w.t, w.tickets[t.Number])
		return w.tickets[t.Number]
	}
	switch e := message.(type) {
	case fleet.End:
		of(e.Ticket).end++
	case fleet.Linger:
		of(e.Claim.Ticket).linger++
	case fleet.AttemptFailed:
		of(e.Claim.Ticket).failed = append(of(e.Claim.Ticket).failed, e.Failure.Kind)
		w.hit(e.Failure.Message == "no token in time", "a stall")
	case fleet.Announced:
		w.announced = append(w.announced, string(ref.ID)+" "+replicaWord(e))
	}
}

func (w *world) hit(yes bool, what string) {
	if yes {
		w.hits[what]++
	}
}

// check holds the machine to the account after every step.
func (w *world) check() {
	require.LessOrEqual(w.t, w.ended, 1, "the response ends once")
	if len(w.legs[0].sent) > 0 {
		require.LessOrEqual(w.t, len(w.rivals(0)), 1, "the quicker goes on alone")
	}
	w.budget()
	done := w.ended == 1
	for _, c := range w.calls {
		done = done && c.aborted
	}
	require.Equal(w.t, done, w.r.m.done())
	completion := 0
	for i, l := range w.legs {
		n, text, finish := oracle(l.sent, l.maxes)
		for _, e := range l.got {
			completion += 1 + e.LostIDs
		}
		if l.finish != nil {
			require.Len(w.t, l.got, n, "leg %d", i)
			require.Equal(w.t, text, l.text, "leg %d", i)
			if finish != nil {
				require.Equal(w.t, *finish, finishWord(Finish{
					Reason: l.finish.Reason, StopString: l.finish.StopString, StopToken: l.finish.StopToken,
					CompletionTokens: l.finish.CompletionTokens,
				}))
			}
		} else if w.ended == 0 {
			require.Nil(w.t, finish, "leg %d is over", i)
			require.Len(w.t, l.got, n)
			require.True(w.t, strings.HasPrefix(text, l.text), "leg %d: %q of %q", i, l.text, text)
		}
		for j, e := range l.got {
			require.Equal(w.t, l.sent[j].ID, e.ID)
		}
	}
	require.Equal(w.t, completion, w.usage.CompletionTokens)
	if w.ended == 1 && w.fault == nil {
		for _, l := range w.legs {
			require.NotNil(w.t, l.finish, "well, but a leg has no finish")
		}
	}
}

// pick draws one of the attempts whose Generate has not returned.
func (w *world) pick() *generating {
	if len(w.calls) == 0 {
		w.t.Skip("none")
	}
	return w.calls[rapid.SampledFrom(sortedCalls(w.calls)).Draw(w.t, "attempt")]
}

func sortedCalls(calls map[uint64]*generating) []uint64 {
	var ids []uint64
	for id := range calls {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// placement grants a ticket for a leg on a replica that is not excluded.
func (w *world) placement(a Ask) Placement {
	var names []string
	for _, name := range []string{"a", "b", "c", "p1", "p2", "p3"} {
		if !slices.ContainsFunc(a.Excluded, func(x Exclusion) bool { return string(x.Replica) == name }) {
			names = append(names, name)
		}
	}
	p := w.r.place(a.Leg, rapid.SampledFrom(names).Draw(w.t, "replica"), rapid.IntRange(1, 12).Draw(w.t, "max tokens"))
	if took := time.Second; rapid.IntRange(0, 3).Draw(w.t, "predicted") > 0 {
		p.FirstToken = &took
	}
	w.tickets[p.Claim.Ticket.Number] = &words{confirms: p.Ref.Capabilities.ConfirmsAbort}
	return p
}

// grant answers a submission, which may be an older one.
func (w *world) grant(number uint64) {
	w.hit(number != w.submitted, "a place for an older submission")
	w.hit(w.ended > 0, "a place after the end")
	delete(w.open, number)
	p := Placed{Number: number}
	forgotten := false
	for _, a := range w.asks {
		place := w.placement(a)
		if rapid.IntRange(0, 9).Draw(w.t, "epoch") == 0 {
			place.Epoch = 6
			forgotten = forgotten || w.restarted[string(place.Ref.ID)]
		}
		p.Placements = append(p.Placements, place)
	}
	before := len(w.calls)
	current := number == w.submitted && w.ended == 0 && !w.lapsed(number)
	w.step(p)
	started := 0
	if current && !forgotten {
		started = len(p.Placements)
	}
	require.Len(w.t, w.calls, before+started, "all legs or none")
	w.hit(current && forgotten, "a grant that was forgotten")
}

func (w *world) answerable() uint64 {
	if len(w.open) == 0 {
		w.t.Skip("nothing is asked")
	}
	var numbers []uint64
	for n := range w.open {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return rapid.SampledFrom(numbers).Draw(w.t, "submission")
}

// frame has an engine send tokens and perhaps its end.
func (w *world) frame() {
	c := w.pick()
	if c.finished {
		w.t.Skip("it has ended")
	}
	f := frame{attempt: c.id}
	for range rapid.IntRange(0, 3).Draw(w.t, "tokens") {
		tok := engine.Token{ID: uint32(rapid.SampledFrom([]rune(alphabet)).Draw(w.t, "id"))} //nolint:gosec // a letter
		switch rapid.IntRange(0, 20).Draw(w.t, "kind") {
		case 0:
			tok.ID = idEOS
		case 1:
			tok.ID = idWord
		case 2, 3:
			text := rapid.StringOfN(rapid.SampledFrom([]rune(alphabet)), 1, 4, -1).Draw(w.t, "text")
			tok.LostIDs, tok.Text = rapid.IntRange(1, 2).Draw(w.t, "lost"), &text
			w.hit(true, "lost IDs")
		}
		f.event.Tokens = append(f.event.Tokens, tok)
	}
	l := w.legs[c.place.Leg]
	w.hit(c.aborted, "a frame of an aborted attempt")
	w.hit(!c.aborted && l.finish != nil, "a frame behind the end")
	if !c.aborted && l.finish == nil {
		if c.base == 0 && len(l.sent) == 0 {
			l.first, l.maxes = c.maxes, c.maxes // those of the one that gives the first token
		}
		l.sent = append(l.sent, f.event.Tokens...)
		c.produced += len(f.event.Tokens)
	}
	if rapid.IntRange(0, 9).Draw(w.t, "finish") == 0 {
		c.finished = true
		f = f.finish(rapid.SampledFrom([]engine.FinishReason{engine.FinishStop, engine.FinishLength, engine.FinishAbort}).Draw(w.t, "reason"))
	}
	w.step(f)
}

// returns has a Generate return.
func (w *world) returns(c *generating) {
	var err error
	switch {
	case c.finished:
	case c.aborted:
		err = errCancelled
	default:
		kind := engine.FailKind(rapid.IntRange(0, int(engine.NumFailKinds)-1).Draw(w.t, "failure"))
		err = failure(kind)
		w.hit(c.produced == 0, "fails before a token: "+kind.String())
		w.hit(c.produced > 0, "fails after tokens")
	}
	w.hit(c.aborted && c.finished, "finished while it was aborted")
	delete(w.calls, c.id)
	w.tickets[c.place.Claim.Ticket.Number].finishedFirst = err == nil
	w.step(attemptEnded{c.id, err})
}

func (w *world) leave(event any, what string) {
	if w.ended > 0 {
		w.t.Skip("over")
	}
	_, waits := w.open[w.submitted]
	w.hit(waits && len(w.calls) > 0, what+" while legs wait and run")
	w.hit(waits && len(w.calls) == 0, what+" while all wait")
	w.hit(!waits, what+" while all run")
	w.step(event)
	require.Equal(w.t, 1, w.ended)
	for _, c := range w.calls {
		require.True(w.t, c.aborted)
	}
}

func (w *world) replicaRestarts() {
	name := rapid.SampledFrom([]string{"a", "b", "p1"}).Draw(w.t, "replica")
	ref := w.r.ref(name)
	want := []string{name + " announced in 7"}
	for _, id := range sortedCalls(w.calls) {
		c := w.calls[id]
		if c.place.Ref != ref {
			continue
		}
		produced, state := -c.base, "reserved"
		for _, e := range w.legs[c.place.Leg].got {
			produced += 1 + e.LostIDs
		}
		if produced > 0 {
			state = "running"
		}
		if c.aborted {
			state, produced = "lingering", w.r.m.attempts[id].produced
		}
		want = append(want, fmt.Sprintf("%d %s %d", c.place.Claim.Ticket.Number, state, produced))
		w.hit(true, "announced "+state)
	}
	w.restarted[name] = true
	w.step(ReplicaRestarted{Ref: ref, Epoch: 7})
	require.Equal(w.t, []string{strings.Join(want, ", ")}, w.announced)
}

// TestMachineAtRandom lets everything around a request happen in any order.
func TestMachineAtRandom(t *testing.T) {
	hits := map[string]int{}
	for range 60 { // each is 100 worlds
		rapid.Check(t, func(t *rapid.T) { live(t, newWorld(t, hits)) })
	}
	t.Log(hits)
	floors(t, hits, []string{
		"routed anew", "joined a leg that waited", "a place for an older submission", "a place after the end", "lost IDs",
		"a grant that was forgotten", "a frame of an aborted attempt", "a frame behind the end", "fails after tokens", "finished while it was aborted",
		"leaves while legs wait and run", "leaves while all wait", "leaves while all run", "announced reserved", "announced running",
		"announced lingering", "rejected", "the router restarts while legs wait", "a submission is lost", "the router is silent",
		"a stall", "ended well", "goes on", "begins anew", "a leg finished", "a stop string", "a stop token",
	})
	for o := range NumOutcomes {
		floors(t, hits, []string{o.String()})
	}
	for k := range engine.NumFailKinds {
		floors(t, hits, []string{"fails before a token: " + k.String()})
	}
}

func floors(t *testing.T, hits map[string]int, whats []string) {
	t.Helper()
	for _, what := range whats {
		require.GreaterOrEqual(t, hits[what], 5, "%s: too rare for the test to mean anything", what)
	}
}

// live lets everything happen, more often than not what leads on.
func live(t *rapid.T, w *world) {
	if rapid.IntRange(0, 9).Draw(t, "waits") > 0 {
		w.grant(1)
	}
	happen(t, w)
}

func happen(t *rapid.T, w *world) {
	frames := func(*rapid.T) { w.frame() }
	actions := map[string]func(*rapid.T){
		"frame": frames, "another frame": frames, "a third frame": frames,
		"placed":       func(*rapid.T) { w.grant(w.answerable()) },
		"placed again": func(*rapid.T) { w.grant(w.answerable()) },
		"withdrawn": func(*rapid.T) {
			n := w.answerable()
			if !w.open[n] {
				w.t.Skip("not withdrawn")
			}
			delete(w.open, n)
			w.step(Withdrawn{Number: n})
		},
		"known or lost": func(*rapid.T) {
			n := w.inquired
			if n == 0 {
				w.t.Skip("nobody asks")
			}
			w.inquired = 0
			if _, open := w.open[n]; open {
				w.step(Known{Number: n})
				return
			}
			w.hit(n == w.submitted && w.ended == 0, "a submission is lost")
			w.step(Lost{Number: n})
		},
		"a submission is lost": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
				t.Skip("rarely")
			}
			delete(w.open, w.submitted)
		},
		"rejected": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
				t.Skip("rarely")
			}
			n := w.answerable()
			delete(w.open, n)
			w.hit(n == w.submitted && n != w.hedge && w.ended == 0, "rejected")
			w.step(Rejected{Number: n, Fault: fault.New(fault.NoReplica, "none")})
		},
		"router restarts": func(t *rapid.T) {
			_, waits := w.open[w.submitted]
			if w.ended == 0 && rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
				t.Skip("rarely")
			}
			w.hit(waits && w.ended == 0, "the router restarts while legs wait")
			clear(w.open)
			w.step(RouterRestarted{})
		},
		"replica restarts": func(*rapid.T) { w.replicaRestarts() },
		"returns": func(*rapid.T) {
			if c := w.pick(); c.finished || c.aborted || c.produced == 0 || rapid.IntRange(0, 4).Draw(w.t, "fails") == 0 {
				w.returns(c)
			}
		},
		"time passes": func(*rapid.T) {
			at, ok := w.r.m.nextTimeout()
			if !ok || rapid.IntRange(0, 5).Draw(w.t, "stalls") > 0 {
				w.r.later(time.Second / 2)
				w.step(timeout{})
				return
			}
			w.r.now = at
			w.step(timeout{})
		},
		"client leaves": func(t *rapid.T) {
			_, waits := w.open[w.submitted]
			if most := map[bool]int{false: 19, true: 4}[waits]; rapid.IntRange(0, most).Draw(t, "rarely") > 0 {
				t.Skip("rarely")
			}
			w.leave(rapid.SampledFrom([]any{clientGone{}, overrun{}, shutdown}).Draw(t, "how"), "leaves")
		},
	}
	t.Repeat(actions)
	t.Repeat(actions)
	w.drain()
	w.raced()
	w.hit(w.fault == nil, "ended well")
	for _, l := range w.legs {
		w.hit(l.finish != nil, "a leg finished")
		w.hit(l.finish != nil && l.finish.StopString != nil, "a stop string")
		w.hit(l.finish != nil && l.finish.StopToken != nil, "a stop token")
	}
}
