package stream

import (
	"slices"
	"time"

	"plimsoll/actors/fleet"
)

// hedge is a request's second attempt beside a first one that is stuck before its first token. A request has one at most, and
// asks for it once:
//
//	none ──the first one is late──▶ asked ──Placed──▶ running ──first token of either, or its own end──▶ over
//	                                  └──Rejected, or not wanted any more──────────────────────────────▶ over
//
// While it is asked for or runs it has a share in the retry budget.
type hedge struct {
	stage   hedgeStage
	attempt uint64 // running: which one it is
}

type hedgeStage uint8

const (
	hedgeNone hedgeStage = iota
	hedgeAsked
	hedgeRunning
	hedgeOver
)

// open says whether it holds a share in the retry budget.
func (h *hedge) open() bool { return h.stage == hedgeAsked || h.stage == hedgeRunning }

// HedgeEvent is what happened to a hedge.
type HedgeEvent uint8

const (
	HedgeBegun     HedgeEvent = iota // its attempt was begun; one of the next three follows
	HedgeWon                         // it brought the first token, and the answer is its own
	HedgeLost                        // the first attempt was quicker after all
	HedgeFailed                      // its engine failed, or the request ended, before either had brought a token
	HedgeRefused                     // it was not begun: the retry budget is spent, or nobody could take it at once
	HedgeWithdrawn                   // it was not begun: it was no longer wanted when the router had not answered yet

	NumHedgeEvents
)

// String returns the label used in metrics.
func (e HedgeEvent) String() string {
	switch e {
	case HedgeBegun:
		return "begun"
	case HedgeWon:
		return "won"
	case HedgeLost:
		return "lost"
	case HedgeFailed:
		return "failed"
	case HedgeRefused:
		return "refused"
	case HedgeWithdrawn:
		return "withdrawn"
	case NumHedgeEvents:
	}
	return "unknown"
}

// hedged reports an event of a hedge.
type hedged struct{ event HedgeEvent }

func (hedged) isEffect() {}

// hedgeAt is when a hedge is due, and the attempt that is late then; nil: none will be.
func (m *machine) hedgeAt() (time.Time, *attempt) {
	if m.cfg.HedgeAfter == 0 || m.hedge.stage != hedgeNone || m.ended || m.waiting.asks != nil || len(m.legs) != 1 {
		return time.Time{}, nil
	}
	// What has come once was sent to the client, or was paid for: such an answer resumes and does not race.
	if l := m.legs[0]; l.giver != 0 || l.finished || l.attempts >= m.cfg.AttemptsMax {
		return time.Time{}, nil
	}
	for _, a := range m.attempts {
		if !a.aborted && a.place.FirstToken != nil {
			return a.began.Add(time.Duration(m.cfg.HedgeAfter * float64(*a.place.FirstToken))), a
		}
	}
	return time.Time{}, nil
}

// askHedge asks for a second attempt if the first one is late. It never waits for the retry budget: by then the first one is
// as likely to be through.
func (m *machine) askHedge(now time.Time) {
	at, late := m.hedgeAt()
	if late == nil || now.Before(at) {
		return
	}
	if !m.retries.take(false) {
		m.hedge.stage = hedgeOver
		m.emit(hedged{HedgeRefused})
		return
	}
	m.hedge.stage = hedgeAsked
	ask := m.ask(late.leg)
	ask.Excluded = append(slices.Clip(ask.Excluded), Exclusion{
		Replica: late.place.Ref.ID, Incarnation: late.place.Incarnation, Process: true,
	})
	m.submit([]Ask{ask})
}

// unhedge ends a hedge that is open, and its share in the retry budget.
func (m *machine) unhedge(e HedgeEvent) {
	m.hedge.stage = hedgeOver
	m.retries.giveBack()
	m.emit(hedged{e})
}

// recall takes back a hedge that is asked for.
func (m *machine) recall() {
	m.forsake()
	m.unhedge(HedgeWithdrawn)
}

// won has the attempt go on alone that is the first to bring something, while a hedge is open.
func (m *machine) won(a *attempt) {
	if m.hedge.stage == hedgeAsked {
		m.recall()
		return
	}
	if other := m.rival(a); other != nil {
		if other.id != m.hedge.attempt {
			m.emit(toReplica{other.place.Ref, fleet.Late{Ticket: other.place.Claim.Ticket}})
		}
		m.abort(other)
	}
	a.leg.limit = a.limit
	if a.id != m.hedge.attempt {
		m.unhedge(HedgeLost)
		return
	}
	m.emit(placedLeg{a.leg.index, a.place.Ref.ID})
	m.unhedge(HedgeWon)
}

// rival is the other attempt of a leg that still counts, nil if there is none.
func (m *machine) rival(a *attempt) *attempt {
	for _, b := range m.attempts {
		if b != a && b.leg == a.leg && !b.aborted {
			return b
		}
	}
	return nil
}

// beaten notes that an attempt has failed while a hedge is open. True: the other one goes on alone.
func (m *machine) beaten(a *attempt) bool {
	if m.hedge.stage == hedgeAsked {
		m.recall()
		return false
	}
	if a.id == m.hedge.attempt {
		m.unhedge(HedgeFailed)
	}
	return m.rival(a) != nil
}

// endHedge ends a hedge with its request.
func (m *machine) endHedge() {
	switch m.hedge.stage {
	case hedgeAsked:
		m.unhedge(HedgeWithdrawn) // whoever ends the request withdraws what is asked
	case hedgeRunning:
		m.unhedge(HedgeFailed)
	case hedgeNone, hedgeOver:
	}
}
