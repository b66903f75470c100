package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

func (m *machine) probed(now time.Time, p Probed) {
	s := p.Status
	m.failedProbes, m.mute, m.unanswered = 0, nil, nil
	m.shown(p.Began)
	if p.Early {
		m.emit(publish{}) // the same answer comes again
		return
	}
	if why := m.strange(&p); why != "" {
		m.stranger(now, s, why)
		return
	}
	m.engineModel, m.engineNames, m.engineLoad = s.Model, s.Names, s.Load
	m.listed(s.Adapters)
	limits := m.limitsOf(s)
	if limits.KVBlocks < 1 {
		m.unusable(now, "the engine does not tell how much its cache holds, and no capacity-tokens are set")
		return
	}
	reborn := m.reborn(s, limits)
	if reborn {
		m.rebirth(s)
	}
	m.life.see(p)
	m.life.resemble(s)
	if reborn || !m.tuned || limits.BlockTokens != m.limits.BlockTokens || limits.KVBlocks != m.limits.KVBlocks {
		m.tuned = true
		m.emit(tuneFeed{tune{
			blockTokens: indexBlock(m.caps, limits.BlockTokens),
			capacity:    scoring.Tokens(limits.KVBlocks) * limits.BlockTokens, incarnation: m.life.incarnation,
		}})
	}
	m.told, m.limits = true, limits
	m.ledger.SetLimits(limits)
	m.signs.runs = s.Load.Steps != nil && s.Load.RunningSequences != nil && *s.Load.RunningSequences > 0
	m.sample(s.Load)
	m.counted(now, p.Began, s.Load.Steps)
	m.confirm(p)
	m.unknown(p)
	m.drained(now)
	if m.watch.phase == hung && !reborn {
		m.tried(now)
		m.emit(publish{})
		return
	}
	switch m.state {
	case fleet.Degraded:
		if now.Before(m.distrustedTo) || p.Began.Before(m.since) {
			m.emit(publish{})
			return
		}
		m.warm(now, "the engine answers")
	case fleet.Starting, fleet.Down:
		m.warm(now, "the engine answers")
	case fleet.Warming, fleet.Ready:
		if reborn {
			m.warm(now, "the engine was restarted")
			return
		}
		m.settle(now)
		m.emit(publish{room: true})
	case fleet.Draining, fleet.Gone, fleet.NumStates:
		m.emit(publish{})
	}
}

// warm begins the wait for the cache feed.
func (m *machine) warm(now time.Time, why string) {
	m.lastError = ""
	m.feedBy = now.Add(m.cfg.FeedWait)
	m.enter(now, fleet.Warming, why)
	m.settle(now)
}

// rebirth begins another life of the engine: what is known of the one before is void. What was granted since that one was
// last seen, or was then on its way, may run on this one already; if it does not, its stream ends it.
func (m *machine) rebirth(s engine.Status) {
	m.life.incarnation++
	if m.life.since = m.life.seen; !m.life.seen.IsZero() {
		m.life.since = m.life.seen.Add(-m.cfg.ReachWait)
	}
	m.life.evidence, m.life.steps, m.life.said, m.life.known = s.Incarnation, nil, nil, &known{}
	m.ledger.EndGranted(m.life.since, ledger.Lost)
	m.cooled()
	m.distrustedTo, m.lacking = time.Time{}, nil
	m.offer()
	m.served()
	m.feedReady = false
	m.dropCanary()
	m.watch.phase, m.watch.steps, m.watch.broken = calm, nil, nil
	m.emit(voidIndex{})
}

// unusable takes an engine out of service that answers but can't be used, and says so once.
func (m *machine) unusable(now time.Time, why string) {
	if m.lastError != why {
		m.lastError = why
		m.emit(alarm{why})
	}
	switch m.state {
	case fleet.Starting, fleet.Warming, fleet.Ready, fleet.Degraded, fleet.Down:
		m.enter(now, fleet.Degraded, why)
	case fleet.Draining, fleet.Gone, fleet.NumStates:
		m.emit(publish{})
	}
}

