// Package managed keeps an engine running as a process of ours and is the [engine.Engine] of it.
//
//	cmd ──New──▶ Engine ◀──Probe, Generate── replica actor, attempts ──▶ the life's own adapter ──▶ 127.0.0.1:port
//	               │ keeper: one goroutine, the machine, the present Process
//	               ├─ Ready   first probe that succeeds ─▶ serving
//	               ├─ Restart the replica's life cycle gave it up ─▶ kill, back-off, start
//	               ├─ exit    crash ─▶ what is left of it is ended, back-off, start
//	               └─ Close   ─▶ end with all it started, wait
//
// The adapter of an engine has a fixed URL; a started engine has a new port at every start. So each life has an adapter of its
// own, made when its process starts, and Engine delegates to the present one. Between two lives it answers Refused, as a port
// where nobody listens does. An old life's calls end by themselves, when the process has closed their connections, and read
// what it still sent; only then its adapter is closed.
//
// # Why it is no actor
//
// The engine and its cache outlive a restart of the replica's actor after a panic of ours, which is a new epoch of the same
// life. The process therefore belongs to the Engine value, which the actor system closes when the replica is gone, and not to
// an actor below the replica's. A panic of the keeper ends the process and begins anew.
//
// # Who owns what
//
//	phase, back-off, starts    the machine, the keeper's goroutine alone     Status, an atomic pointer
//	present life               the keeper stores it                          atomic pointer, read by calls
//	process                    the keeper; Close waits for its end
//
// Invariants: at most one process at a time, and none is started before everything of the last is gone; the evidence of an
// incarnation names the start, so that no two lives are taken for one; a call never reaches another life's port.
package managed
