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

// TestWhatNobodyHasHeardOfLingers: a request may tell of an attempt's end before an instance of the actor has asked it what
// it has there, and then it has nothing to announce any more. What the engine holds is booked by those words.
func TestWhatNobodyHasHeardOfLingers(t *testing.T) {
	linger := func(a fleet.Attempt) any { return fleet.Linger{Attempt: a} }
	failed := func(kind engine.FailKind) func(a fleet.Attempt) any {
		return func(a fleet.Attempt) any {
			return fleet.AttemptFailed{Attempt: a, Failure: &engine.Failure{Kind: kind, Message: "no"}}
		}
	}
	now := func(a *fleet.Attempt, _ *bench) { a.Incarnation = 1 }
	for name, c := range map[string]struct {
		caps  engine.Capabilities
		words func(a fleet.Attempt) any
		how   func(a *fleet.Attempt, b *bench)
		want  ledger.State
	}{
		"given up":                       {withoutFeed, linger, now, ledger.Lingering},
		"given up, the engine confirms":  {withFeed, linger, now, ledger.Lingering},
		"stalled":                        {withoutFeed, failed(engine.Stalled), now, ledger.Lingering},
		"stalled, the engine confirms":   {withFeed, failed(engine.Stalled), now, ledger.Lingering},
		"broken":                         {withoutFeed, failed(engine.Broken), now, ledger.Lingering},
		"broken, the engine has let go":  {withFeed, failed(engine.Broken), now, ledger.Ended},
		"refused":                        {withoutFeed, failed(engine.Refused), now, ledger.Ended},
		"shed":                           {withoutFeed, failed(engine.Shed), now, ledger.Ended},
		"of a life that is over":         {withoutFeed, linger, func(a *fleet.Attempt, _ *bench) { a.Incarnation = 0 }, ledger.Ended},
		"ranked for a life that is over": {withoutFeed, linger, func(a *fleet.Attempt, b *bench) { a.Began = b.now }, ledger.Lingering},
		"ended by this instance": {withoutFeed, linger, func(a *fleet.Attempt, b *bench) {
			now(a, b)
			require.Equal(t, ledger.None, b.reserve(a.Claim))
			b.step(fleet.End{Ticket: a.Claim.Ticket})
		}, ledger.Ended},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testConfig(), c.caps)
			b.probed(status("a"))
			b = restarted(b, 0)
			b.probed(status("a"))
			b.step(FeedReady{1})
			require.Equal(t, fleet.Ready, b.m.state)
			a := fleet.Attempt{Claim: b.claim(), Produced: 60}
			a.Claim.SequenceTokens = 500
			c.how(&a, b)
			b.step(c.words(a))
			require.Equal(t, c.want, b.m.ledger.State(a.Claim.Ticket))
			load := b.m.snapshot().Load
			if c.want == ledger.Ended {
				require.Zero(t, load.BookedBlocks)
				return
			}
			require.True(t, has[publish](b.last))
			require.Greater(t, load.BookedBlocks, scoring.Blocks(10), "what it has grown past its claim too")
			require.Zero(t, b.m.strikes.Strikes()+len(b.m.watch.broken), "nothing is concluded from what nobody knew of")
			b.step(fleet.Announced{Epoch: 2, Tickets: []fleet.Announcement{{Attempt: a, State: ledger.Lingering}}})
			b.step(fleet.End{Ticket: a.Claim.Ticket})
			require.True(t, b.m.ledger.Empty())
		})
	}
}

// estate is an actor's machine that fails, and its next instance.
type estate struct {
	t      *testing.T
	now    time.Time
	ref    *fleet.Ref
	memory *Memory
	d      *Machine
}

func newEstate(t *testing.T, caps engine.Capabilities) *estate {
	t.Helper()
	e := &estate{t: t, now: start, ref: fleet.NewRef("r", "m", &stub{caps: caps}, nil), memory: NewMemory()}
	e.begin()
	e.hear(Probed{Status: status("a"), Began: e.now})
	e.hear(FeedReady{1})
	return e
}

func (e *estate) begin() {
	e.d = NewMachine(e.now, testConfig(), e.ref, e.memory, func(uint64) int { return 0 }, deafShell{})
}

func (e *estate) hear(message any) {
	e.now = e.now.Add(time.Millisecond)
	e.d.Message(e.now, message, deafShell{})
}

// fail has the actor panic at a message, and begins its next instance.
func (e *estate) fail(message any) {
	e.d.Fail(message)
	require.True(e.t, e.ref.Snapshot().Recovering)
	e.begin()
}