// sample lets the ledger compare the engine's own figures with ours. An engine that has told them and does not now has
// missed a sample; one that never does is not asked for any.
func (m *machine) sample(l engine.Load) {
	if l.UsedBlocks == nil && l.RunningSequences == nil {
		m.missed("it answers without telling")
		return
	}
	m.sampled = true
	var used *scoring.Blocks
	if l.UsedBlocks != nil {
		blocks := scoring.Blocks(*l.UsedBlocks)
		used = &blocks
	}
	m.ledger.Sample(used, l.RunningSequences, l.WaitingSequences)
}

// missed reports whether what others used counts no more: then there may be more room than before.
func (m *machine) missed(why string) bool {
	expired := m.sampled && m.ledger.MissedSample()
	if expired {
		m.emit(alarm{"the engine's own use of its cache has been unknown for three probes: " + why})
	}
	return expired
}

// reborn says whether a probe shows another life of the engine than the one before.
func (m *machine) reborn(s engine.Status, limits scoring.Limits) bool {
	switch {
	case m.life.incarnation == 0:
		return true // the first one
	case s.Incarnation != "" && m.life.evidence != "":
		return s.Incarnation != m.life.evidence
	case s.Load.Steps != nil && m.life.steps != nil && *s.Load.Steps < *m.life.steps:
		return true // a process counts upwards
	case m.told && limits.BlockTokens != m.limits.BlockTokens:
		return true // and never changes the size of its blocks
	}
	// No evidence of its own: nobody listened there for a while and no stream of ours lives.
	load := m.ledger.Load()
	return m.state == fleet.Down && m.life.refused && load.Reserved+load.Running == 0
}

// see notes what a probe showed of the present life.
func (l *life) see(p Probed) {
	if p.Status.Incarnation != "" {
		l.evidence = p.Status.Incarnation // an answer without evidence takes none away
	}
	if p.Status.Load.Steps != nil {
		steps := *p.Status.Load.Steps
		l.steps = &steps
	}
	l.seen, l.refused = p.Began, false
}

// figureMax is the most of anything that an engine is believed to have, tokens of KV included: a million times the largest.
const figureMax = 1 << 40

// said tells a figure that an engine can mean from none at all, and from one that is misread.
func said(figure *int) bool { return figure != nil && *figure > 0 && *figure <= figureMax }

// limitsOf fills the vector from what the engine tells, or told when it last did; the operator may lower it, and fills in
// what it never told. What nobody says is taken for the least there can be.
func (m *machine) limitsOf(s engine.Status) scoring.Limits {
	l := scoring.Limits{BlockTokens: 1, Seats: 1}
	if m.told {
		l = m.limits
	}
	if said(s.BlockTokens) {
		l.BlockTokens = scoring.Tokens(*s.BlockTokens)
	}
	known := m.told || s.KVBlocks != nil
	if s.KVBlocks != nil {
		l.KVBlocks = scoring.Blocks(*s.KVBlocks)
	}
	if l.KVBlocks < 0 || l.KVBlocks > scoring.Blocks(figureMax/l.BlockTokens) {
		l.KVBlocks = 0
	}
	if m.cfg.CapacityTokens != nil {
		l.KVBlocks = lowered(l.KVBlocks, scoring.Blocks(*m.cfg.CapacityTokens/l.BlockTokens), known)
	}
	known = m.told || said(s.Seats)
	if said(s.Seats) {
		l.Seats = *s.Seats
	}
	if m.cfg.Seats != nil {
		l.Seats = lowered(l.Seats, *m.cfg.Seats, known)
	}
	all := scoring.Tokens(l.KVBlocks) * l.BlockTokens
	switch {
	case said(s.SequenceTokens):
		l.SequenceTokens = min(scoring.Tokens(*s.SequenceTokens), all)
	case m.told:
		l.SequenceTokens = min(l.SequenceTokens, all)
	default:
		l.SequenceTokens = all
	}
	if m.cfg.SequenceTokens != nil {
		l.SequenceTokens = min(l.SequenceTokens, *m.cfg.SequenceTokens)
	}
	return l
}

