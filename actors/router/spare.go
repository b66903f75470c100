package router

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
