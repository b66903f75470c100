package agenda

import "time"

// due is an event's place in the heap.
type due[E any] struct {
	at  time.Duration
	seq uint64 // orders what is due at once
	e   *E
}

func (a *due[E]) before(b *due[E]) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// Agenda holds what is due. The zero value is an empty one at time 0.
type Agenda[E any] struct {
	now  time.Duration
	seq  uint64
	heap []due[E]
	free []*E
}

// Now is the time of the event that Next returned last.
func (a *Agenda[E]) Now() time.Duration { return a.now }

// At enters an event for a time, or for now if that is over. It is zero, and the caller's to fill in before Next is called.
func (a *Agenda[E]) At(at time.Duration) *E {
	var e *E
	if n := len(a.free); n > 0 {
		e = a.free[n-1]
		a.free = a.free[:n-1]
	} else {
		e = new(E)
	}
	a.seq++
	a.heap = append(a.heap, due[E]{max(at, a.now), a.seq, e})
	for i := len(a.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !a.heap[i].before(&a.heap[up]) {
			break
		}
		a.heap[i], a.heap[up] = a.heap[up], a.heap[i]
		i = up
	}
	return e
}

// Peek is when the first event is due; false if there is none.
func (a *Agenda[E]) Peek() (time.Duration, bool) {
	if len(a.heap) == 0 {
		return 0, false
	}
	return a.heap[0].at, true
}

// Next takes out what is due first and moves the clock there; nil if nothing is.
func (a *Agenda[E]) Next() *E {
	if len(a.heap) == 0 {
		return nil
	}
	first := a.heap[0]
	last := len(a.heap) - 1
	a.heap[0] = a.heap[last]
	a.heap[last].e = nil
	a.heap = a.heap[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && a.heap[down+1].before(&a.heap[down]) {
			down++
		}
		if !a.heap[down].before(&a.heap[i]) {
			break
		}
		a.heap[i], a.heap[down] = a.heap[down], a.heap[i]
		i = down
	}
	a.now = first.at
	return first.e
}

// Done gives an event's memory back.
func (a *Agenda[E]) Done(e *E) {
	var zero E
	*e = zero
	a.free = append(a.free, e)
}
