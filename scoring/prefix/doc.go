// Package prefix knows what the KV caches of a model's replicas hold, and answers in how many leading blocks a prompt is
// cached where.
//
//	KV feed of replica s ── Apply(s, events) ──▶ ┌────────────────────────┐
//	router, no feed ─────── Routed(s, keys) ───▶ │ slot s: content        │
//	router, at dispatch ─── Speculate(s, ..) ──▶ │         + speculations │ ──▶ Match(now, keys): blocks per slot
//	feed broken ─────────── Void(s) ───────────▶ └────────────────────────┘
//
// Blocks are identified by keys of our own, chained over token IDs from a namespace (model, adapter, salt), so that one
// hashing of a prompt serves all replicas; the hashes that engines give only find parents and removals.
//
// Callers: the router actor matches and speculates, KV feed actors apply and void; engine/kvevents makes [Event]s. The
// index owns its state, is safe for concurrent use, and has one writer of events per slot.
//
// [Audit] compares what was predicted of a replica with what its engine reported.
//
// Invariants: a slot never claims a block that its events do not show as held and no live speculation covers; a void
// slot claims nothing; memory is bounded by the capacity given to Add. How holes, orphans, copies, tiers and groups are
// treated is in design.md.
package prefix
