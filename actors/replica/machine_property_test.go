package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// naive is what is booked, kept as a list beside the machine.
type naive struct {
	live  []*held
	ended map[scoring.Ticket]bool
	seen  time.Time // when the present life was last known to be there

	token  time.Time // the last one that this epoch has heard of, or its beginning
	there  time.Time // the process gave a sign of itself then, or later
	worked time.Time // likewise its core
	silent bool      // it owes an answer
	held   bool      // nothing stops to linger
}

type held struct {
	ticket  scoring.Ticket
	claim   ledger.Claim
	state   ledger.State
	granted time.Time
	lingers time.Time
	until   time.Time
}

func (n *naive) drop(gone func(*held) bool) {
	n.live = slices.DeleteFunc(n.live, func(h *held) bool {
		if gone(h) {
			n.ended[h.ticket] = true
			return true
		}
		return false
	})
}

func (n *naive) find(t scoring.Ticket) *held {
	for _, h := range n.live {
		if h.ticket == t {
			return h
		}
	}
	return nil
}

func (n *naive) end(t scoring.Ticket) { n.drop(func(h *held) bool { return h.ticket == t }) }

func (n *naive) linger(h *held, now time.Time, caps engine.Capabilities) {
	if h == nil || h.state == ledger.Lingering {
		return
	}
	h.state, h.lingers, h.until = ledger.Lingering, now, now.Add(caps.LingerBound)
	if caps.ConfirmsAbort {
		h.until = now.Add(time.Hour)
	}
}

// signs takes what a message shows of the engine.
func (n *naive) signs(message any) {
	there := n.there
	switch m := message.(type) {
	case fleet.Beats:
		if m.Last != nil && m.Last.After(n.token) {
			n.token, n.silent = *m.Last, false
			there = *m.Last
			if worked := there.Add(-20 * time.Millisecond); worked.After(n.worked) {
				n.worked = worked
			}
		}
	case Probed:
		there, n.silent = m.Began, false
	case ProbeFailed:
		if m.Failure.Kind != engine.Refused {
			n.silent = true
			return
		}
		there, n.silent = m.Began, false
	}
	if there.After(n.there) {
		n.there, n.silent = there, false
	}
}

// age ends what has lingered for as long as it may, by the last sign of the engine.
func (n *naive) age(now time.Time, after *fleet.Snapshot, caps engine.Capabilities, did map[string]int) {
	was := n.held
	leaves := after.State == fleet.Draining || after.State == fleet.Gone
	n.held = (after.Suspect || after.Hung || n.silent) && !leaves
	if n.held {
		return
	}
	by := n.there
	if leaves {
		by = now
	}
	for _, h := range n.live {
		if was && h.state == ledger.Lingering {
			did["put off"]++
			until := now.Add(caps.LingerBound)
			if caps.ConfirmsAbort {
				until = now.Add(time.Hour)
			}
			if until.After(h.until) {
				h.until = until
			}
		}
	}
	n.drop(func(h *held) bool {
		over := h.state == ledger.Lingering && !by.Before(h.until)
		if over {
			did["expired"]++
		}
		return over
	})
}

// walk is one run of the machine against the list.
type walk struct {
	*bench

	n         *naive
	published *fleet.Snapshot
	evidence  int // of the engine's present life
	did       map[string]int
}

// TestMachineAgainstList drives a machine through every message in any order. After every step: the ledger holds what the
// list holds; each Reserve got one answer, and none was granted out of turn or beyond the limits; what is published is
// what is so; room that grew was told; no timer is set that would fire for ever. At the end nothing is left.
func TestMachineAgainstList(t *testing.T) {
	did := map[string]int{}
	for range 40 {
		rapid.Check(t, func(t *rapid.T) { runMachine(t, did) })
	}
	t.Log(did)
	for _, what := range []string{
		"granted", "refused", "started", "grown", "ended", "lingered", "shed", "broken", "operator", "reborn", "kept over a rebirth",
		"down", "degraded", "recovered", "restored", "expired", "confirmed", "put off", "drained", "gone", "suspected", "hung", "revived",
	} {
		require.GreaterOrEqual(t, did[what], 20, "too few cases of %q", what)
	}
}

// well are the others of the model, one that knows any work and has nothing to do.
var well = []fleet.Peer{{ID: "b", Serves: true, Turned: start, Room: 1, Seen: &fleet.Seen{PromptTokens: 1 << 20}}}

