// Package scoring decides: which replica takes a request, whether it fits there, and what is known about its cache.
// Everything below this folder is pure: no I/O, no goroutine, no clock, no global randomness; time and random sources
// are arguments, so that production and the simulator run the same code.
//
//	tokens ─▶ prefix.AppendKeys ─▶ keys ─▶ prefix.Index.Match ─▶ overlap per replica ─┐
//	replica's ledger.Ledger ─▶ ledger.Load (snapshot) ─────────────────────────────────┤
//	streams ─▶ cost.Learner ─▶ cost.Rates ─────────────────────────────────────────────┤
//	                                                                                   ▼
//	       queue.Queue ◀── Hold ── policy.Policy.Decide ── Dispatch ─▶ ledger.Reserve (by message) ─▶ granted or refused
//
// Before that quota says whether a tenant may ask at all, and slo whether an answer that has to come by a time can.
//
// This root package holds the words that all of them share.
//
//   - replica: one engine instance with its own KV cache
//   - block: the engine's KV cache block; BlockTokens consecutive tokens whose hash covers the whole prefix
//   - overlap: leading tokens of a prompt that a replica holds in its cache
//   - token load: work committed to a replica: queued prefill tokens, decode slots and their KV tokens
//   - KV capacity: blocks the device cache holds; the hard limit of admission
//   - reservation: blocks and seats promised to a request on a replica, held from routing until the engine lets go,
//     named by a [Ticket], ended exactly once
//   - incarnation: one life of an engine process
//
// Callers: actors (router, replica, KV feed), engine/sim and testbench. The package has no state.
package scoring
