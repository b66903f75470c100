package replica

import (
	"math/rand/v2"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// An effect is something the shell does after a step.
type effect interface{ isEffect() }

type (
	// grant answers a Reserve.
	grant struct{ ticket scoring.Ticket }
	// refuse answers a Reserve.
	refuse struct {
		ticket scoring.Ticket
		reason ledger.Reason
	}
	// publish stores a new snapshot; room says that there may be more room than before.
	publish struct{ room bool }
	// hurryProbe asks the connection to probe at once.
	hurryProbe struct{}
	// tuneFeed tells the feed block size, capacity and life.
	tuneFeed struct{ tune }
	// voidIndex tells the feed that what it knows counts no more.
	voidIndex struct{}
	// entered reports a change of state.
	entered struct {
		from, to fleet.State
		why      string
	}
	// alarm reports something an operator should know.
	alarm struct{ what string }
	// sendCanary asks the engine for one token; its end comes as canaryDone.
	sendCanary struct {
		number uint64
		model  string // the engine's name of it
	}
	// cancelCanary gives the canary up that is under way; its end comes all the same.
	cancelCanary struct{}
	// giveUp has a process of ours that hangs ended and started anew.
	giveUp struct{ why string }
	// suspected reports a silence that looks like a hang.
	suspected struct{}
	// struck reports that the replica is taken out.
	struck struct{ kind strikeKind }
	// evict has attempts leave that run here, if there is another place for them.
	evict struct{ fleet.Leaving }
)

func (grant) isEffect()        {}
func (refuse) isEffect()       {}
func (publish) isEffect()      {}
func (hurryProbe) isEffect()   {}
func (tuneFeed) isEffect()     {}
func (voidIndex) isEffect()    {}
func (entered) isEffect()      {}
func (alarm) isEffect()        {}
func (sendCanary) isEffect()   {}
func (cancelCanary) isEffect() {}
func (giveUp) isEffect()       {}
func (evict) isEffect()        {}
func (suspected) isEffect()    {}
func (struck) isEffect()       {}

// machine decides for one replica: life cycle and ledger. It is pure: time is an argument, what is to be done is returned.
type machine struct {
	cfg   Config
	caps  engine.Capabilities
	epoch uint64

	state       fleet.State
	since       time.Time
	life        life
	told        bool // the engine has said its limits
	tuned       bool // the feed of this epoch knows them
	sampled     bool // the engine has told its own use at least once
	limits      scoring.Limits
	ledger      *ledger.Ledger
	engineModel string
	engineNames []string
	listing     []string        // adapters that the engine lists
	lacking     map[string]lack // those of them that it did not know when it was asked
	adapters    []string        // that requests may name
	engineLoad  engine.Load
	lastError   string

	failedProbes int
	unanswered   *time.Time    // since when a replica that has nothing to do has answered no probe in time; nil: it has
	mute         *time.Time    // when a process of ours that answers no probe is given up; nil: it answers, or was given up
	muteFor      time.Duration // after how long
	feedReady    bool
	feedBy       time.Time // ready without the feed at this time

	prefilledAt time.Time // when a ticket last waited for its first token

	answered   scoring.Ticket // the last Reserve's
	recovering bool
	awaited    int // announcements still to come
	openAt     time.Time

	sheds        int // in a row, without a first token between them
	coolingUntil time.Time
	coolingWhy   string
	refusals     unlikes // requests that it refused as if it refused us, likewise
	distrusts    int     // how often it was taken for one that refuses us, likewise
	distrustedTo time.Time

	serves bool      // it takes new work
	turned time.Time // since when it does, or does not

	watch   watch
	signs   signs
	strikes *supervise.Backoff
	rng     *rand.Rand // of the back-off's jitter
	ramp    *ramp      // nil: its seats are the only limit
	putOff  *putOff    // nil: no drain waits
	leaveBy *time.Time // draining: what still runs then is moved; nil: it may end
	keep    bool       // draining: it stays when it is empty, until it is asked back

	out []effect
}

// newMachine returns the machine of an actor's epoch. old is what the epoch before published, with the new one's number:
// what it says of the engine and of what lingers there still holds, what else it says of the ledger is void until the awaited
// calls have announced their tickets. A first epoch awaits none.
func newMachine(
	now time.Time, cfg Config, caps engine.Capabilities, rng *rand.Rand, l life, awaited int, old *fleet.Snapshot,
) *machine {
	m := &machine{
		cfg: cfg, caps: caps, epoch: old.Epoch, life: l, since: now, ledger: ledger.New(scoring.Limits{}),
		rng: rng, strikes: supervise.NewBackoff(cfg.Strikes), leaveBy: old.LeaveBy, keep: old.Kept,
		state: old.State, told: old.Told, limits: old.Load.Limits, coolingUntil: old.CoolingUntil, coolingWhy: old.CoolingWhy,
		engineModel: old.EngineModel, engineNames: old.EngineNames, adapters: old.Adapters, listing: old.Adapters, engineLoad: old.EngineLoad, lastError: old.LastError,
	}
	if m.told {
		m.ledger.SetLimits(m.limits)
	}
	for i := range old.Lingering {
		t := &old.Lingering[i]
		m.ledger.Restore(now, t.Claim, ledger.Running, t.Produced)
		m.ledger.Linger(t.Claim.Ticket, now, t.Until)
	}
	if m.state == fleet.Ready || m.state == fleet.Warming {
		// The children are new: a probe and the feed are awaited again, and requests with them.
		m.state, m.feedBy = fleet.Warming, now.Add(cfg.FeedWait)
	}
	m.watch.life, m.turned = now, now
	if m.life.known == nil {
		m.life.known = &known{}
	}
	m.signs = signs{token: now, silent: old.Held, held: old.Held}
	if old.Hung {
		m.watch.phase, m.watch.until, m.watch.notBefore = hung, now, now
		m.restartBy(now, now)
	}
	if awaited > 0 {
		m.recovering, m.awaited, m.openAt = true, awaited, now.Add(cfg.AnnounceWait)
	}
	return m
}

// start returns the effects of the beginning.
func (m *machine) start(now time.Time) []effect {
	m.out = nil
	m.emit(publish{})
	m.drained(now)
	return m.out
}

func (m *machine) emit(e effect) { m.out = append(m.out, e) }

// step takes one message and returns what is to be done, in order.
func (m *machine) step(now time.Time, message any) []effect {
	m.out = nil
	prefilling := m.ledger.Tickets(ledger.Reserved) > 0
	switch e := message.(type) {
	case *fleet.Reserve:
		m.reserve(now, e)
	case fleet.Started:
		if m.ledger.Start(e.Ticket, now) {
			m.computed(now, e.Ticket)
			m.served()
			m.emit(publish{room: m.climb(now)})
		}
	case fleet.Progress:
		if m.ledger.Grow(e.Ticket, e.Produced) {
			m.emit(publish{})
		}
	case fleet.End:
		if m.ledger.End(e.Ticket, e.Reason) {
			if e.Reason == ledger.Finished {
				m.watch.broken, m.refusals = nil, nil
			}
			m.freed(now)
		}
	case fleet.Linger:
		m.linger(now, &e.Attempt)
	case fleet.Late:
		m.late(now, e.Ticket)
	case fleet.AttemptFailed:
		m.attemptFailed(now, e)
	case fleet.Announced:
		m.announced(now, e)
	case Probed:
		m.probed(now, e)
	case ProbeFailed:
		m.probeFailed(now, e)
	case FeedReady:
		if e.Incarnation == m.life.incarnation {
			m.feedReady = true
			m.settle(now)
			m.emit(publish{})
		}
		if m.state == fleet.Starting || m.state == fleet.Down {
			m.emit(hurryProbe{}) // somebody is there
		}
	case fleet.Drain, fleet.Undrain:
		m.ordered(now, e)
	case fleet.Beats:
		m.beats(now, e)
	case canaryDone:
		m.canaryDone(now, e)
	case tick:
		m.tick(now)
	}
	m.expire(now)
	if prefilling && m.ledger.Tickets(ledger.Reserved) == 0 {
		m.prefilledAt = now
	}
	m.turn(now)
	return m.out
}

// turn notes when the replica begins or ceases to take new work.
func (m *machine) turn(now time.Time) {
	if serves := m.state.Routable() && !m.recovering && m.watch.phase != suspect; serves != m.serves {
		m.serves, m.turned = serves, now
	}
}

func (m *machine) reserve(now time.Time, r *fleet.Reserve) {
	m.answered = r.Claim.Ticket
	reason := ledger.Closed
	open := m.state.Routable() && !m.recovering && m.watch.phase < suspect
	if open && r.Incarnation == m.life.incarnation && !now.Before(m.coolingUntil) {
		busy := m.busy()
		if reason = m.ledger.Reserve(now, r.Claim); reason == ledger.None {
			m.watched(now, r, busy)
		}
	}
	m.emit(publish{})
	if reason != ledger.None {
		m.emit(refuse{r.Claim.Ticket, reason})
		return
	}
	m.emit(grant{r.Claim.Ticket})
}

// freed follows every end of a booking.
func (m *machine) freed(now time.Time) {
	m.emit(publish{room: true})
	m.drained(now)
}

// drained ends a drain when nothing is booked any more and nothing can be announced.
func (m *machine) drained(now time.Time) {
	if m.state == fleet.Draining && !m.keep && !m.recovering && m.ledger.Empty() {
		m.enter(now, fleet.Gone, "drained")
	}
}

// nextTick is when the machine wants a tick, if at all. The shell keeps one timer for it.
func (m *machine) nextTick() (time.Time, bool) {
	at, ok := m.nextExpire()
	sooner := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if m.recovering {
		sooner(m.openAt)
	}
	if m.state == fleet.Warming && m.tuned { // before that nothing but a probe moves it on
		sooner(m.feedBy)
	}
	if !m.coolingUntil.IsZero() {
		sooner(m.coolingUntil)
	}
	if m.mute != nil {
		sooner(*m.mute)
	}
	if offer, wanted := m.nextOffer(); wanted {
		sooner(offer)
	}
	if look, wanted := m.nextLook(); wanted {
		sooner(look)
	}
	if leave, wanted := m.nextLeave(); wanted {
		sooner(leave)
	}
	if m.putOff != nil {
		sooner(m.putOff.again)
	}
	if m.ramp != nil && m.ramp.full != nil {
		sooner(*m.ramp.full)
	}
	return at, ok
}

// attemptFailed ends or lingers the ticket and draws the conclusion about the engine. A ticket that is not booked belongs
// to another life of the engine, of which nothing is to be concluded.
func (m *machine) attemptFailed(now time.Time, e fleet.AttemptFailed) {
	ticket := e.Claim.Ticket
	booked := m.ledger.State(ticket) != ledger.Ended
	switch e.Failure.Kind {
	case engine.Shed:
		if booked {
			m.shed(now, e)
		}
		m.endFailed(now, ticket)
	case engine.Client, engine.Local:
		m.endFailed(now, ticket)
	case engine.Refused:
		m.endFailed(now, ticket)
		m.emit(hurryProbe{})
	case engine.Operator:
		if booked {
			m.refused(now, e)
		}
		m.endFailed(now, ticket)
	case engine.Broken:
		if booked {
			m.broke(now, e)
		}
		if m.caps.ConfirmsAbort {
			m.endFailed(now, ticket) // the attempt has returned, so the engine has let go
		} else {
			// The engine may still work on it: a broken connection says nothing about its blocks.
			m.linger(now, &e.Attempt)
		}
		m.emit(hurryProbe{})
	case engine.Stalled:
		m.linger(now, &e.Attempt)
		m.emit(hurryProbe{})
	case engine.NumFailKinds:
	}
}

func (m *machine) endFailed(now time.Time, t scoring.Ticket) {
	if m.ledger.End(t, ledger.Failed) {
		m.freed(now)
	} else {
		m.emit(publish{})
	}
}

func (m *machine) announced(now time.Time, a fleet.Announced) {
	if a.Epoch != m.epoch || !m.recovering {
		return
	}
	for i := range a.Tickets {
		t := &a.Tickets[i]
		switch {
		case m.foreign(&t.Attempt):
		case t.State == ledger.Lingering:
			if m.ledger.State(t.Claim.Ticket) == ledger.Ended {
				m.linger(now, &t.Attempt) // how long it has is not known: it gets the whole bound again
			}
		default:
			if m.ledger.Restore(now, t.Claim, t.State, t.Produced) && t.State == ledger.Reserved {
				m.watch.queue = append(m.watch.queue, prefill{
					ticket: t.Claim.Ticket, at: t.Began, work: fleet.Work{PromptTokens: t.Claim.PrefillTokens},
				})
			}
			m.watch.life = now
		}
	}
	m.emit(publish{})
	if m.awaited--; m.awaited == 0 {
		m.open(now)
	}
}

// open ends the wait for announcements.
func (m *machine) open(now time.Time) {
	m.recovering, m.awaited = false, 0
	m.freed(now)
}

func (m *machine) tick(now time.Time) {
	if m.recovering && !now.Before(m.openAt) {
		m.open(now)
	}
	if m.state == fleet.Warming {
		m.settle(now)
	}
	if !m.coolingUntil.IsZero() && !now.Before(m.coolingUntil) {
		m.cooled()
		m.ramp = m.halfOpen()
		m.emit(publish{room: true})
	}
	m.offerAgain(now)
	m.look(now)
	m.muted(now)
	m.leave(now)
	m.orderAgain(now)
	m.crest(now)
}

func (m *machine) enter(now time.Time, to fleet.State, why string) {
	from := m.state
	if from == to {
		m.emit(publish{})
		return
	}
	m.state, m.since = to, now
	m.ramp = nil
	if to == fleet.Ready {
		m.ramp = m.newRamp()
	}
	m.emit(entered{from, to, why})
	m.emit(publish{room: to.Routable()})
}

// snapshot is what others may know now.
func (m *machine) snapshot() *fleet.Snapshot {
	var lingering []ledger.Lingerer
	if !m.caps.ConfirmsAbort {
		lingering = m.ledger.Lingerers()
	}
	return &fleet.Snapshot{
		Lingering: lingering, Held: m.signs.held,
		ID: m.cfg.ID, Epoch: m.epoch, Incarnation: m.life.incarnation, State: m.state, Recovering: m.recovering,
		Told: m.told, Load: m.ledger.Load(), Answered: m.answered, CoolingUntil: m.coolingUntil, CoolingWhy: m.coolingWhy, EngineModel: m.engineModel, EngineNames: m.engineNames,
		Adapters: m.adapters, EngineLoad: m.engineLoad, LastError: m.lastError, Since: m.since,
		Turned: m.turned, Life: m.watch.showed, Seen: m.life.known.seen,
		Suspect: m.watch.phase == suspect, Hung: m.watch.phase == hung, Silent: m.state == fleet.Down && m.watch.phase == hung && m.watch.kind == hangs, QuotaSeats: m.ramp.quota(), StepP99: m.stepP99(),
		PrefilledAt: m.prefilledAt, LeaveBy: m.leaveBy, Kept: m.keep, Strikes: m.strikes.Strikes(),
	}
}
