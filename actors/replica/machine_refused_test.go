package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// refusedAs has a request refused that is like others in that way.
func (b *bench) refusedAs(likeness fleet.Likeness) []effect {
	return b.step(fleet.AttemptFailed{
		Attempt: of(b.granted()), Failure: &engine.Failure{Kind: engine.Operator, Status: 401, Message: "no"}, Of: likeness,
	})
}

// refusesAll has as many unlike requests refused as it takes; the last one's effects are returned.
func (b *bench) refusesAll() []effect {
	for range refusalsMax - 1 {
		b.failed(b.granted(), engine.Operator)
		require.True(b.t, has[hurryProbe](b.last), "the probe has our key: it tells whether that holds for all")
		require.NotEqual(b.t, fleet.Degraded, b.m.state)
	}
	return b.failed(b.granted(), engine.Operator)
}

// TestOneRequestNeverDegrades: however often an engine refuses what has something in common, it may be for what that is. Refusals of
// requests without anything in common show that it refuses us.
func TestOneRequestNeverDegrades(t *testing.T) {
	like := func(head uint64, tenant, adapter string) fleet.Likeness {
		return fleet.Likeness{Head: head, Whole: head, Tenant: tenant, LoRA: adapter}
	}
	among := func(l fleet.Likeness, tenants, adapters bool) fleet.Likeness {
		l.Several = fleet.Several{Tenants: tenants, Adapters: adapters}
		return l
	}
	for name, c := range map[string]struct {
		refused  []fleet.Likeness
		degraded bool
	}{
		"one request":         {[]fleet.Likeness{like(1, "a", "")}, false},
		"one again and again": {[]fleet.Likeness{like(1, "a", ""), like(1, "a", ""), like(1, "a", ""), like(1, "a", "")}, false},
		"that share a block, whoever asks": {[]fleet.Likeness{
			{Head: 1, Whole: 1, Tenant: "a"}, {Head: 1, Whole: 2, Tenant: "b"}, {Head: 1, Whole: 3, Tenant: "c"}, {Head: 1, Whole: 4, Tenant: "d"},
		}, false},
		"two":                         {[]fleet.Likeness{like(1, "a", ""), like(2, "b", "")}, false},
		"three of one tenant":         {[]fleet.Likeness{like(1, "a", ""), like(2, "a", ""), like(3, "a", "")}, true},
		"two of them again and again": {[]fleet.Likeness{like(1, "a", ""), like(2, "a", ""), like(1, "a", ""), like(2, "a", "")}, false},
		"of one tenant among several": {[]fleet.Likeness{
			among(like(1, "a", ""), true, false), among(like(2, "a", ""), true, false), among(like(3, "a", ""), true, false), among(like(4, "a", ""), true, false),
		}, false},
		"of two tenants among several": {[]fleet.Likeness{
			among(like(1, "a", ""), true, false), among(like(2, "a", ""), true, false), among(like(3, "b", ""), true, false),
		}, true},
		"of one adapter among several": {[]fleet.Likeness{
			among(like(1, "a", "x"), true, true), among(like(2, "b", "x"), true, true), among(like(3, "c", "x"), true, true),
		}, false},
		"of the model and an adapter": {[]fleet.Likeness{
			among(like(1, "a", "x"), true, true), among(like(2, "b", ""), true, true), among(like(3, "c", "x"), true, true),
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testConfig(), withoutFeed)
			b.probed(status("a"))
			for i, l := range c.refused {
				require.Equal(t, fleet.Ready, b.m.state, "after %d", i)
				b.refusedAs(l)
			}
			require.Equal(t, c.degraded, b.m.state == fleet.Degraded)
			if c.degraded {
				require.Contains(t, b.m.snapshot().LastError, "nothing in common")
			}
		})
	}
}