// TestWhatAnActorFailedAt: of the message that its actor broke at, the next instance takes what nobody would say again.
func TestWhatAnActorFailedAt(t *testing.T) {
	later := start.Add(time.Hour)
	claim := func(e *estate) fleet.Attempt {
		c := ledger.Claim{Ticket: scoring.Ticket{Boot: 1, Number: 1}, PrivateBlocks: 10, Seats: 1, PromptTokens: 100, SequenceTokens: 160}
		e.hear(&fleet.Reserve{Claim: c, Incarnation: 1})
		require.Equal(e.t, ledger.Reserved, e.d.State(c.Ticket))
		return fleet.Attempt{Claim: c, Incarnation: 1, Began: e.now}
	}
	for name, c := range map[string]struct {
		at   func(e *estate) any
		then func(t *testing.T, e *estate)
	}{
		"a ticket that is given up": {
			func(e *estate) any { return fleet.Linger{Attempt: claim(e)} },
			func(t *testing.T, e *estate) { require.Equal(t, 1, e.ref.Snapshot().Load.Lingering) },
		},
		"a ticket that broke": {
			func(e *estate) any {
				return fleet.AttemptFailed{Attempt: claim(e), Failure: &engine.Failure{Kind: engine.Broken}}
			},
			func(t *testing.T, e *estate) { require.Equal(t, 1, e.ref.Snapshot().Load.Lingering) },
		},
		"a ticket that ends": { // of which nobody has anything to announce
			func(e *estate) any { return fleet.End{Ticket: claim(e).Claim.Ticket} },
			func(t *testing.T, e *estate) { require.True(t, e.d.Empty()) },
		},
		"an order to drain": {
			func(*estate) any { return fleet.Drain{Leave: &later, Keep: true} },
			func(t *testing.T, e *estate) {
				require.Equal(t, fleet.Draining, e.ref.Snapshot().State)
				require.Equal(t, &later, e.ref.Snapshot().LeaveBy)
				require.True(t, e.ref.Snapshot().Kept)
			},
		},
		"an order to serve again": {
			func(e *estate) any {
				e.hear(fleet.Drain{Keep: true})
				require.Equal(t, fleet.Draining, e.ref.Snapshot().State)
				return fleet.Undrain{}
			},
			func(t *testing.T, e *estate) { require.Equal(t, fleet.Warming, e.ref.Snapshot().State) },
		},
		"an order to go": {
			func(*estate) any { return fleet.Drain{} },
			func(t *testing.T, e *estate) { require.Equal(t, fleet.Gone, e.ref.Snapshot().State) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t, withoutFeed)
			e.fail(c.at(e))
			c.then(t, e)
			require.Empty(t, e.memory.inherit(), "once: what breaks two instances is not tried on a third")
		})
	}
}

// TestAnOldTokenIsNoLife: what an actor's next instance reads first from the pulse is a token of before it hung.
func TestAnOldTokenIsNoLife(t *testing.T) {
	e := newEstate(t, withoutFeed)
	claim := ledger.Claim{Ticket: scoring.Ticket{Boot: 1, Number: 1}, PrivateBlocks: 10, Seats: 1, PromptTokens: 100, SequenceTokens: 160}
	e.hear(&fleet.Reserve{Claim: claim, Incarnation: 1})
	beat := e.ref.Beat()
	e.now = e.now.Add(time.Millisecond)
	beat.Heard(e.now)
	for !e.ref.Snapshot().Hung {
		at, wanted := e.d.NextTick()
		require.True(t, wanted)
		e.now = at
		e.d.Tick(e.now, deafShell{})
	}
	e.hear(fleet.Linger{Attempt: fleet.Attempt{Claim: claim, Incarnation: 1}})
	e.fail(nil)
	look := func() {
		e.now = e.now.Add(time.Millisecond)
		e.d.Tick(e.now, deafShell{})
	}
	look()
	require.True(t, e.ref.Snapshot().Hung, "nothing has come since")
	require.True(t, e.ref.Snapshot().Held)
	beat.Heard(e.now)
	look()
	require.False(t, e.ref.Snapshot().Hung)
	require.False(t, e.ref.Snapshot().Held)
	require.Equal(t, 1, e.ref.Snapshot().Load.Lingering, "its bound begins anew")
}

// stub is an engine of which only the capabilities are asked.
type stub struct {
	engine.Engine

	caps engine.Capabilities
}

func (s *stub) Capabilities() engine.Capabilities { return s.caps }

// deafShell does nothing.
type deafShell struct{}

func (deafShell) Grant(scoring.Ticket)                            {}
func (deafShell) Refuse(scoring.Ticket, ledger.Reason)            {}
func (deafShell) Publish(*fleet.Snapshot, bool)                   {}
func (deafShell) HurryProbe()                                     {}
func (deafShell) TuneFeed(scoring.Tokens, scoring.Tokens, uint64) {}
func (deafShell) VoidIndex()                                      {}
func (deafShell) Entered(fleet.State, fleet.State, string)        {}
func (deafShell) Alarm(string)                                    {}
func (deafShell) SendCanary(uint64, string)                       {}
func (deafShell) CancelCanary()                                   {}
func (deafShell) Evict(fleet.Leaving)                             {}

// Others are one that is well and has been seen at prompts of some length.
func (deafShell) Others() []*fleet.Ref {
	ref := fleet.NewRef("b", "m", &stub{}, nil)
	ref.Publish(&fleet.Snapshot{ID: "b", State: fleet.Ready, Seen: &fleet.Seen{PromptTokens: 1000}})
	return []*fleet.Ref{ref}
}
