package supervise

import "github.com/asynkron/protoactor-go/actor"

// Final wraps an actor's instance so that its last message is Restarting or Stopping. The library goes on to deliver user
// messages to an instance that waits for its children to stop; what such an instance does then (grant, start a goroutine,
// take a slot) nobody would ever undo. late gets those messages; nil drops them.
func Final(inner actor.Actor, late func(message any)) actor.Actor {
	return &final{inner: inner, late: late}
}

type final struct {
	inner actor.Actor
	late  func(message any)
	over  bool
}

var _ actor.SupervisorStrategy = (*final)(nil)

// Receive implements actor.Actor.
func (f *final) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Restarting, *actor.Stopping:
		f.over = true
		f.inner.Receive(c)
	case *actor.Stopped, *actor.Terminated:
		f.inner.Receive(c)
	default:
		if !f.over {
			f.inner.Receive(c)
		} else if f.late != nil {
			f.late(m)
		}
	}
}

// HandleFailure implements actor.SupervisorStrategy for actors that supervise; others have no children.
func (f *final) HandleFailure(
	as *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, rs *actor.RestartStatistics, reason, message any,
) {
	if s, ok := f.inner.(actor.SupervisorStrategy); ok {
		s.HandleFailure(as, sup, child, rs, reason, message)
	}
}