// TestRefusalsInARow: an answer between them shows that not all are refused, and another life of the engine begins anew. Of many of one
// tenant only the last are remembered.
func TestRefusalsInARow(t *testing.T) {
	for name, between := range map[string]func(*bench){
		"a first token": func(b *bench) { b.step(fleet.Started{Ticket: b.granted()}) },
		"an answer":     func(b *bench) { b.step(fleet.End{Ticket: b.granted(), Reason: ledger.Finished}) },
		"a new life":    func(b *bench) { b.probed(status("b")) },
	} {
		b := newBench(t, testConfig(), withoutFeed)
		b.probed(status("a"))
		b.failed(b.granted(), engine.Operator)
		b.failed(b.granted(), engine.Operator)
		between(b)
		b.failed(b.granted(), engine.Operator)
		b.failed(b.granted(), engine.Operator)
		require.Equal(t, fleet.Ready, b.m.state, name)
		b.failed(b.granted(), engine.Operator)
		require.Equal(t, fleet.Degraded, b.m.state, name)
	}
	b := newBench(t, testConfig(), withoutFeed)
	b.probed(status("a"))
	for n := range uint64(3 * unlikesMax) {
		b.refusedAs(fleet.Likeness{Head: n, Tenant: "a", Several: fleet.Several{Tenants: true}})
	}
	require.Len(t, b.m.refusals, unlikesMax)
	require.Equal(t, fleet.Ready, b.m.state)
	b.refusedAs(fleet.Likeness{Head: 99, Tenant: "b", Several: fleet.Several{Tenants: true}})
	require.Equal(t, fleet.Degraded, b.m.state)
}

// TestDegraded: an engine that refuses us is left alone for a time that doubles, though its probes succeed.
func TestDegraded(t *testing.T) {
	b := newBench(t, testConfig(), withoutFeed)
	b.probed(status("a"))
	for _, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		want := time.Duration(seconds) * time.Second
		b.refusesAll()
		require.Equal(t, fleet.Degraded, b.m.state)
		require.NotEmpty(t, b.m.snapshot().LastError)
		since := b.now
		require.Equal(t, ledger.Closed, b.reserve(b.claim()))
		for b.m.state == fleet.Degraded {
			b.now = b.now.Add(-time.Second / 2)
			b.probed(status("a"))
		}
		require.Equal(t, fleet.Ready, b.m.state)
		require.Empty(t, b.m.snapshot().LastError)
		require.GreaterOrEqual(t, b.now.Sub(since), want)
		require.Less(t, b.now.Sub(since), want+2*time.Second)
	}
	b.step(fleet.Started{Ticket: b.granted()})
	b.refusesAll()
	require.Equal(t, time.Second, b.m.distrustedTo.Sub(b.now), "a first token forgives all")
}

// TestDistrustKeepsLegs: attempts that run stay booked, and those that come from before do not prolong it.
func TestDistrustKeepsLegs(t *testing.T) {
	b := newBench(t, testConfig(), withoutFeed)
	s := status("a")
	s.Seats = ptr(20)
	b.probed(s)
	before := make([]scoring.Ticket, 0, refusalsMax)
	for range refusalsMax {
		before = append(before, b.granted())
	}
	b.refusesAll()
	until := b.m.distrustedTo
	for _, ticket := range before {
		require.Equal(t, ledger.Reserved, b.m.ledger.State(ticket))
		b.failed(ticket, engine.Operator)
	}
	require.Equal(t, until, b.m.distrustedTo)
	require.Equal(t, 1, b.m.distrusts)
}

// TestAMissingAdapterIsOffTheList: and nothing else is concluded. It is offered again after a time that doubles, or once the engine has
// stopped listing it.
func TestAMissingAdapterIsOffTheList(t *testing.T) {
	listing := func(names ...string) engine.Status {
		s := status("a")
		s.Adapters = names
		return s
	}
	b := newBench(t, testConfig(), withoutFeed)
	b.probed(listing("x", "y"))
	missing := func() {
		b.step(fleet.AttemptFailed{
			Attempt: of(b.granted()), Failure: &engine.Failure{Kind: engine.Operator, Status: 404, Missing: true, Message: "no x"},
			Of: fleet.Likeness{Head: b.next, LoRA: "x"},
		})
	}
	for _, seconds := range []int{1, 2, 4} {
		missing()
		since := b.now
		require.Equal(t, []string{"y"}, b.m.snapshot().Adapters)
		require.True(t, b.m.snapshot().Has(""), "the model is there")
		b.now = since.Add(-time.Second)
		b.probed(listing("x", "y"))
		require.Equal(t, []string{"y"}, b.m.snapshot().Adapters, "listed it was before")
		at, ok := b.m.nextTick()
		require.True(t, ok)
		require.Equal(t, time.Duration(seconds)*time.Second, at.Sub(since))
		b.now = at.Add(-time.Second)
		require.True(t, room(b.step(tick{})), "who waits for it hears of it")
		require.Equal(t, []string{"x", "y"}, b.m.snapshot().Adapters)
	}
	require.Equal(t, fleet.Ready, b.m.state)
	require.Empty(t, b.m.refusals)
	missing()
	b.probed(listing("y"))
	b.probed(listing("x", "y"))
	require.Equal(t, []string{"x", "y"}, b.m.snapshot().Adapters, "it was loaded meanwhile")
	missing()
	require.Equal(t, []string{"y"}, b.m.snapshot().Adapters)
	b.probed(func() engine.Status { s := listing("x", "y"); s.Incarnation = "b"; return s }())
	require.Equal(t, []string{"x", "y"}, b.m.snapshot().Adapters, "another life")
}