func runMachine(t *rapid.T, did map[string]int) {
	caps := rapid.SampledFrom([]engine.Capabilities{withFeed, withoutFeed}).Draw(t, "engine")
	cfg := testConfig()
	cfg.HangLeast, cfg.HangBlind = 20*time.Millisecond, 20*time.Millisecond // a few ticks
	w := &walk{bench: newBench(t, cfg, caps), n: &naive{ended: map[scoring.Ticket]bool{}}, did: did}
	w.m.watch.peers = rapid.SampledFrom([][]fleet.Peer{nil, well, well, well}).Draw(t, "others")
	w.published = w.m.snapshot()
	t.Repeat(map[string]func(*rapid.T){
		"reserve":       w.reserveAny,
		"reserve again": w.reserveAny,
		"started": func(t *rapid.T) {
			h := w.pick(t)
			w.act(t, fleet.Started{Ticket: h.ticket})
			if h.state == ledger.Reserved {
				h.state = ledger.Running
				w.did["started"]++
			}
		},
		"progress": func(t *rapid.T) {
			h := w.pick(t)
			w.act(t, fleet.Progress{Ticket: h.ticket, Produced: scoring.Tokens(rapid.IntRange(0, 80).Draw(t, "produced"))})
			w.did["grown"]++
		},
		"end": func(t *rapid.T) {
			ticket := w.anyTicket(t)
			w.n.end(ticket)
			w.act(t, fleet.End{Ticket: ticket, Reason: ledger.Finished})
			w.did["ended"]++
		},
		"linger": func(t *rapid.T) {
			h := w.pick(t)
			w.act(t, fleet.Linger{Attempt: of(h.ticket)})
			w.n.linger(h, w.now, w.m.caps)
			w.did["lingered"]++
		},
		"fail":         w.fail,
		"probe":        w.probe,
		"another life": w.anotherLife,
		"probe fails":  w.probeFails,
		"feed": func(t *rapid.T) {
			w.act(t, FeedReady{w.m.life.incarnation})
		},
		"restart": w.restart,
		"canary": func(t *rapid.T) {
			var err error
			if rapid.Bool().Draw(t, "fails") {
				err = errors.New("no")
			}
			w.act(t, canaryDone{w.m.watch.canaries, err})
		},
		"beats": func(t *rapid.T) {
			at := w.now
			w.act(t, fleet.Beats{Last: &at, Peers: w.m.watch.peers})
		},
		"tick": w.tick,
		"drain": func(t *rapid.T) {
			if rapid.IntRange(0, 60).Draw(t, "rarely") > 0 {
				t.Skip("rarely")
			}
			w.act(t, fleet.Drain{})
			w.did["drained"]++
		},
	})
	for len(w.n.live) > 0 {
		ticket := w.n.live[0].ticket
		w.n.end(ticket)
		w.act(t, fleet.End{Ticket: ticket})
	}
	require.True(t, w.m.ledger.Empty(), "zero")
	ends := uint64(0)
	for _, n := range w.m.ledger.Counters().Ends {
		ends += n
	}
	require.GreaterOrEqual(t, ends, w.m.ledger.Counters().Grants, "once")
}

// act lets a moment pass, takes the message, and compares.
func (w *walk) act(t *rapid.T, message any) {
	before := w.m.snapshot()
	w.now = w.now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "ms")) * time.Millisecond)
	w.last = w.m.step(w.now, message)
	w.check(t, before)
	w.n.signs(message)
	w.n.age(w.now, w.m.snapshot(), w.m.caps, w.did)
}

func (w *walk) check(t *rapid.T, before *fleet.Snapshot) {
	after := w.m.snapshot()
	inTable(t, w.last)
	for _, e := range w.last {
		if _, ok := e.(publish); ok {
			w.published = after
		}
	}
	require.Equal(t, after, w.published, "what is published is what is so")
	if after.State.Routable() && !after.Recovering {
		grew := after.Load.FreeBlocks() > before.Load.FreeBlocks() || after.Load.FreeSeats() > before.Load.FreeSeats()
		if grew || !before.State.Routable() || before.Recovering {
			require.True(t, room(w.last), "room that grew is told")
		}
	}
	if after.Incarnation != before.Incarnation {
		require.True(t, has[voidIndex](w.last))
		require.True(t, has[tuneFeed](w.last))
	}
	if after.State != before.State {
		require.True(t, has[entered](w.last))
		w.did[after.State.String()]++
	}
	if after.Suspect && !before.Suspect {
		w.did["suspected"]++
	}
	if after.Hung && !before.Hung {
		w.did["hung"]++
	}
	if before.Hung && !after.Hung && after.Incarnation == before.Incarnation {
		w.did["revived"]++
	}
	if before.Recovering && !after.Recovering {
		w.did["recovered"]++
	}
}

