// Package policy decides for one request which replica takes it now, or that it waits, or that it is refused.
//
//	Demand, []Candidate ──Eligible──▶ who can take it now ──cost.Predict──▶ Decision: Dispatch(i) | Hold | Refuse
//
// [Eligible] is the only place that says whether a replica can take a request, and why not; policies, [Explain] and the
// choice of status codes all use it. The replica's own ledger still grants or refuses: what a policy sees is a snapshot.
//
// Callers: the router actor owns a policy and is its only user; testbench runs the same ones on recorded traffic.
//
// Invariants, checked for every policy by suite_test.go: only an eligible candidate is dispatched to; the same random
// seed and calls give the same decisions; all idle means that something is dispatched.
//
// README.md says what each policy is for.
package policy
