package tokenize

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// worker runs one step at a time in its Receive: that is all it is for. A panic costs this job alone.
type worker struct {
	encoder  *encoder
	gate     *Gate
	lane     Lane
	pool     *actor.PID
	instance uint64
}

// Receive implements actor.Actor.
func (w *worker) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		c.Send(w.pool, ready{c.Self(), w.lane, w.instance})
	case run:
		began := time.Now()
		result := w.encoder.step(m.job)
		m.slot.release(w.gate)
		c.Send(w.pool, ran{job: m.job, result: result, took: time.Since(began)})
		c.Send(w.pool, ready{c.Self(), w.lane, w.instance})
	}
}

// releaseOnPanic gives the node's slot back when a step panics.
func releaseOnPanic(gate *Gate) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			if m, ok := env.Message.(run); ok {
				defer m.slot.release(gate)
			}
			next(c, env)
		}
	}
}
