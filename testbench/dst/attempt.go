package dst

import (
	"context"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/engine"
)

// attempt is one Generate: a goroutine of ours and its connection to an engine.
type attempt struct {
	id      uint64
	call    *call
	host    *host
	place   stream.Placement
	request engine.Request
	entropy uint64
	life    uint64 // of the process that took it; 0: none yet
	nth     int    // attempt of its leg, from 1
	base    int    // tokens of its leg before it

	cancelled bool // by the call
	failure   *engine.Failure
	lost      *engine.Failure // what the call makes of its end; nil: it has not failed
	returned  bool
	began     time.Duration
	arrives   time.Duration // when the last of what is on its way comes

	mischief Fault // ErrorFrame or MissingFinish to come; NumFaults: none
	after    int   // tokens before it
	emitted  int   // by the engine

	beat fleet.Beat
	got  []uint32 // by the call
	over bool     // it has heard the finish: what follows is none of the answer
	// Of an engine that loses IDs: what it holds, all IDs of what it has sent, and those that it has dropped at the end.
	losing         losing
	truth, dropped []uint32
	taken          int     // of got, by the client
	said           *reader // by an engine that reads the answer itself
	shown          int     // bytes of it that were sent
	// cached is what the engine said of its prompt; nil: nothing.
	cached *int
}

// why is how Generate ends when the engine has let go.
func (a *attempt) why() error {
	if a.failure != nil {
		return a.failure
	}
	return context.Canceled
}

// carry brings a frame to the call. Those of one attempt keep their order.
func (w *world) carry(a *attempt, e engine.Event) {
	a.arrives = max(a.arrives, w.now+w.network())
	ev := w.at(a.arrives, evFrame)
	ev.attempt = a
	ev.msg = &e
}

// comeBack has Generate return, after what is on its way.
func (w *world) comeBack(a *attempt, delay time.Duration, err error) {
	a.arrives = max(a.arrives, w.now+delay)
	ev := w.at(a.arrives, evReturn)
	ev.attempt = a
	ev.msg = err
}

// begin sends the request.
func (w *world) begin(a *attempt) {
	ev := w.in(w.network(), evArrive)
	ev.host, ev.attempt = a.host, a
}

// cancel is the end of the attempt's context.
func (w *world) cancel(a *attempt) {
	a.cancelled = true
	ev := w.in(w.network()+2*time.Millisecond, evHangUp) // never ahead of the request itself
	ev.host, ev.attempt = a.host, a
	if !a.host.ref.Capabilities.ConfirmsAbort {
		ev := w.in(w.delay(), evReturn) // at once, whatever is on its way
		ev.attempt = a
		ev.msg = context.Canceled
	}
}

// cut resets the connection. The engine sees it after a while; one that confirms is waited for.
func (w *world) cut(a *attempt) {
	if a.returned || a.cancelled || a.failure != nil || a.life == 0 {
		return
	}
	a.failure = errReset
	seen := w.network()
	if !a.host.ref.Capabilities.ConfirmsAbort {
		w.comeBack(a, w.network(), errReset)
		seen = w.between(0, 100*time.Millisecond)
	}
	ev := w.in(seen, evHangUp)
	ev.host, ev.attempt = a.host, a
}
