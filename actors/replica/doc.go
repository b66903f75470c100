// Package replica owns one engine replica: its life cycle, its ledger and the two things that watch the engine.
//
//	router ──Reserve──▶ replica actor ──Granted, Refused──▶ router
//	request goroutines ──Started, Progress, AttemptFailed, End──▶ replica actor
//	                        │ supervises (Strategy of package supervise)
//	                        ├─ connection: probes the engine ──Probed, ProbeFailed──▶ replica actor
//	                        └─ feed: cache events (or what was routed there) ──▶ prefix index
//	replica actor ──Snapshot──▶ atomic pointer in Ref ──▶ read by routers, probes, metrics
//
// # Who owns what
//
//	ledger, life cycle      the replica actor, inside [Machine]; nobody else writes, by message only
//	published snapshot      the replica actor writes, everybody reads (Ref.Snapshot)
//	index slot              the feed: the only writer of its slot; routers add and withdraw speculation of their own
//	incarnation counter     the replica actor; it lives in the Ref, because it must survive the actor's restart
//
// # States
//
// [State] and the table beside it say which states are routable, whether running legs stay, whether the index counts, and
// who leaves a state on what.
//
// # Epoch and incarnation
//
// A restart of the actor after a panic of ours is a new epoch: the engine and its KV live on. The new instance asks every
// live request for its tickets on this replica and grants nothing before all have answered or a second has passed. A new
// incarnation is another life of the engine process: every ticket and the index are void.
package replica
