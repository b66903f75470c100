package stream

import (
	"context"
	"sync/atomic"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
)

// running is an attempt's goroutine: the one that is in Generate. Who tells the replica that Generate has returned is
// settled by its state, which leaves held once:
//
//	held ──Generate returns──▶ returned   the call hears of it (an item of Call.reads) and tells the replica
//	  └──the call leaves─────▶ stray      the goroutine tells the replica; Live has it on its list until then
type running struct {
	place  Placement
	began  time.Time
	cancel context.CancelFunc
	state  atomic.Int32
	read   bool // its end was read; the call's own
}

// known is what a replica's ledger wants to know of the attempt, as far as its goroutine's owner knows it without the machine.
func (r *running) known() fleet.Attempt {
	return fleet.Attempt{Claim: r.place.Claim, Incarnation: r.place.Incarnation, Began: r.began}
}

const (
	held int32 = iota
	returned
	stray
)

// read is what an attempt's goroutine tells the call: a frame, or that Generate has returned.
type read struct {
	frame

	ended bool
	err   error
}

// attempt opens the engine's stream in a goroutine of its own.
func (c *Call) attempt(e startAttempt) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{place: e.place, began: time.Now(), cancel: cancel}
	c.open[e.attempt] = r
	c.summary.Attempts++
	supervise.Go(c.deps.Log, "attempt", func() {
		beat := e.place.Ref.Beat()
		err := e.place.Ref.Engine.Generate(ctx, e.request, func(ev engine.Event) error {
			now := time.Now()
			if len(ev.Tokens) > 0 || ev.Finish != nil {
				beat.Heard(now) // before anybody is waited for: it is the engine's sign of life, not ours
			}
			select {
			case c.reads <- read{frame: frame{e.attempt, ev, now}}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		c.returned(e.attempt, r, err)
	}, func(value any) {
		c.returned(e.attempt, r, &supervise.PanicError{Value: value})
	}, c.deps.Live.join())
}

// returned hands the end of an attempt to whoever is to tell the replica.
func (c *Call) returned(attempt uint64, r *running, err error) {
	if r.state.CompareAndSwap(held, returned) {
		c.reads <- read{frame: frame{attempt: attempt}, ended: true, err: err} // the call does not leave before it has read this
		return
	}
	c.deps.Live.forget(r)
	ref, ticket := r.place.Ref, r.place.Claim.Ticket
	if end := endOfAborted(ref.Capabilities, ticket, err); end != nil {
		ref.Tell(*end)
	}
}
