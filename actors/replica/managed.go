package replica

import "plimsoll/engine"

// Restarter is an engine whose process this node has started and can start again. The replica's life cycle tells it when it
// has given the process up; one that crashes by itself needs no telling.
type Restarter interface {
	engine.Engine
	// Restart ends the process whose incarnation showed that evidence, if it is the present one, and starts another. It does
	// not wait.
	Restart(evidence, why string)
}

// restart has an engine of ours that entered Down started again: it hangs, or answers nobody.
func (a *replicaActor) restart(e entered) {
	if managed, ok := a.deps.Ref.Engine.(Restarter); ok && e.to == Down {
		managed.Restart(a.m.life.evidence, e.why)
	}
}
