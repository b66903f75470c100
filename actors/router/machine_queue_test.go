package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring/ledger"
)

// TestQueueTimeoutZero: without a wait, what does not fit now is refused at the next tick, which is due at once.
func TestQueueTimeoutZero(t *testing.T) {
	cfg := testConfig()
	cfg.QueueTimeout = 0
	r := newRig(t, cfg, 1)
	r.site("a").fill()
	sub := r.submit(r.ask(1, 100, nil))
	r.pass(0)
	require.Equal(t, fault.Contended, r.fault(sub).Kind)
}

// TestQueueOrder: by arrival; what has had an attempt first; one that does not fit lets others pass, where nothing is kept for it.
func TestQueueOrder(t *testing.T) {
	cfg := testConfig()
	cfg.Policy.Name = "least-requests"
	r := newRig(t, cfg, 1)
	s := r.site("a")
	s.fill()
	at := func(seconds int, again bool, tokens int) *stream.Submit {
		sub := r.ask(seconds, tokens, new(16))
		sub.Arrival, sub.Again = start.Add(time.Duration(seconds)*time.Second), again
		return r.submit(sub)
	}
	large, third, second, head := at(1, false, 900), at(3, false, 100), at(2, false, 100), at(9, true, 100)
	s.free()
	s.hold(70)
	for s.ledger.Load().FreeSeats() > 1 {
		s.hold(1)
	}
	for _, want := range []*stream.Submit{head, second, third} {
		r.step(fleet.Room{})
		r.deliver()
		r.end(r.places(want)[0])
		r.deliver()
	}
	require.True(t, r.waits(large))
	s.free()
	r.step(fleet.Room{})
	r.deliver()
	require.Len(t, r.places(large), 1)
	r.empty()
}

// TestNewcomersDoNotOvertake: room of which the router has not heard yet goes to those who wait.
func TestNewcomersDoNotOvertake(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	s := r.site("a")
	s.fill()
	first := r.submit(r.ask(1, 100, new(16)))
	s.ledger.End(claimOf(1, 1).Ticket, ledger.Finished) // its Room is on its way
	second := r.submit(r.ask(2, 100, new(16)))
	require.Len(t, r.places(first), 1)
	require.True(t, r.waits(second))
}

// TestQueueBounds: at the bound newcomers are refused with the number; what was let in before comes back all the same.
func TestQueueBounds(t *testing.T) {
	cfg := testConfig()
	cfg.Queue.RequestsMax, cfg.Queue.TokensMax = 2, 500
	r := newRig(t, cfg, 1)
	r.site("a").fill()
	r.submit(r.ask(1, 100, nil))
	f := r.fault(r.submit(r.ask(2, 450, nil)))
	require.Equal(t, fault.Contended, f.Kind)
	require.Contains(t, f.Message, "500 tokens")
	require.Positive(t, f.RetryAfter)
	r.submit(r.ask(3, 100, nil))
	f = r.fault(r.submit(r.ask(4, 10, nil)))
	require.Contains(t, f.Message, "2 requests")
	again := r.ask(5, 450, nil)
	again.Again = true
	require.True(t, r.waits(r.submit(again)))
}

// TestDeadlineOrder: each is refused when its own time is up, wherever it stands and however many stand before it.
func TestDeadlineOrder(t *testing.T) {
	cfg := testConfig()
	cfg.ScanMax = 2
	r := newRig(t, cfg, 1)
	r.site("a").fill()
	var subs []*stream.Submit
	for i := range 6 {
		sub := r.ask(i, 100, nil)
		sub.Again = i%2 == 0 // these go to the head, in the order of their arrival
		sub.Arrival = start.Add(-time.Duration(i) * time.Second)
		subs = append(subs, r.submit(sub))
		r.now = r.now.Add(10 * time.Millisecond)
	}
	due := func(i int) time.Time {
		if subs[i].Again {
			return start.Add(time.Duration(10*i) * time.Millisecond).Add(cfg.QueueTimeout)
		}
		return subs[i].Arrival.Add(cfg.QueueTimeout)
	}
	for _, i := range []int{5, 3, 1, 0, 2, 4} {
		r.pass(due(i).Sub(r.now) - 1)
		require.True(t, r.waits(subs[i]), i)
		r.pass(1)
		require.Equal(t, fault.Contended, r.fault(subs[i]).Kind, i)
	}
	r.empty()
}

