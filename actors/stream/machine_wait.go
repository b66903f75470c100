package stream

import (
	"slices"
	"time"

	"plimsoll/actors/fault"
)

// wait is for what a call waits of its router. It never waits without bound: a submission may be lost, and its router silent.
//
//	Submit ──RouterWait──▶ Inquire ──Known──▶ waits on, at most EncodeWait while its prompts are not known
//	                          ├──Lost──────▶ Submit, anew
//	                          └──RouterWait─▶ Submit, anew; the request fails after ResubmitsMax of them
//
// The time in the router's queue is the router's to bound. Who ends the request waits for nothing: a place that is granted
// all the same is given back when it comes.
type wait struct {
	asks     []Ask     // asked of the router and not answered; nil: nothing is asked
	heard    time.Time // since when the router has said nothing of it
	inquired bool      // it was asked since
}

// submit asks the router for places. It keeps asks, and sends away a copy: a leg that goes on has a prompt of its own there.
func (m *machine) submit(asks []Ask) {
	m.waiting = wait{asks: asks, heard: m.now}
	m.asked++
	sub := &Submit{
		Call: m.call, Number: m.asked, Arrival: m.req.Arrival, Prompts: slices.Clip(m.prompts), Legs: slices.Clone(asks),
		Begun: m.begun(), Hedge: m.hedge.stage == hedgeAsked,
	}
	for i := range sub.Legs {
		l := m.legs[sub.Legs[i].Leg]
		sub.Again = sub.Again || l.attempts > 0
		if l.input != nil {
			sub.Legs[i].Prompt = len(sub.Prompts)
			sub.Prompts = append(sub.Prompts, Prompt{IDs: l.input})
		}
	}
	m.emit(toRouter{sub})
}

// forsake takes back what is asked for. Its place, if it has one by now, is given back when it comes: nothing is asked then
// that it could be the answer to.
func (m *machine) forsake() {
	if m.waiting.asks != nil {
		m.emit(toRouter{Withdraw{m.call, m.asked}})
		m.waiting = wait{}
	}
}

// answered takes the router's answer to a submission. False: it is not the one that is waited for.
func (m *machine) answered(number uint64) bool {
	if m.waiting.asks == nil || number != m.asked {
		return false
	}
	m.waiting = wait{}
	return true
}

// encoded takes the prompts.
func (m *machine) encoded(e Encoded) {
	m.prompts = e.Prompts
	m.waiting.heard = m.now
}

// known hears that the router has the submission.
func (m *machine) known(e Known) {
	if m.waiting.asks == nil || e.Number != m.asked {
		return
	}
	m.waiting.heard, m.waiting.inquired = m.now, false
	if m.prompts == nil && !m.now.Before(m.req.Arrival.Add(m.cfg.EncodeWait)) {
		m.fail(&fault.Fault{
			Kind: fault.Contended, Message: "the prompt waited too long to be tokenized; try again later", RetryAfter: time.Second,
		})
	}
}

// overdue asks whether the router still knows what it has not answered for long, and does without its word if need be.
func (m *machine) overdue() {
	switch {
	case m.waiting.asks == nil || m.now.Before(m.waiting.heard.Add(m.cfg.RouterWait)):
	case m.waiting.inquired && m.hedge.stage == hedgeAsked:
		m.recall()
	case m.waiting.inquired:
		m.again()
	default:
		m.waiting.heard, m.waiting.inquired = m.now, true
		m.emit(toRouter{Inquire{m.call, m.asked}})
	}
}

// again submits anew what the router does not know.
func (m *machine) again() {
	asks := m.waiting.asks
	if asks == nil {
		return
	}
	if m.hedge.stage == hedgeAsked {
		m.waiting = wait{}
		m.unhedge(HedgeRefused)
		return
	}
	if m.resubmits++; m.resubmits > m.cfg.ResubmitsMax {
		m.fail(fault.New(fault.Internal, "the request could not be routed"))
		return
	}
	m.submit(asks)
}
