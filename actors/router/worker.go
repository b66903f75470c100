package router

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// worker tokenizes one job at a time in its Receive: that is all it is for. A panic costs this job alone.
type worker struct {
	encode   Encoder
	gate     *Gate
	router   *actor.PID
	instance uint64
}

// Receive implements actor.Actor.
func (w *worker) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		c.Send(w.router, ready{c.Self(), w.instance})
	case encode:
		began := time.Now()
		prompts, err := w.encode(m.job.input)
		m.job.release(w.gate)
		c.Send(w.router, encoded{job: m.job, prompts: prompts, err: err, took: time.Since(began)})
		c.Send(w.router, ready{c.Self(), w.instance})
	}
}

// releaseOnPanic gives the node's slot back when a job panics.
func releaseOnPanic(gate *Gate) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			if m, ok := env.Message.(encode); ok {
				defer m.job.release(gate)
			}
			next(c, env)
		}
	}
}
