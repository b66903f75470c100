package supervise

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// DeadLetterInterval is how long a goroutine of the library lives that counts messages to actors that are gone: from the first
// of them on. The library's own second is longer than whoever has stopped a system waits for its goroutines.
const DeadLetterInterval = time.Millisecond

// NewSystem returns an actor system that logs to log. It spawns nothing.
func NewSystem(log *slog.Logger) *actor.ActorSystem {
	return actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }),
		actor.WithDeadLetterRequestLogging(false),
		actor.WithDeadLetterThrottleInterval(DeadLetterInterval))
}
