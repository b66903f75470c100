package replica

import (
	"fmt"
	"time"

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
		from, to State
		why      string
	}
	// alarm reports something an operator should know.
	alarm struct{ what string }
)

func (grant) isEffect()      {}
func (refuse) isEffect()     {}
func (publish) isEffect()    {}
func (hurryProbe) isEffect() {}
func (tuneFeed) isEffect()   {}
func (voidIndex) isEffect()  {}
func (entered) isEffect()    {}
func (alarm) isEffect()      {}

// machine decides for one replica: life cycle and ledger. It is pure: time is an argument, what is to be done is returned.
type machine struct {
	cfg   Config
	caps  engine.Capabilities
	epoch uint64

	state       State
	since       time.Time
	life        life
	told        bool // the engine has said its limits
	tuned       bool // the feed of this epoch knows them
	limits      scoring.Limits
	ledger      *ledger.Ledger
	engineModel string
	engineLoad  engine.Load
	lastError   string

	failedProbes int
	feedReady    bool
	feedBy       time.Time // ready without the feed at this time

	recovering bool
	awaited    int // announcements still to come
	openAt     time.Time

	sheds        int
	coolingUntil time.Time

	out []effect
}

// newMachine returns the machine of an actor's epoch. old is what the epoch before published, with the new one's number:
// what it says of the engine still holds, what it says of the ledger is void until the awaited calls have announced their
// tickets. A first epoch awaits none.
func newMachine(now time.Time, cfg Config, caps engine.Capabilities, l life, awaited int, old *Snapshot) *machine {
	m := &machine{
		cfg: cfg, caps: caps, epoch: old.Epoch, life: l, since: now, ledger: ledger.New(scoring.Limits{}),
		state: old.State, told: old.Told, limits: old.Load.Limits,
	}
	if m.told {
		m.ledger.SetLimits(m.limits)
	}
	if m.state == Ready || m.state == Warming {
		// The children are new: a probe and the feed are awaited again, and requests with them.
		m.state, m.feedBy = Warming, now.Add(cfg.FeedWait)
	}
	if awaited > 0 {
		m.recovering, m.awaited, m.openAt = true, awaited, now.Add(cfg.AnnounceWait)
	}
	return m
}

// start returns the effects of the beginning.
func (m *machine) start() []effect {
	m.out = nil
	m.emit(publish{})
	return m.out
}

func (m *machine) emit(e effect) { m.out = append(m.out, e) }

// step takes one message and returns what is to be done, in order.
func (m *machine) step(now time.Time, message any) []effect {
	m.out = nil
	switch e := message.(type) {
	case *Reserve:
		m.reserve(now, e)
	case Started:
		if m.ledger.Start(e.Ticket, now) {
			m.sheds = 0
			m.emit(publish{room: true})
		}
	case Progress:
		if m.ledger.Grow(e.Ticket, e.Produced) {
			m.emit(publish{})
		}
	case End:
		if m.ledger.End(e.Ticket, e.Reason) {
			m.freed(now)
		}
	case Linger:
		m.linger(now, e.Ticket)
	case AttemptFailed:
		m.attemptFailed(now, e)
	case Announced:
		m.announced(now, e)
	case Probed:
		m.probed(now, e.Status)
	case ProbeFailed:
		m.probeFailed(now, e.Failure)
	case FeedReady:
		if e.Incarnation == m.life.incarnation {
			m.feedReady = true
			m.settle(now)
			m.emit(publish{})
		}
	case Drain:
		m.drain(now)
	case tick:
		m.tick(now)
	}
	return m.out
}

func (m *machine) reserve(now time.Time, r *Reserve) {
	reason := ledger.None
	switch {
	case !m.state.Routable() || m.recovering || r.Incarnation != m.life.incarnation:
		reason = ledger.Closed
	default:
		reason = m.ledger.Reserve(now, r.Claim)
	}
	if reason != ledger.None {
		m.emit(publish{})
		m.emit(refuse{r.Claim.Ticket, reason})
		return
	}
	m.emit(publish{})
	m.emit(grant{r.Claim.Ticket})
}

// freed follows every end of a booking.
func (m *machine) freed(now time.Time) {
	m.emit(publish{room: true})
	if m.state == Draining && m.ledger.Empty() {
		m.enter(now, Gone, "drained")
	}
}

func (m *machine) linger(now time.Time, t scoring.Ticket) {
	if m.ledger.Linger(t, now.Add(m.caps.LingerBound)) {
		m.emit(publish{})
	}
}

