package replica

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// bench is a machine, its clock and what it asked for last.
type bench struct {
	t    require.TestingT
	m    *machine
	now  time.Time
	last []effect // of the last step
	all  []effect // of all steps since somebody emptied it
	next uint64   // ticket numbers
}

var (
	withFeed    = engine.Capabilities{Kind: "sim", Sharing: engine.SharingFromDispatch, ConfirmsAbort: true, KVEvents: true}
	withoutFeed = engine.Capabilities{Kind: "llamacpp", LingerBound: 3 * time.Second}
)

// testConfig is the default, but for requests that are on their way for much less than a step.
func testConfig() Config {
	cfg := DefaultConfig("r", "m")
	cfg.ReachWait = 10 * time.Millisecond
	return cfg
}

func newBench(t require.TestingT, cfg Config, caps engine.Capabilities) *bench {
	b := &bench{t: t, now: start}
	b.m = newMachine(start, cfg, caps, rand.New(rand.NewPCG(1, 2)), life{}, 0, &fleet.Snapshot{ID: cfg.ID, Epoch: 1, State: fleet.Starting})
	b.last = b.m.start(start)
	return b
}

// step lets a second pass and the machine take a message.
func (b *bench) step(message any) []effect {
	b.now = b.now.Add(time.Second)
	b.last = b.m.step(b.now, message)
	b.all = append(b.all, b.last...)
	inTable(b.t, b.last)
	return b.last
}

// inTable fails unless the table of states knows each change.
func inTable(t require.TestingT, effects []effect) {
	for _, e := range effects {
		if e, ok := e.(entered); ok {
			on, known := e.from.Exit(e.to)
			require.True(t, known, "from %s to %s: %s", e.from, e.to, e.why)
			require.NotEmpty(t, on)
		}
	}
}

// status is what an engine of 100 blocks of 16 tokens and 4 seats says of itself.
func status(evidence string) engine.Status {
	return engine.Status{
		Model: "engine-model", Incarnation: evidence,
		BlockTokens: ptr(16), KVBlocks: ptr(100), Seats: ptr(4), SequenceTokens: ptr(1000),
		Load: engine.Load{UsedBlocks: ptr(0), RunningSequences: ptr(0)},
	}
}

func ptr[T any](v T) *T { return &v }

// probed is the answer to a probe that was sent half a second before it.
func (b *bench) probed(s engine.Status) []effect {
	return b.step(Probed{Status: s, Began: b.now.Add(time.Second / 2)})
}

func (b *bench) probeFailed(kind engine.FailKind) []effect {
	return b.step(ProbeFailed{
		Failure: &engine.Failure{Kind: kind, Err: errors.New("no")}, Began: b.now.Add(time.Second / 2),
	})
}

func (b *bench) failed(t scoring.Ticket, kind engine.FailKind) []effect {
	return b.step(fleet.AttemptFailed{Attempt: of(t), Failure: &engine.Failure{Kind: kind, Message: "no"}, Of: unlike(t)})
}

// unlike is what a ticket's request has in common with those of others: nothing.
func unlike(t scoring.Ticket) fleet.Likeness {
	return fleet.Likeness{Tenant: "default", Head: t.Number, Whole: t.Number}
}

// of is an attempt of a ticket of which nothing is to be booked.
func of(t scoring.Ticket) fleet.Attempt { return fleet.Attempt{Claim: ledger.Claim{Ticket: t}} }

// claim asks for a seat and 10 blocks.
func (b *bench) claim() ledger.Claim {
	b.next++
	return ledger.Claim{
		Ticket: scoring.Ticket{Boot: 1, Number: b.next}, PrivateBlocks: 10, Seats: 1, SequenceTokens: 160,
		PromptTokens: 100, PrefillTokens: 100, PredictedOutputTokens: 40,
	}
}

// reserve asks for a claim at the present life and says how it was answered.
func (b *bench) reserve(c ledger.Claim) ledger.Reason {
	return b.reserveAt(c, b.m.life.incarnation)
}

func (b *bench) reserveAt(c ledger.Claim, incarnation uint64) ledger.Reason {
	b.step(&fleet.Reserve{Claim: c, Incarnation: incarnation})
	if g, ok := find[grant](b.last); ok {
		require.Equal(b.t, c.Ticket, g.ticket)
		require.False(b.t, has[refuse](b.last))
		return ledger.None
	}
	r, ok := find[refuse](b.last)
	require.True(b.t, ok, "every Reserve is answered")
	require.Equal(b.t, c.Ticket, r.ticket)
	return r.reason
}

// granted reserves a claim that is granted.
func (b *bench) granted() scoring.Ticket {
	c := b.claim()
	require.Equal(b.t, ledger.None, b.reserve(c))
	return c.Ticket
}

func find[E effect](effects []effect) (E, bool) {
	for _, e := range effects {
		if e, ok := e.(E); ok {
			return e, true
		}
	}
	var none E
	return none, false
}

func has[E effect](effects []effect) bool {
	_, ok := find[E](effects)
	return ok
}

func room(effects []effect) bool {
	for _, e := range effects {
		if p, ok := e.(publish); ok && p.room {
			return true
		}
	}
	return false
}

// reach brings a machine with a feed into a state.
func reach(t require.TestingT, to fleet.State) *bench {
	b := newBench(t, testConfig(), withFeed)
	if to == fleet.Starting {
		return b
	}
	b.probed(status("a"))
	if to == fleet.Warming {
		return b
	}
	b.step(FeedReady{1})
	switch to {
	case fleet.Degraded:
		b.probeFailed(engine.Operator)
	case fleet.Draining:
		b.granted()
		b.probed(status("a"))
		b.step(fleet.Drain{})
	case fleet.Down:
		b.probeFailed(engine.Refused)
		b.probeFailed(engine.Refused)
	case fleet.Gone:
		b.step(fleet.Drain{})
	case fleet.Starting, fleet.Warming, fleet.Ready, fleet.NumStates:
	}
	require.Equal(t, to, b.m.state)
	return b
}