// TestAtTheDeadlineItIsTriedOnceMore: also one that no scan reaches.
func TestAtTheDeadlineItIsTriedOnceMore(t *testing.T) {
	cfg := testConfig()
	cfg.ScanMax = 1
	r := newRig(t, cfg, 1)
	s := r.site("a")
	s.hold(60)
	large := r.submit(r.ask(1, 900, new(16)))
	require.True(t, r.waits(large))
	s.hold(39)
	small := r.ask(2, 16, new(16))
	small.Arrival = small.Arrival.Add(time.Second)
	r.submit(small)
	require.True(t, r.waits(small))
	r.pass(cfg.QueueTimeout - time.Millisecond)
	s.ledger.End(claimOf(2, 0).Ticket, ledger.Finished)
	r.pass(2 * time.Millisecond)
	require.Equal(t, fault.Contended, r.fault(large).Kind)
	r.pass(time.Second)
	require.Len(t, r.places(small), 1)
}

// TestWithdraw in every phase: the answer is Withdrawn, once, and nothing is left of the submission.
func TestWithdraw(t *testing.T) {
	withdraw := func(sub *stream.Submit, number uint64) stream.Withdraw {
		return stream.Withdraw{Call: sub.Call, Number: number}
	}
	t.Run("while it waits", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		r.site("a").fill()
		sub := r.submit(r.ask(1, 100, nil))
		r.step(withdraw(sub, 7))
		require.Len(t, r.order(), 1, "of another submission")
		r.step(withdraw(sub, 1))
		require.Empty(t, r.order())
		r.empty()
		r.step(withdraw(sub, 1))
		require.Equal(t, []any{stream.Withdrawn{Number: 7}, stream.Withdrawn{Number: 1}, stream.Withdrawn{Number: 1}}, r.answers(sub), "also of none")
	})
	t.Run("whatever its number", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		r.site("a").fill()
		sub := r.submit(r.ask(1, 100, nil))
		r.step(withdraw(sub, 0))
		require.Equal(t, []any{stream.Withdrawn{Number: 0}}, r.answers(sub))
		r.empty()
	})
	t.Run("while it reserves", func(t *testing.T) {
		r := newRig(t, testConfig(), 2)
		sub := r.askFor(&stream.Request{N: 3, MaxTokens: new(16)}, ids(1, 100))
		r.step(sub)
		r.deliverOne(0)
		r.step(withdraw(sub, 1))
		require.Equal(t, []any{stream.Withdrawn{Number: 1}}, r.answers(sub))
		r.deliver()
		require.Len(t, r.answers(sub), 1)
		require.Equal(t, 3, r.back, "what was granted is given back")
		for _, s := range r.sites {
			require.True(t, s.ledger.Empty())
		}
		r.empty()
	})
	t.Run("while it reserves and is refused", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		sub := r.ask(1, 100, new(16))
		r.step(sub)
		r.step(withdraw(sub, 1))
		r.site("a").fill()
		r.deliver()
		require.Len(t, r.answers(sub), 1)
		r.empty()
	})
	t.Run("after it was placed", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		sub := r.submit(r.ask(1, 100, new(16)))
		require.Len(t, r.places(sub), 1)
		r.step(withdraw(sub, 1))
		require.Equal(t, []any{stream.Withdrawn{Number: 1}}, r.answers(sub)[1:], "whoever placed it is answered all the same")
		r.empty()
	})
	t.Run("and asked anew at once", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		sub := r.ask(1, 100, new(16))
		r.step(sub)
		r.step(withdraw(sub, 1))
		next := *sub
		next.Number = 2
		r.step(&next)
		r.deliver()
		require.Len(t, r.answers(sub), 2)
		placed, ok := r.answers(sub)[1].(stream.Placed)
		require.True(t, ok)
		require.EqualValues(t, 2, placed.Number)
		require.Equal(t, 1, r.back)
		require.Equal(t, 1, r.site("a").ledger.Load().SeatsBooked)
		r.empty()
	})
}

// TestSupersede: an instance that failed had the submission too; only the newest one counts.
func TestSupersede(t *testing.T) {
	for name, full := range map[string]bool{"while it waits": true, "while it reserves": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 1)
			if full {
				r.site("a").fill()
			}
			sub := r.ask(1, 100, new(16))
			r.step(sub)
			next := *sub
			next.Number = 2
			r.step(&next)
			r.site("a").free()
			r.step(fleet.Room{})
			r.deliver()
			r.pass(recheck)
			require.Len(t, r.answers(sub), 1)
			placed, ok := r.answers(sub)[0].(stream.Placed)
			require.True(t, ok)
			require.EqualValues(t, 2, placed.Number)
			require.Equal(t, 1, r.site("a").ledger.Load().SeatsBooked)
			r.empty()
		})
	}
}