// nextTick is when the machine wants a tick, if at all. The shell keeps one timer for it.
func (m *machine) nextTick() (time.Time, bool) {
	at, ok := m.ledger.NextExpiry()
	sooner := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if m.recovering {
		sooner(m.openAt)
	}
	if m.state == Warming {
		sooner(m.feedBy)
	}
	if !m.coolingUntil.IsZero() {
		sooner(m.coolingUntil)
	}
	return at, ok
}

// attemptFailed ends or lingers the ticket and draws the conclusion about the engine.
func (m *machine) attemptFailed(now time.Time, e AttemptFailed) {
	switch e.Failure.Kind {
	case engine.Shed:
		m.sheds++
		cool := e.Failure.RetryAfter
		if cool == 0 {
			cool = min(m.cfg.ShedFirst<<(min(m.sheds, 16)-1), m.cfg.ShedCap)
		}
		if until := now.Add(cool); until.After(m.coolingUntil) {
			m.coolingUntil = until
		}
		m.endFailed(now, e.Ticket)
	case engine.Client:
		m.endFailed(now, e.Ticket)
	case engine.Refused:
		m.endFailed(now, e.Ticket)
		m.emit(hurryProbe{})
	case engine.Operator:
		m.lastError = e.Failure.Error()
		if m.state == Ready || m.state == Warming {
			m.enter(now, Degraded, m.lastError)
		}
		m.endFailed(now, e.Ticket)
	case engine.Broken, engine.Stalled:
		// The engine may still work on it: a broken connection says nothing about its blocks.
		m.linger(now, e.Ticket)
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

func (m *machine) announced(now time.Time, a Announced) {
	if a.Epoch != m.epoch || !m.recovering {
		return
	}
	for _, t := range a.Tickets {
		if t.Incarnation != m.life.incarnation {
			continue
		}
		if t.State != ledger.Lingering {
			m.ledger.Restore(now, t.Claim, t.State, t.Produced)
			continue
		}
		// How long it has lingered is not known: it gets the whole bound again.
		if m.ledger.Restore(now, t.Claim, ledger.Running, t.Produced) {
			m.ledger.Linger(t.Claim.Ticket, now.Add(m.caps.LingerBound))
		}
	}
	if m.awaited--; m.awaited == 0 {
		m.recovering = false
		m.emit(publish{room: true})
	}
}

func (m *machine) probed(now time.Time, s engine.Status) {
	m.failedProbes = 0
	m.engineModel, m.engineLoad = s.Model, s.Load
	limits := m.limitsOf(s)
	reborn := m.reborn(s)
	if reborn {
		m.life.incarnation++
		m.ledger.EndAll(ledger.Lost)
		m.coolingUntil, m.sheds = time.Time{}, 0
		m.emit(voidIndex{})
	}
	m.life.evidence = s.Incarnation
	if reborn || !m.tuned || limits != m.limits {
		m.told, m.tuned, m.limits = true, true, limits
		m.ledger.SetLimits(limits)
		m.feedReady = m.feedReady && !reborn
		m.emit(tuneFeed{tune{
			blockTokens: indexBlock(m.caps, limits.BlockTokens),
			capacity:    scoring.Tokens(limits.KVBlocks) * limits.BlockTokens, incarnation: m.life.incarnation,
		}})
	}
	if s.Load.UsedBlocks != nil {
		m.ledger.Sample(scoring.Blocks(*s.Load.UsedBlocks), s.Load.RunningSequences)
	}
	switch m.state {
	case Starting, Degraded, Down:
		m.lastError = ""
		m.feedBy = now.Add(m.cfg.FeedWait)
		m.enter(now, Warming, "the engine answers")
		m.settle(now)
	case Warming, Ready:
		if reborn {
			m.feedBy = now.Add(m.cfg.FeedWait)
			m.enter(now, Warming, "the engine was restarted")
		}
		m.settle(now)
		m.emit(publish{room: m.ledger.Load().ForeignBlocks == 0})
	case Draining, Gone, NumStates:
		m.emit(publish{})
	}
}

// reborn says whether a probe shows another life of the engine than the one before.
func (m *machine) reborn(s engine.Status) bool {
	switch {
	case m.life.incarnation == 0:
		return true // the first one
	case s.Incarnation != "" && m.life.evidence != "":
		return s.Incarnation != m.life.evidence
	default:
		// No evidence of its own: nobody listened there for a while and no stream of ours lives.
		load := m.ledger.Load()
		return m.state == Down && load.Reserved+load.Running == 0
	}
}

// limitsOf fills the vector from what the operator says, else what the engine tells, else what can't do harm.
func (m *machine) limitsOf(s engine.Status) scoring.Limits {
	l := scoring.Limits{BlockTokens: 1, Seats: 1, SequenceTokens: 1}
	if s.BlockTokens != nil && *s.BlockTokens > 0 {
		l.BlockTokens = scoring.Tokens(*s.BlockTokens)
	}
	if s.KVBlocks != nil {
		l.KVBlocks = scoring.Blocks(*s.KVBlocks)
	}
	if m.cfg.CapacityTokens != nil {
		l.KVBlocks = scoring.Blocks(*m.cfg.CapacityTokens / l.BlockTokens)
	}
	if s.Seats != nil {
		l.Seats = *s.Seats
	}
	if m.cfg.Seats != nil {
		l.Seats = *m.cfg.Seats
	}
	l.SequenceTokens = scoring.Tokens(l.KVBlocks) * l.BlockTokens
	if s.SequenceTokens != nil {
		l.SequenceTokens = min(l.SequenceTokens, scoring.Tokens(*s.SequenceTokens))
	}
	if m.cfg.SequenceTokens != nil {
		l.SequenceTokens = min(l.SequenceTokens, *m.cfg.SequenceTokens)
	}
	return l
}

// indexBlock is the block size that the prefix index uses for a replica: the engine's own where its events name blocks,
// else 16.
func indexBlock(caps engine.Capabilities, told scoring.Tokens) scoring.Tokens {
	if caps.KVEvents && told > 1 {
		return told
	}
	return 16
}

func (m *machine) probeFailed(now time.Time, f *engine.Failure) {
	m.failedProbes++
	m.lastError = f.Error()
	if m.ledger.MissedSample() {
		m.emit(alarm{"the engine's own use of its cache is unknown: three probes in a row have failed"})
	}
	switch m.state {
	case Warming, Ready, Degraded:
		switch {
		case f.Kind == engine.Operator:
			m.enter(now, Degraded, m.lastError)
		case m.failedProbes >= m.cfg.FailedProbes:
			m.enter(now, Down, m.lastError)
			m.emit(voidIndex{})
		default:
			m.emit(hurryProbe{})
			m.emit(publish{})
		}
	case Starting:
		if f.Kind == engine.Operator {
			m.enter(now, Degraded, m.lastError)
			return
		}
		m.enter(now, Down, m.lastError)
	case Draining:
		if m.failedProbes >= m.cfg.FailedProbes && f.Kind == engine.Refused {
			m.ledger.EndAll(ledger.Lost)
			m.freed(now)
		}
	case Down, Gone, NumStates:
		m.emit(publish{})
	}
}

// settle moves a warming replica on when nothing is awaited any more.
func (m *machine) settle(now time.Time) {
	if m.state != Warming || !m.tuned {
		return
	}
	if !m.caps.KVEvents || m.feedReady || !now.Before(m.feedBy) {
		why := "the cache feed has begun"
		switch {
		case !m.caps.KVEvents:
			why = "the engine reports no cache events"
		case !m.feedReady:
			why = fmt.Sprintf("no cache event within %s", m.cfg.FeedWait)
			m.emit(alarm{"no cache events: " + why})
		}
		m.enter(now, Ready, why)
	}
}

func (m *machine) drain(now time.Time) {
	switch m.state {
	case Draining, Gone:
		return
	case Starting, Down:
		m.enter(now, Gone, "drained while down")
		return
	case Warming, Ready, Degraded, NumStates:
	}
	m.enter(now, Draining, "asked to drain")
	if m.ledger.Empty() {
		m.enter(now, Gone, "drained")
	}
}

func (m *machine) tick(now time.Time) {
	if m.recovering && !now.Before(m.openAt) {
		m.recovering, m.awaited = false, 0
		m.emit(publish{room: true})
	}
	if len(m.ledger.Expire(now)) > 0 {
		m.freed(now)
	}
	if m.state == Warming {
		m.settle(now)
	}
	if !m.coolingUntil.IsZero() && !now.Before(m.coolingUntil) {
		m.coolingUntil = time.Time{}
		m.emit(publish{room: true})
	}
}

func (m *machine) enter(now time.Time, to State, why string) {
	from := m.state
	if from == to {
		m.emit(publish{})
		return
	}
	m.state, m.since = to, now
	m.emit(entered{from, to, why})
	m.emit(publish{room: to.Routable()})
}

// snapshot is what others may know now.
func (m *machine) snapshot() *Snapshot {
	return &Snapshot{
		ID: m.cfg.ID, Epoch: m.epoch, Incarnation: m.life.incarnation, State: m.state, Recovering: m.recovering,
		Told: m.told, Load: m.ledger.Load(), CoolingUntil: m.coolingUntil, EngineModel: m.engineModel,
		EngineLoad: m.engineLoad, LastError: m.lastError, Since: m.since,
	}
}