// lowered is a figure under the operator's limit, or that limit where the figure is not known.
func lowered[N int | scoring.Blocks](figure, limit N, known bool) N {
	if !known {
		return limit
	}
	return min(figure, limit)
}

// indexBlock is the block size that the prefix index uses for a replica: the engine's own where its events name blocks,
// else 16.
func indexBlock(caps engine.Capabilities, told scoring.Tokens) scoring.Tokens {
	if caps.KVEvents && told > 1 {
		return told
	}
	return 16
}

func (m *machine) probeFailed(now time.Time, p ProbeFailed) {
	f := p.Failure
	m.lastError = f.Error()
	expired := m.missed("its probes fail")
	if f.Kind == engine.Local { // nobody was asked
		m.emit(publish{room: expired})
		return
	}
	late := errors.Is(f, context.DeadlineExceeded)
	refused := f.Kind == engine.Refused && !late
	switch {
	case refused:
		// Nobody listened at some moment since: what was granted before can't run on a later process.
		m.life.seen, m.life.refused = p.Began, true
		m.shown(p.Began) // nor does anything linger on for want of an answer
	case f.FromEngine:
		m.shown(p.Began)
	case m.signs.there.After(p.Began):
		// Its streams go on.
	default:
		m.signs.silent = true
	}
	if late && m.mayBeLate(now, p.Began) {
		m.emit(publish{room: expired})
		return
	}
	m.failedProbes++
	switch m.state {
	case fleet.Starting, fleet.Warming, fleet.Ready, fleet.Degraded, fleet.Down:
		switch {
		case f.Kind == engine.Operator:
			m.failedProbes = 0 // somebody answers
			m.enter(now, fleet.Degraded, m.lastError)
		case m.state == fleet.Starting || m.state == fleet.Down:
			m.enter(now, fleet.Down, m.lastError)
		case m.failedProbes >= m.cfg.FailedProbes || late:
			m.enter(now, fleet.Down, m.lastError)
			m.deaf(now, late)
			if !late {
				m.emit(voidIndex{}) // somebody says that it is gone; whoever is only silent may have kept all
			}
		default:
			m.emit(hurryProbe{})
			m.emit(publish{room: expired})
		}
	case fleet.Draining:
		if m.failedProbes >= m.cfg.FailedProbes && refused {
			m.ledger.EndAll(ledger.Lost)
		}
		m.freed(now)
	case fleet.Gone, fleet.NumStates:
		m.emit(publish{})
	}
}

// mayBeLate says whether a probe that brings no answer in time is no failed one. Busy is not dead: of a replica that has something to
// do the streams went on meanwhile or, if they are silent too, the rule that finds hung engines judges them, by what they were
// predicted to take. Nor is one dead that is only slow to answer; what answers nothing for long is of no use.
func (m *machine) mayBeLate(now, began time.Time) bool {
	if m.signs.there.After(began) || m.busy() {
		m.unanswered = nil
		return true
	}
	if m.unanswered == nil {
		m.unanswered = &began
	}
	patience := m.cfg.ProbePatience
	if m.ledger.Tickets(ledger.Lingering) > 0 { // it may still compute what was given up there
		patience = max(patience, m.cfg.FirstTokenTimeout)
	}
	return m.state.LegsStay() && now.Before(m.unanswered.Add(patience))
}

// settle moves a warming replica on when nothing is awaited any more.
func (m *machine) settle(now time.Time) {
	if m.state != fleet.Warming || !m.tuned {
		return
	}
	if !m.caps.KVEvents || m.feedReady || !now.Before(m.feedBy) {
		why := "the cache feed has begun"
		switch {
		case !m.caps.KVEvents:
			why = "the engine reports no cache events"
		case !m.feedReady:
			why = fmt.Sprintf("no cache event within %s", m.cfg.FeedWait)
			m.emit(alarm{why})
		}
		m.enter(now, fleet.Ready, why)
	}
}
