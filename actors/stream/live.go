package stream

import (
	"context"
	"sync"

	"plimsoll/actors/fleet"
)

// Live is the register of a node's running calls, and of the attempts that outlive theirs: a call whose client has left
// ends at once, while the engine may need time to let go. There are no more of those than the replicas have seats,
// because each has a ticket that lingers. It is safe for concurrent use.
type Live struct {
	mu         sync.Mutex
	calls      map[*Call]struct{}
	budgets    map[string]*Budget              // of retries, by served model
	strays     map[*running]fleet.Announcement // what a restarted replica hears of them
	goroutines int                             // of calls and attempts
	down       *Shutdown                       // told to all: who comes later hears of it too
	changed    chan struct{}                   // closed when something has become empty; nil if nobody waits
}

// NewLive returns an empty register.
func NewLive() *Live {
	return &Live{calls: map[*Call]struct{}{}, budgets: map[string]*Budget{}, strays: map[*running]fleet.Announcement{}}
}

// enter registers a call and its goroutine.
func (l *Live) enter(c *Call) (done func()) {
	l.mu.Lock()
	l.calls[c] = struct{}{}
	c.retries = l.budget(c.model()).join()
	if l.down != nil {
		c.inbox.put(*l.down)
	}
	l.mu.Unlock()
	return l.join()
}

// budget is a served model's. mu is held.
func (l *Live) budget(model string) *Budget {
	of := l.budgets[model]
	if of == nil {
		of = NewBudget()
		l.budgets[model] = of
	}
	return of
}

// join counts a goroutine until done.
func (l *Live) join() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.goroutines++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.goroutines--; l.goroutines == 0 {
			l.notify()
		}
	}
}

// notify wakes those who wait. mu is held.
func (l *Live) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// leave takes a call out, in one step: what is told to all from now on does not reach it, and the attempts of it that have
// not returned are strays. Restarted replicas that have asked the call get their answer before that, so that a ticket's
// end never comes ahead of its announcement.
func (l *Live) leave(c *Call, answer func(ReplicaRestarted), left func(attempt uint64) fleet.Announcement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.pending = append(c.pending, c.inbox.close()...)
	rest := c.pending[:0]
	for _, message := range c.pending {
		if e, ok := message.(ReplicaRestarted); ok {
			answer(e)
			continue
		}
		rest = append(rest, message)
	}
	c.pending = rest
	for id, r := range c.open {
		if r.state.CompareAndSwap(held, stray) {
			l.strays[r] = left(id)
			delete(c.open, id)
		}
	}
	delete(l.calls, c)
	c.retries.close()
	if c.retries.of.unused() {
		delete(l.budgets, c.model())
	}
	if len(l.calls) == 0 {
		l.notify()
	}
}

// forget takes a stray out: what it held is let go of next.
func (l *Live) forget(r *running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.strays, r)
}

// Len is the number of running calls.
func (l *Live) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// Strays is the number of attempts that have outlived their call because the engine has not let go of them yet.
func (l *Live) Strays() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.strays)
}

// Tell gives a message to every running call and returns how many got it. A replica that restarted is answered for the
// strays too, which counts as one.
func (l *Live) Tell(message any) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := len(l.calls)
	switch e := message.(type) {
	case Shutdown:
		l.down = &e
	case ReplicaRestarted:
		if l.announce(e) {
			told++
		}
	}
	for c := range l.calls {
		c.Tell(message)
	}
	return told
}

// announce answers for the strays; false if there are none.
func (l *Live) announce(e ReplicaRestarted) bool {
	answer := fleet.Announced{Epoch: e.Epoch}
	for r, a := range l.strays {
		if r.place.Ref == e.Ref {
			answer.Tickets = append(answer.Tickets, a)
		}
	}
	if len(answer.Tickets) == 0 {
		return false
	}
	e.Ref.Tell(answer)
	return true
}

// TellModel gives a message to every running call of a served model, whatever their clients call it.
func (l *Live) TellModel(model string, message any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.calls {
		if c.model() == model {
			c.Tell(message)
		}
	}
}

// Drained waits until no call runs or ctx ends.
func (l *Live) Drained(ctx context.Context) error {
	return l.until(ctx, func() bool { return len(l.calls) == 0 })
}

// Wait waits until every goroutine of calls and attempts is at its end, or ctx's. Strays end when their engine lets go,
// dies or is closed.
func (l *Live) Wait(ctx context.Context) error {
	return l.until(ctx, func() bool { return l.goroutines == 0 })
}

func (l *Live) until(ctx context.Context, over func() bool) error {
	for {
		l.mu.Lock()
		if over() {
			l.mu.Unlock()
			return nil
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
