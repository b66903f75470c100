package dst

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// served is a process of the bubble's world as an engine that is called.
type served struct {
	b *bubble
	h *host
}

var (
	_ engine.Engine   = (*served)(nil)
	_ engine.KVSource = (*served)(nil)
)

// flight is what one Generate waits for.
type flight struct {
	wake chan struct{} // capacity 1

	mu     sync.Mutex
	events []engine.Event
	ended  bool
	err    error
}

func (f *flight) tell(what func()) {
	f.mu.Lock()
	what()
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *flight) take() (events []engine.Event, ended bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events, f.events = f.events, nil
	return events, f.ended, f.err
}

// Capabilities implements engine.Engine.
func (s *served) Capabilities() engine.Capabilities { return s.h.ref.Capabilities }

// Close implements engine.Engine: the process ends.
func (s *served) Close() error {
	s.b.lock()
	defer s.b.unlock()
	s.h.gone = true
	s.h.p.kill(false)
	return nil
}

// Probe implements engine.Engine.
func (s *served) Probe(ctx context.Context) (engine.Status, error) {
	s.b.lock()
	status, failure := s.h.p.status()
	wait := 2 * s.b.w.network()
	s.b.unlock()
	if status == nil && failure == nil {
		<-ctx.Done()
		return engine.Status{}, errSilent
	}
	time.Sleep(wait)
	if failure != nil {
		return engine.Status{}, failure
	}
	return *status, nil
}

// Generate implements engine.Engine.
func (s *served) Generate(ctx context.Context, req engine.Request, emit func(engine.Event) error) error {
	b := s.b
	f := &flight{wake: make(chan struct{}, 1)}
	b.lock()
	a := b.newAttempt(s.h, req)
	b.flights[a] = f
	b.w.begin(a)
	b.unlock()
	defer func() {
		b.lock()
		delete(b.flights, a)
		b.unlock()
	}()
	cancel := func() {
		b.lock()
		if !a.returned && !a.cancelled {
			b.w.cancel(a)
		}
		b.unlock()
	}
	gone := ctx.Done()
	for {
		select {
		case <-f.wake:
		case <-gone:
			gone = nil
			cancel()
		}
		events, ended, err := f.take()
		for _, e := range events {
			if gone != nil && emit(e) != nil {
				gone = nil
				cancel()
			}
		}
		if ended {
			return err
		}
	}
}

// frame is the arrival of a frame.
func (b *bubble) frame(a *attempt, e *engine.Event) {
	f := b.flights[a]
	if a.returned || a.cancelled || f == nil {
		return
	}
	for _, t := range e.Tokens {
		if !a.over {
			a.got = append(a.got, t.ID)
		}
	}
	a.over = a.over || e.Finish != nil
	f.tell(func() { f.events = append(f.events, *e) })
}

// returned is the end of an attempt.
func (b *bubble) returned(a *attempt, err error) {
	if a.returned {
		return
	}
	a.returned = true
	var failure *engine.Failure
	if c := b.clientOf(a); c != nil && (errors.As(err, &failure) || a.cancelled) {
		c.troubled = true
	}
	if f := b.flights[a]; f != nil {
		f.tell(func() { f.ended, f.err = true, err })
	}
}

// subscription is what one Subscribe waits for.
type subscription struct {
	flight

	batches []engine.KVBatch
}

// Subscribe implements engine.KVSource, by the order machine and the connections that the first driver has.
func (s *served) Subscribe(ctx context.Context, sink func(engine.KVBatch)) error {
	b, f := s.b, &s.h.feed
	sub := &subscription{flight: flight{wake: make(chan struct{}, 1)}}
	b.lock()
	l := f.newLink()
	b.subs[l] = sub
	f.connect(l, func(m engine.KVBatch) {
		m.Events = copies(m.Events)
		sub.tell(func() { sub.batches = append(sub.batches, m) })
	})
	b.unlock()
	defer func() {
		b.lock()
		l.closed = true
		delete(b.subs, l)
		if f.link == l {
			f.link = nil
		}
		b.unlock()
	}()
	for {
		select {
		case <-sub.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		sub.mu.Lock()
		batches, ended, err := sub.batches, sub.ended, sub.err
		sub.batches = nil
		sub.mu.Unlock()
		for _, m := range batches {
			sink(m)
		}
		if ended {
			return err
		}
	}
}

// ends has a subscription end by itself.
func (b *bubble) ends(m *wire) {
	if sub := b.subs[m.link]; sub != nil {
		m.link.closed, m.link.heeded = true, nil
		sub.tell(func() { sub.ended, sub.err = true, m.err })
	}
}

// copies makes events one's own: those that the order machine gives are valid for a moment only.
func copies(events []prefix.Event) []prefix.Event {
	out := slices.Clone(events)
	for i := range out {
		e := &out[i]
		e.Hashes, e.Tokens = slices.Clone(e.Hashes), slices.Clone(e.Tokens)
		if e.Parent != nil {
			e.Parent = new(*e.Parent)
		}
	}
	return out
}
