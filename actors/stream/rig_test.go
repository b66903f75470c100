package stream

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

var (
	confirming = engine.Capabilities{Kind: "confirms", ConfirmsAbort: true, KVEvents: true}
	plain      = engine.Capabilities{Kind: "plain", LingerBound: time.Second}
	losing     = engine.Capabilities{Kind: "losing", LingerBound: time.Second, LostMost: 3}
)

// tester is what both testing.T and rapid.T are.
type tester interface {
	require.TestingT
	Helper()
}

// rig drives a machine by hand and words its effects.
type rig struct {
	t    tester
	m    *machine
	now  time.Time
	of   *Budget
	refs map[string]*fleet.Ref
	n    uint64 // tickets given out
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newRig starts a machine. Replica names that begin with p are engines that don't confirm aborts and have no cache events.
func newRig(t tester, cfg Config, req *Request) *rig {
	t.Helper()
	if req.Input.Tokens == nil {
		req.Input.Tokens = [][]uint32{{1, 2, 3}}
	}
	req.N = max(1, req.N)
	r := &rig{t: t, now: epoch, refs: map[string]*fleet.Ref{}, of: NewBudget()}
	r.m = newMachine(cfg, req, Model{Decoder: letters{}, EndTokens: []uint32{idEOS, idEnd2}, Encode: encodeBytes}, nil, r.of.join())
	r.m.start(r.now)
	prompts := make([]Prompt, len(req.Input.Tokens))
	for i, ids := range req.Input.Tokens {
		prompts[i].IDs = ids
	}
	r.do(Encoded{Prompts: prompts})
	return r
}

func (r *rig) ref(name string) *fleet.Ref {
	if r.refs[name] == nil {
		caps := confirming
		if strings.HasPrefix(name, "p") {
			caps = plain
		}
		if name == "losing" {
			caps = losing
		}
		r.refs[name] = fleet.NewRef(scoring.ReplicaID(name), "m", &script{caps: caps}, nil)
	}
	return r.refs[name]
}

// do takes a step and returns its effects in words.
func (r *rig) do(event any) []string {
	if f, ok := event.(frame); ok {
		if f.at.IsZero() {
			f.at = r.now
		}
		return r.words(r.m.read(f))
	}
	return r.words(r.m.step(r.now, event))
}

// later moves the clock.
func (r *rig) later(d time.Duration) { r.now = r.now.Add(d) }

// place returns a placement of a leg with the next ticket.
func (r *rig) place(leg int, name string, maxTokens int) Placement {
	r.n++
	return Placement{
		Leg: leg, Ref: r.ref(name), Incarnation: 1, Epoch: 9, BlockTokens: 16, LongestTokens: 1000, MaxTokens: maxTokens,
		Claim: ledger.Claim{Ticket: scoring.Ticket{Boot: 1, Number: r.n}, PromptTokens: 3, PrefillTokens: 2}, OverlapTokens: 1,
	}
}

// run places the legs on replicas, in order, as the answer to the last submission. Attempts and tickets are numbered alike
// as long as every ticket is placed.
func (r *rig) run(maxTokens int, names ...string) []string {
	p := Placed{Number: r.m.asked}
	for i, name := range names {
		p.Placements = append(p.Placements, r.place(r.m.waiting.asks[i].Leg, name, maxTokens))
	}
	return r.do(p)
}

func (r *rig) words(effects []effect) []string {
	out := []string{}
	for _, e := range effects {
		out = append(out, word(e))
	}
	return out
}

func word(e effect) string {
	switch e := e.(type) {
	case toRouter:
		return routerWord(e.message)
	case toReplica:
		return fmt.Sprintf("%s: %s", e.ref.ID, replicaWord(e.message))
	case startAttempt:
		return fmt.Sprintf("start %d for leg %d on %s", e.attempt, e.place.Leg, e.place.Ref.ID)
	case abortAttempt:
		return fmt.Sprintf("abort %d", e.attempt)
	case *appendLeg:
		var text strings.Builder
		for _, entry := range e.entries {
			text.WriteString(entry.Text)
		}
		return fmt.Sprintf("leg %d: %d %q", e.leg, len(e.entries), text.String())
	case finishLeg:
		return fmt.Sprintf("leg %d: %s", e.leg, finishWord(e.finish))
	case placedLeg:
		return fmt.Sprintf("leg %d is on %s", e.leg, e.replica)
	case restartLeg:
		return fmt.Sprintf("leg %d begins anew", e.leg)
	case observed:
		w := fmt.Sprintf("%s %s with %d", e.class, e.outcome, e.carried)
		if e.gap != nil {
			w += " after " + e.gap.String()
		}
		return w
	case hedged:
		return "hedge " + e.event.String()
	case endResponse:
		if e.fault != nil {
			return "ended: " + e.fault.Kind.String()
		}
		return "ended well"
	}
	return "?"
}

func finishWord(f Finish) string {
	w := map[StopReason]string{StopEnd: "stop", StopLength: "length", StopToolCalls: "tool calls"}[f.Reason] + fmt.Sprintf(" after %d", f.CompletionTokens)
	if f.Text != "" {
		w += fmt.Sprintf(" with %q", f.Text)
	}
	if f.StopString != nil {
		w += fmt.Sprintf(" at %q", *f.StopString)
	}
	if f.StopToken != nil {
		w += fmt.Sprintf(" at token %d", *f.StopToken)
	}
	return w
}

func routerWord(message any) string {
	switch e := message.(type) {
	case *Submit:
		var w strings.Builder
		fmt.Fprintf(&w, "submit %d", e.Number)
		if e.Again {
			w.WriteString(" again")
		}
		if e.Begun {
			w.WriteString(" begun")
		}
		if e.Hedge {
			w.WriteString(" hedge")
		}
		for _, a := range e.Legs {
			fmt.Fprintf(&w, ", leg %d", a.Leg)
			if a.Produced > 0 {
				fmt.Fprintf(&w, " with %d of %d", a.Produced, a.Produced+*a.MaxTokens)
			}
			for _, x := range a.Excluded {
				fmt.Fprintf(&w, " not %s/%d", x.Replica, x.Incarnation)
			}
			if a.LastFault != nil {
				w.WriteString(" after " + a.LastFault.Kind.String())
			}
			if a.Lives {
				w.WriteString(" of one that lives")
			}
		}
		return w.String()
	case Withdraw:
		return fmt.Sprintf("withdraw %d", e.Number)
	case Inquire:
		return fmt.Sprintf("inquire %d", e.Number)
	case FirstToken:
		return fmt.Sprintf("first token of %s after %s", e.Replica, e.Took)
	case Steps:
		return fmt.Sprintf("steps of %s at %d, %s each", e.Replica, e.KVTokens, e.Gap)
	case Finished:
		return fmt.Sprintf("finished %d on %s with %d", e.Ticket.Number, e.Replica, e.Produced)
	case Failed:
		return fmt.Sprintf("failed %d on %s", e.Ticket.Number, e.Replica)
	}
	return "?"
}

func replicaWord(message any) string {
	switch e := message.(type) {
	case fleet.Started:
		return fmt.Sprintf("started %d", e.Ticket.Number)
	case fleet.Progress:
		return fmt.Sprintf("progress %d %d", e.Ticket.Number, e.Produced)
	case fleet.End:
		return fmt.Sprintf("end %d %s", e.Ticket.Number, e.Reason)
	case fleet.Linger:
		return fmt.Sprintf("linger %d", e.Claim.Ticket.Number)
	case fleet.Late:
		return fmt.Sprintf("late %d", e.Ticket.Number)
	case fleet.AttemptFailed:
		return fmt.Sprintf("attempt failed %d %s", e.Claim.Ticket.Number, e.Failure.Kind)
	case fleet.Learned:
		return fmt.Sprintf("learned %d %q", len(e.Prompt)+len(e.Output), e.Salt)
	case fleet.Cached:
		return fmt.Sprintf("cached %d of %d predicted", e.ReportedTokens, e.PredictedTokens)
	case fleet.Announced:
		w := []string{fmt.Sprintf("announced in %d", e.Epoch)}
		for _, a := range e.Tickets {
			w = append(w, fmt.Sprintf("%d %s %d", a.Claim.Ticket.Number, a.State, a.Produced))
		}
		return strings.Join(w, ", ")
	}
	return "?"
}

// tokens is a frame of an attempt.
func tokens(attempt uint64, ids ...uint32) frame {
	f := frame{attempt: attempt}
	for _, id := range ids {
		f.event.Tokens = append(f.event.Tokens, engine.Token{ID: id})
	}
	return f
}

// text is a frame of an attempt with a token a byte.
func text(attempt uint64, s string) frame {
	f := frame{attempt: attempt}
	for i := range len(s) {
		f.event.Tokens = append(f.event.Tokens, engine.Token{ID: uint32(s[i])})
	}
	return f
}

func (f frame) finish(why engine.FinishReason) frame {
	f.event.Finish = &engine.Finish{Reason: why}
	return f
}

func (f frame) cached(n int) frame {
	f.event.CachedTokens = &n
	return f
}

func failure(kind engine.FailKind) *engine.Failure {
	return &engine.Failure{Kind: kind, Status: 400, Message: "because"}
}

// with says that the effects contain these, in this order.
func with(t tester, got []string, want ...string) {
	t.Helper()
	at := 0
	for _, w := range want {
		found := false
		for ; at < len(got) && !found; at++ {
			found = got[at] == w
		}
		require.True(t, found, "%q is missing, or not in this place, in %q", w, got)
	}
}

// without says that no effect begins like this.
func without(t tester, got []string, prefix string) {
	t.Helper()
	for _, w := range got {
		require.False(t, strings.HasPrefix(w, prefix), "%q in %q", prefix, got)
	}
}

var shutdown = Shutdown{Fault: fault.New(fault.ShuttingDown, "down")}

var errCancelled = context.Canceled
