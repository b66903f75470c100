// Package explain remembers how requests were routed, says how one would be routed now, and tries other policies on the same
// traffic without acting on them.
//
//	router's machine ──notes of a step──▶ Batch ──Tell, never waits──▶ Watch's goroutine ──▶ records (ring, bounded) ──▶ /debug/decisions
//	                                                                       │ shadow policies, each with a memory of its own
//	                                                                       └─▶ metrics: errors of predictions, verdicts of shadows
//
// A [Batch] holds copies: what of the fleet a decision saw, what each replica was to the request, the terms of the policy. The
// router's goroutine only copies; tables, shadows, records and metrics are the watch's work. Without a watch there is no batch,
// and a router does nothing more than decide.
//
// Callers: the router fills batches, the system owns one [Watch] a model, the operators' edge reads [Record] values. The goroutine of
// a watch writes all its state; readers get copies of records under its lock.
//
// A request is looked at for a record, and by the shadows, when it is decided for the first time and when it is dispatched or
// refused after a wait; holds in between are noted when their cause or their replica changes. A shadow is asked what it would
// do at that moment with the fleet as the acting policy has made it: one step off the real course, never a course of its own.
//
// Invariants: prompts are never stored; records are bounded in number and in bytes, batches under way and predictions that wait
// for their outcome in number; what does not fit is dropped and counted. Where predictions do not fit, those without a record go first.
package explain