// booked compares the ledger with the list.
func (w *walk) booked(t *rapid.T) {
	load := w.m.snapshot().Load
	require.Equal(t, len(w.n.live), load.Reserved+load.Running+load.Lingering)
	for _, h := range w.n.live {
		require.Equal(t, h.state, w.m.ledger.State(h.ticket))
	}
}

func (w *walk) pick(t *rapid.T) *held {
	if len(w.n.live) == 0 {
		t.Skip("nothing is booked")
	}
	return rapid.SampledFrom(w.n.live).Draw(t, "ticket")
}

func (w *walk) anyTicket(t *rapid.T) scoring.Ticket {
	return scoring.Ticket{Boot: 1, Number: uint64(rapid.IntRange(0, int(w.next)+1).Draw(t, "number"))} //nolint:gosec // small
}

func (w *walk) reserveAny(t *rapid.T) {
	c := w.claim()
	c.PrivateBlocks = scoring.Blocks(rapid.IntRange(1, 60).Draw(t, "blocks"))
	c.SequenceTokens = 900
	if rapid.IntRange(0, 9).Draw(t, "again") == 0 {
		c.Ticket = w.anyTicket(t)
	}
	incarnation := w.m.life.incarnation - uint64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "behind")) //nolint:gosec // 0 or 1
	before := w.m.snapshot()
	w.act(t, &fleet.Reserve{Claim: c, Incarnation: incarnation})
	granted, refused := has[grant](w.last), has[refuse](w.last)
	require.NotEqual(t, granted, refused, "every Reserve has one answer")
	if refused {
		w.did["refused"]++
		w.booked(t)
		return
	}
	require.True(t, before.State.Routable() && !before.Recovering && incarnation == before.Incarnation)
	require.False(t, w.now.Before(before.CoolingUntil))
	require.False(t, before.Suspect || before.Hung)
	after := w.m.snapshot().Load
	require.LessOrEqual(t, after.BookedBlocks, after.UsableBlocks(), "grant")
	require.LessOrEqual(t, after.SeatsBooked, after.UsableSeats(), "grant")
	require.Nil(t, w.n.find(c.Ticket), "once")
	require.False(t, w.n.ended[c.Ticket], "once")
	w.n.live = append(w.n.live, &held{ticket: c.Ticket, claim: c, granted: w.now})
	w.did["granted"]++
	w.booked(t)
}

func (w *walk) fail(t *rapid.T) {
	h := w.pick(t)
	kind := engine.FailKind(rapid.IntRange(0, int(engine.NumFailKinds)-1).Draw(t, "kind")) //nolint:gosec // an enum
	lingers := kind == engine.Stalled || kind == engine.Broken && !w.m.caps.ConfirmsAbort
	if !lingers {
		w.n.end(h.ticket)
	}
	head := rapid.Uint64Range(0, 3).Draw(t, "head")
	w.act(t, fleet.AttemptFailed{
		Attempt: of(h.ticket),
		Failure: &engine.Failure{Kind: kind, Missing: kind == engine.Operator && head == 0, RetryAfter: time.Duration(head) * time.Minute},
		Of:      fleet.Likeness{Head: head, Whole: rapid.Uint64Range(0, 9).Draw(t, "whole"), LoRA: "x"},
	})
	if lingers {
		w.n.linger(h, w.now, w.m.caps)
	}
	w.did[kind.String()]++
	w.booked(t)
}

