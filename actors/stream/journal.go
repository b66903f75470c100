package stream

import (
	"context"
	"io"
	"sync"
	"time"

	"plimsoll/actors/fault"
)

// Response is the client's side of a submitted request: what its writer reads. The request's goroutine fills it; the
// client's pace never holds that goroutine up. One goroutine may call Next; the other methods may be called by any.
type Response struct {
	cancel func() // tells the request's goroutine that the client is gone; idempotent

	mu       sync.Mutex
	legs     []leg
	turn     int // the leg that Next looks at first, so that no leg starves another
	usage    Usage
	replicas []string
	way      Way
	fault    *fault.Fault
	done     bool
	wake     chan struct{} // capacity 1: something changed since the reader last looked
}

// leg is what the reader has not taken of one answer.
type leg struct {
	entries []Entry
	bytes   int // of entries, roughly
	finish  *Finish
	ended   bool // the reader has got the finish
	again   bool // it has begun anew since the reader last looked
}

// NewResponse returns a response of that many legs whose Cancel calls cancel.
func NewResponse(legs int, cancel func()) *Response {
	return &Response{
		cancel: cancel, legs: make([]leg, legs), replicas: make([]string, legs), wake: make(chan struct{}, 1),
	}
}

// Next waits for something that the reader has not seen and returns it: entries of one leg, its end, or both. It returns
// io.EOF after every leg's end was returned, a [*fault.Fault] if the request failed (at once: what was not read by then is
// lost with it), and ctx's error if that ends first, after which Next may be called again.
func (r *Response) Next(ctx context.Context) (Delta, error) {
	for {
		if d, err, ok := r.take(); ok {
			return d, err
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return Delta{}, ctx.Err()
		}
	}
}

func (r *Response) take() (Delta, error, bool) { //nolint:revive // the last value says whether the others count
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault != nil {
		return Delta{}, r.fault, true
	}
	open := 0
	for i := range r.legs {
		n := (r.turn + i) % len(r.legs)
		l := &r.legs[n]
		if l.ended {
			continue
		}
		open++
		if len(l.entries) == 0 && l.finish == nil && !l.again {
			continue
		}
		d := Delta{Leg: n, Restarted: l.again, Entries: l.entries, Finish: l.finish}
		l.entries, l.bytes, l.again, l.ended = nil, 0, false, l.finish != nil
		r.turn = n + 1
		return d, nil, true
	}
	if open == 0 && r.done {
		return Delta{}, io.EOF, true
	}
	return Delta{}, nil, false
}

// Cancel says that the client is gone. The attempts are aborted and the response ends with a ClientGone fault, unless it
// had ended before.
func (r *Response) Cancel() { r.cancel() }

// Usage returns the token counts so far; they are final once Next has returned io.EOF.
func (r *Response) Usage() Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usage
}

// Replicas returns, per leg, the name of the replica that works or worked on it last; "" before its dispatch.
func (r *Response) Replicas() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.replicas...)
}

// The methods below are the request's goroutine's.

func (r *Response) update(f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Append adds entries to a leg's journal and returns how many bytes of all legs the reader has not taken.
func (r *Response) Append(n int, entries []Entry, u Usage) (unread int) {
	r.update(func() {
		l := &r.legs[n]
		l.entries, r.usage = append(l.entries, entries...), u
		if r.way.FirstTokenAt == nil {
			at := entries[0].Stamp
			r.way.FirstTokenAt = &at
		}
		for i := range entries {
			l.bytes += entries[i].Bytes()
		}
		for i := range r.legs {
			unread += r.legs[i].bytes
		}
	})
	return unread
}

// Bytes is about what an entry holds in memory: of what the reader has not taken Config.JournalBytes bounds the sum.
func (e *Entry) Bytes() int {
	n := 120 + len(e.Text) + len(e.ChatDelta)
	if e.Logprob != nil {
		n += 40 + 16*len(e.Logprob.Top)
	}
	return n
}

// Restart takes back all that a leg was given.
func (r *Response) Restart(n int, u Usage) {
	r.update(func() { r.legs[n], r.usage = leg{again: true}, u })
}

// Finish ends a leg.
func (r *Response) Finish(n int, f Finish, u Usage) {
	r.update(func() { r.legs[n].finish, r.usage = &f, u })
}

// Encoded notes when the prompts' token IDs were known.
func (r *Response) Encoded(at time.Time) {
	r.update(func() {
		if r.way.EncodedAt == nil {
			r.way.EncodedAt = &at
		}
	})
}

// Placed notes where a leg works, and since when.
func (r *Response) Placed(n int, replica string, at time.Time) {
	r.update(func() {
		r.replicas[n] = replica
		r.way.Attempts++
		if r.way.PlacedAt == nil {
			r.way.PlacedAt = &at
		}
	})
}

// Way is how far a request has come, and when; nil: not yet. Between the times it is tokenized, waits for room, and has its
// prompt worked on by an engine.
type Way struct {
	EncodedAt    *time.Time
	PlacedAt     *time.Time // of the first leg
	FirstTokenAt *time.Time // as it was read from the engine
	Attempts     int        // of all legs, on any replica
}

// Way returns how far the request has come.
func (r *Response) Way() Way {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.way
}

// End ends the response: with a fault, or well if f is nil and every leg has finished. Only the first End counts. With a
// fault what the reader has not taken is lost, so that a client that does not read keeps no memory.
func (r *Response) End(f *fault.Fault) {
	r.update(func() {
		if r.done {
			return
		}
		r.done, r.fault = true, f
		if f != nil {
			for i := range r.legs {
				r.legs[i] = leg{}
			}
		}
	})
}
