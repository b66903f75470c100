// Package engine is the contract between Plimsoll and one LLM engine replica: token IDs in, token IDs out.
//
//	actors/stream ──Request──▶ Engine.Generate ──Event, Event, ...──▶ emit   (one call per attempt, its own connection)
//	actors/replica ──────────▶ Engine.Probe    ──Status──▶ life cycle, limits, load
//	actors/kvfeed  ──────────▶ KVSource.Subscribe ──[KVBatch]──▶ prefix index
//
// Each sub-package speaks one engine's protocol (sim, llamacpp, ...); enginetest holds what all of them promise.
// An Engine value is safe for concurrent use and keeps no state about requests beyond the running calls; the replica
// actor owns it and closes it. Everything an engine says is turned into the types of this package at the edge, so that
// no other room knows a protocol.
//
// # What an adapter promises
//
//   - Generate always asks the engine to stream, emits events in order from one goroutine and returns nil only after an
//     event that carries a Finish: a clean end of the connection, [DONE] and status 200 prove nothing (a missing finish
//     is a [Failure] of kind Broken).
//   - Pings, comments and progress frames are neither a token nor a sign of life: they are not emitted.
//   - An error of emit ends the call: the adapter aborts the request on the engine and returns that error.
//   - A cancelled context aborts the request on the engine at once; Generate returns the context's error. Whether the
//     engine has then let go of the request's KV blocks is told by Capabilities.ConfirmsAbort, else by LingerBound.
//   - Every other error is a [*Failure] whose kind says what may be done about it.
package engine