// probe answers with the figures of an engine that runs nothing, or something.
func (w *walk) probe(t *rapid.T) {
	s := status(string(rune('a' + w.evidence)))
	now := w.now
	began := now.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "took")) * time.Millisecond)
	sequences := max(0, rapid.IntRange(-2, 1).Draw(t, "sequences"))
	s.Load.RunningSequences = &sequences
	incarnation := w.m.life.incarnation
	if incarnation > 0 && w.m.reborn(s, w.m.limitsOf(s)) {
		w.n.drop(func(h *held) bool { return h.granted.Before(w.n.seen.Add(-w.m.cfg.ReachWait)) })
		w.did["kept over a rebirth"] += len(w.n.live)
	}
	w.n.seen = began
	if !w.m.caps.ConfirmsAbort && sequences == 0 {
		w.n.drop(func(h *held) bool {
			confirmed := h.state == ledger.Lingering && h.lingers.Before(began) && h.lingers.Before(w.n.worked)
			if confirmed {
				w.did["confirmed"]++
			}
			return confirmed
		})
	}
	w.act(t, Probed{Status: s, Began: began})
	w.booked(t)
}

func (w *walk) anotherLife(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "rarely") > 0 {
		t.Skip("rarely")
	}
	w.evidence = (w.evidence + 1) % 26
	w.probe(t)
	w.did["reborn"]++
}

func (w *walk) probeFails(t *rapid.T) {
	kind := rapid.SampledFrom([]engine.FailKind{engine.Refused, engine.Broken, engine.Operator, engine.Shed}).Draw(t, "kind")
	failure := &engine.Failure{Kind: kind}
	if kind == engine.Broken && rapid.Bool().Draw(t, "late") {
		failure.Err = context.DeadlineExceeded
	}
	began := w.now
	if kind == engine.Refused {
		w.n.seen = began
		if w.m.state == fleet.Draining && w.m.failedProbes+1 >= w.m.cfg.FailedProbes {
			w.n.drop(func(*held) bool { return true })
		}
	}
	w.act(t, ProbeFailed{Failure: failure, Began: began})
	w.booked(t)
}

// tick lets the time come that the machine asked for, as often as it asks: it must be satisfied in the end.
func (w *walk) tick(t *rapid.T) {
	at, ok := w.m.nextTick()
	if !ok {
		return
	}
	if at.After(w.now) {
		w.now = at
	}
	before := w.m.snapshot()
	w.last = w.m.step(w.now, tick{})
	w.check(t, before)
	w.n.age(w.now, w.m.snapshot(), w.m.caps, w.did)
	w.booked(t)
	if at, ok = w.m.nextTick(); ok {
		require.True(t, at.After(w.now), "a timer that is due at once fires for ever")
	}
}

// restart begins a new epoch; all calls but some announce what they have.
func (w *walk) restart(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		t.Skip("rarely")
	}
	w.n.token, w.n.there, w.n.worked = w.now, time.Time{}, time.Time{} // the next one has seen nothing yet
	w.n.silent = w.n.held
	life := w.m.life
	next := restarted(w.bench, len(w.n.live))
	next.m.life = life
	*w.bench = *next
	w.published = w.m.snapshot()
	live := w.n.live
	w.n.live, w.n.ended = nil, map[scoring.Ticket]bool{} // what has ended is forgotten: routers repeat no ticket
	kept := func(h *held) bool { return h.state == ledger.Lingering && !w.m.caps.ConfirmsAbort }
	for _, h := range live {
		if kept(h) {
			h.granted, h.lingers = w.now, w.now
			w.n.live = append(w.n.live, h)
		}
	}
	silent := 0
	for i, h := range live {
		if rapid.IntRange(0, 9).Draw(t, "silent") == 0 {
			silent++
			continue
		}
		if !kept(h) {
			h.granted = w.now
			w.n.live = append(w.n.live, h)
		}
		before := w.m.snapshot()
		w.last = w.m.step(w.now, fleet.Announced{Epoch: w.m.epoch, Tickets: []fleet.Announcement{
			{Attempt: fleet.Attempt{Claim: h.claim, Incarnation: w.m.life.incarnation}, State: h.state},
		}})
		if h.state == ledger.Lingering && !kept(h) {
			h.state = ledger.Running
			w.n.linger(h, w.now, w.m.caps)
		}
		w.check(t, before)
		w.n.age(w.now, w.m.snapshot(), w.m.caps, w.did)
		require.Equal(t, i+1 < len(live) || silent > 0, w.m.recovering)
		w.did["restored"]++
	}
	w.booked(t)
}
