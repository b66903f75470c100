// Package slo predicts how long a request that comes now waits for its first token, and learns how far that is off.
//
//	what stands before it (queue) ─┐
//	each replica's room and pace ──┴▶ Predict ──▶ room: its prefill can begin; first token
//	                                                │ × Errors.Factor (p80, learned)
//	first tokens that came ──▶ Errors.Observe       ▼
//	                                        refused if that is later than the request's SLO
//
// # The prediction
//
// A fluid model of the fleet. What stands before the request in the queue's order is poured over the replicas: its prefill
// seconds fill their prefill queues up to one level, its blocks and seats take what is free, in proportion to it, and
// then what those that are there give back. A replica that is full gives back all it has once in LifeSeconds, the time that
// a request stays. The prompt starts on a replica when the level, or what is queued there if that is more, has been
// computed and there is room for it; its first token comes one prefill later. The soonest over all replicas counts.
//
// What is behind the request in the queue does not count, nor what is held for a better replica and lets it pass.
//
// # Its error
//
// [Errors] keeps what came ÷ what was predicted, by how long a wait was predicted, and answers with a quantile of the last
// minute's. It forgets: a wait that is never let happen because its last ones were bad would else never be tried again.
//
// The router actor calls it and owns the [Errors]. It is pure: times are arguments.
//
// Invariants: a prediction is finite and not negative, and never sooner with more ahead; a factor is within FactorLeast
// and FactorMost.
package slo
