// Package cost predicts, in seconds, what it costs to send a request to a replica, and learns the rates it needs from
// what streams show. README.md has the formula, its inputs and defaults, and when it is wrong.
//
//	Demand, Replica (load snapshot), hit, Rates ──Predict──▶ Breakdown {wait, prefill, decode, residents}
//	first tokens, token gaps, finished outputs ──Learner───▶ Rates per replica, predicted output length
//
// Callers: scoring/policy predicts; the router actor owns a [Learner], feeds it and asks it. Neither is safe for
// concurrent use with itself.
//
// Invariants: every part of a breakdown is finite and not negative; learned rates stay positive whatever was observed.
package cost
