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

// restart has an engine of ours started again that answers nobody, or has hung for too long. One that has just begun to hang
// may go on, and is not to load its model again for that.
func (a *replicaActor) restart(why string) {
	if managed, ok := a.deps.Ref.Engine.(Restarter); ok {
		a.meter.Relaunched()
		managed.Restart(a.m.life.evidence, why)
	}
}
