package dst

import "time"

// mailbox is an actor's: messages of one sender keep their order. Either all messages have one order, that in which they
// were sent, as actors of one process have it; or each pair of actors has an order of its own, as across nodes.
type mailbox struct {
	w         *world
	owner     recipient
	id        int32
	queue     []any
	scheduled bool
	suspended bool                    // the actor has failed: messages wait for its next instance
	closed    bool                    // the actor has stopped: messages are dropped
	last      map[int32]time.Duration // by sender: when its last message comes
}

// recipient handles the messages of a mailbox, one at a time.
type recipient interface{ receive(message any) }

// post sends a message.
func (b *mailbox) post(from *mailbox, message any) {
	w := b.w
	if b.closed {
		return
	}
	if w.plan.pairs {
		at := max(b.last[from.id], w.now+w.delay())
		if b.last == nil {
			b.last = map[int32]time.Duration{}
		}
		b.last[from.id] = at
		e := w.at(at, evDirect)
		e.box, e.msg = b, message
		return
	}
	b.queue = append(b.queue, message)
	b.schedule()
}

func (b *mailbox) schedule() {
	if b.scheduled || b.suspended || b.closed || len(b.queue) == 0 {
		return
	}
	b.scheduled = true
	b.w.in(b.w.delay(), evMail).box = b
}

// deliver handles the first message that waits.
func (b *mailbox) deliver() {
	b.scheduled = false
	if b.suspended || b.closed || len(b.queue) == 0 {
		return
	}
	message := b.queue[0]
	b.queue[0] = nil
	if b.queue = b.queue[1:]; len(b.queue) == 0 {
		b.queue = nil
	}
	b.owner.receive(message)
	b.schedule()
}

// direct handles a message that has its own time.
func (b *mailbox) direct(message any) {
	switch {
	case b.closed:
	case b.suspended || len(b.queue) > 0:
		b.queue = append(b.queue, message)
		b.schedule()
	default:
		b.owner.receive(message)
	}
}

func (b *mailbox) suspend() { b.suspended = true }

func (b *mailbox) resume() {
	b.suspended = false
	b.schedule()
}

func (b *mailbox) close() { b.closed, b.queue = true, nil }

// delay is how long a message waits until it is handled: mostly some hundred microseconds, now and then some milliseconds.
func (w *world) delay() time.Duration {
	r := w.rng.Uint64()
	if r>>58 == 0 {
		return time.Duration(r & (1<<22 - 1)) // up to 4 ms
	}
	return time.Duration(r & (1<<18 - 1)) // up to 0.26 ms
}

// network is how long something takes between us and an engine.
func (w *world) network() time.Duration {
	return 50*time.Microsecond + time.Duration(w.rng.Uint64()&(1<<20-1)) // up to 1.1 ms
}
