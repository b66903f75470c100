package supervise

import (
	"log/slog"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
)

// Guard returns a receiver middleware for one kind of actor. When Receive panics it logs the stack, calls onPanic with
// the message that is now lost, so that the actor's owner can answer whoever waits for it, and lets the panic go on to
// the supervisor. The state of the failed instance is never used again.
func Guard(log *slog.Logger, kind string, onPanic func(message any, value any)) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			defer func() {
				if p := recover(); p != nil {
					log.Error("actor panicked",
						slog.String("actor", kind), slog.Any("reason", p), slog.String("stack", string(debug.Stack())))
					if onPanic != nil {
						onPanic(env.Message, p)
					}
					panic(p)
				}
			}()
			next(c, env)
		}
	}
}

// Go runs f in a goroutine of its own. A panic in f is logged and handed to onPanic instead of ending the process. done
// is called when the goroutine ends, whatever happened.
func Go(log *slog.Logger, what string, f func(), onPanic func(value any), done func()) {
	go func() {
		defer done()
		defer func() {
			if p := recover(); p != nil {
				log.Error("goroutine panicked",
					slog.String("goroutine", what), slog.Any("reason", p), slog.String("stack", string(debug.Stack())))
				onPanic(p)
			}
		}()
		f()
	}()
}