// TestAnAbsurdRetryAfterIsCapped: what it was is told, and forgotten with the cooling, or with the engine's life.
func TestAnAbsurdRetryAfterIsCapped(t *testing.T) {
	b := reach(t, fleet.Ready)
	shed := func() {
		b.step(fleet.AttemptFailed{
			Attempt: of(b.granted()), Failure: &engine.Failure{Kind: engine.Shed, Status: 429, RetryAfter: time.Hour, Message: "full"},
		})
		require.Equal(t, 30*time.Second, b.m.snapshot().CoolingUntil.Sub(b.now))
		require.Contains(t, b.m.snapshot().CoolingWhy, "1h0m0s")
		require.Contains(t, b.m.snapshot().CoolingWhy, "full")
		require.Equal(t, "cooling", b.m.snapshot().Standing(b.now))
	}
	shed()
	b.now = b.m.coolingUntil.Add(-time.Second)
	b.step(tick{})
	require.Zero(t, b.m.snapshot().CoolingUntil)
	require.Empty(t, b.m.snapshot().CoolingWhy)
	require.Equal(t, "ready", b.m.snapshot().Standing(b.now))
	b.granted()
	b.m.ramp = nil
	shed()
	b.probed(status("b"))
	require.Zero(t, b.m.snapshot().CoolingUntil)
	require.Empty(t, b.m.snapshot().CoolingWhy)
}

// TestBreaksOfOneRequestAreNoStrike: what is sent again and again may be what breaks; answers that end without a finish are alike from
// their first block on, for what a model says to one prompt makes its engine leave it out.
func TestBreaksOfOneRequestAreNoStrike(t *testing.T) {
	for name, c := range map[string]struct {
		unfinished bool
		of         func(n uint64) fleet.Likeness
		struck     bool
	}{
		"the same prompt, broken":                     {false, func(uint64) fleet.Likeness { return fleet.Likeness{Head: 1, Whole: 1} }, false},
		"the same prompt, unfinished":                 {true, func(uint64) fleet.Likeness { return fleet.Likeness{Head: 1, Whole: 1} }, false},
		"prompts that share a block, broken":          {false, func(n uint64) fleet.Likeness { return fleet.Likeness{Head: 1, Whole: n} }, true},
		"prompts that share a block, unfinished":      {true, func(n uint64) fleet.Likeness { return fleet.Likeness{Head: 1, Whole: n} }, false},
		"prompts with nothing in common, unfinished":  {true, func(n uint64) fleet.Likeness { return fleet.Likeness{Head: n, Whole: n} }, true},
		"an unfinished one among broken ones, as all": {false, func(n uint64) fleet.Likeness { return fleet.Likeness{Head: n, Whole: n} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t, 100, false)
			w.m.cfg.BreaksMax = 3
			for n := range uint64(3) {
				failure := &engine.Failure{Kind: engine.Broken, Unfinished: c.unfinished, Message: "no"}
				ticket := w.run(1)[0]
				w.at(0, fleet.AttemptFailed{Attempt: of(ticket), Failure: failure, Of: c.of(n)})
				w.at(0, fleet.End{Ticket: ticket, Reason: ledger.Failed})
			}
			require.Equal(t, c.struck, w.m.state == fleet.Down)
		})
	}
}
