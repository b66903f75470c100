package router

import (
	"time"

	"plimsoll/actors/stream"
)

// spare is memory of what has ended, for what begins: a request that is placed at once leaves nothing to be collected but what it
// has told others.
type spare struct {
	asked    pool[asked]
	asking   pool[asking]
	bookings pool[booking]
	entries  pool[entry]
}

func newSpare() spare {
	return spare{
		asked:    pool[asked]{reset: func(a *asked) { *a = asked{} }},
		asking:   pool[asking]{reset: func(by *asking) { *by = asking{} }},
		bookings: pool[booking]{reset: func(b *booking) { *b = booking{} }},
		entries:  pool[entry]{reset: (*entry).reset},
	}
}

// spareMax bounds how many of each are kept.
const spareMax = 256

// turn makes what earlier steps have given back ready to be taken.
func (s *spare) turn() {
	s.asked.turn()
	s.asking.turn()
	s.bookings.turn()
	s.entries.turn()
}

// pool lends memory. What is given back is lent again from the next turn on: until then the effects of a step name it.
type pool[T any] struct {
	ready, ended []*T
	reset        func(*T) // it names nothing any more
}

// take returns an empty T.
func (p *pool[T]) take() *T {
	last := len(p.ready) - 1
	if last < 0 {
		return new(T)
	}
	x := p.ready[last]
	p.ready = p.ready[:last]
	return x
}

func (p *pool[T]) give(x *T) { p.ended = append(p.ended, x) }

func (p *pool[T]) turn() {
	for _, x := range p.ended {
		if len(p.ready) < spareMax {
			p.reset(x)
			p.ready = append(p.ready, x)
		}
	}
	clear(p.ended)
	p.ended = p.ended[:0]
}

// The lines in which a reservation can stand.
const (
	ofReplica  = iota // booked there
	unanswered        // of all replicas

	numLines
)

// links are the neighbours of a reservation in a line.
type links struct{ before, after *asked }

// line is reservations in the order in which they were added. The zero line is one of those of a replica.
type line struct {
	first, last *asked
	which       int
}

func (l *line) add(a *asked) {
	a.links[l.which] = links{before: l.last}
	if l.last == nil {
		l.first = a
	} else {
		l.last.links[l.which].after = a
	}
	l.last = a
}

// remove takes out one that stands in the line.
func (l *line) remove(a *asked) {
	at := a.links[l.which]
	if at.before == nil {
		l.first = at.after
	} else {
		at.before.links[l.which].after = at.after
	}
	if at.after == nil {
		l.last = at.before
	} else {
		at.after.links[l.which].before = at.before
	}
	a.links[l.which] = links{}
}

// predictedPrefill is how long the prompt is predicted to take; nil: too little was seen of the replica. It is the receiver's.
func (a *asked) predictedPrefill() *time.Duration {
	if !a.predicted {
		return nil
	}
	return new(a.prefill)
}

func (by *asking) call() *stream.Call { return by.entry.sub.Call }

// message is what the call is told.
func (p placed) message() stream.Placed {
	return stream.Placed{Number: p.by.entry.sub.Number, Placements: p.by.placed}
}
