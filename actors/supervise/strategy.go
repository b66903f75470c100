package supervise

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Failed describes an actor's failure to those who want to know.
type Failed struct {
	Actor   string // the actor's path
	Reason  any    // the panic's value
	Message any    // what it worked on; that message is lost
	Strikes int    // failures of this actor in a row, this one included
	Delay   time.Duration
}

// Strategy restarts a failed child after its Backoff's delay, for ever. It implements actor.SupervisorStrategy.
type Strategy struct {
	cfg      Config
	onFailed func(Failed) // may be called from several goroutines

	mu       sync.Mutex
	rng      *rand.Rand
	children map[string]*Backoff // by PID; the children of a supervisor are few and their names are fixed
	timers   map[*time.Timer]struct{}
	closed   bool
}

var _ actor.SupervisorStrategy = (*Strategy)(nil)

// NewStrategy returns a strategy; onFailed hears of every failure before the restart is planned.
func NewStrategy(cfg Config, seed uint64, onFailed func(Failed)) *Strategy {
	return &Strategy{
		cfg: cfg, onFailed: onFailed, rng: rand.New(rand.NewPCG(seed, 0)),
		children: map[string]*Backoff{}, timers: map[*time.Timer]struct{}{},
	}
}

// HandleFailure implements actor.SupervisorStrategy. It runs on the supervisor's goroutine and does not wait: the child
// stays suspended, its mailbox intact, until the restart.
func (s *Strategy) HandleFailure(
	_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any,
) {
	failed := Failed{Actor: child.GetId(), Reason: reason, Message: message}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	b := s.children[child.GetId()]
	if b == nil {
		b = NewBackoff(s.cfg)
		s.children[child.GetId()] = b
	}
	failed.Delay = b.Strike(time.Now(), s.rng)
	failed.Strikes = b.Strikes()
	var t *time.Timer
	t = time.AfterFunc(Soon(failed.Delay), func() {
		s.mu.Lock()
		delete(s.timers, t)
		closed := s.closed
		s.mu.Unlock()
		if !closed {
			sup.RestartChildren(child) // only posts a system message
		}
	})
	s.timers[t] = struct{}{}
	s.mu.Unlock()
	s.onFailed(failed)
}

// Close forgets planned restarts: the supervisor itself stops or restarts, and its children with it.
func (s *Strategy) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for t := range s.timers {
		t.Stop()
	}
	clear(s.timers)
}

// PanicError is a panic's value as an error.
type PanicError struct{ Value any }

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
