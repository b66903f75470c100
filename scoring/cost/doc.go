// Package cost predicts, in seconds, what it costs to send a request to a replica, and learns the rates it needs from
// what streams show. README.md has the formula, its inputs and defaults, and when it is wrong.
//
//	load snapshot, Pending, Rates ──ReplicaAt──▶ Replica ──Cost(Demand, hit, Prices)──▶ Breakdown {wait, prefill, decode, stall, ...}
//	                                                └──Offer──▶ Quote.TotalSeconds: the sum of many, fast
//	first tokens, token gaps, finished outputs ──Learner (an Estimator)──▶ rates and busy share per replica, Forecast of answers
//
// Callers: scoring/policy ranks by it, the router actor predicts first tokens; it owns a [Learner], feeds it and asks it, and is
// its only user.
//
// Invariants: every part of a breakdown is finite and not negative; learned rates stay positive whatever was observed.
package cost
