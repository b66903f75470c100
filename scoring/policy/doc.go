// Package policy decides for one request which replica takes it now, or that it waits, or that it is refused.
//
//	fleet: []Candidate ──Pass.Begin──▶ Policy.Begin                          once for all decisions of a moment
//	Demand, []Fit ───────Policy.Decide──▶ Dispatch(i) | Hold(i, until) | Refuse     one request after the other
//
// A [Candidate] is a replica whatever the request, a [Fit] is what it is to one. What is held for a replica in a pass counts as load
// there for those behind it. [Eligible] is the only place that says whether a replica can take a request, and why not;
// policies, [Lay] and the choice of status codes all use it. The replica's own ledger still grants or refuses: what a policy
// sees is a snapshot.
//
// What is free on a candidate may be kept for requests that wait ([Pass.Keep]), against those of lower classes: [Pass.Serve] says whom
// the next decisions are for, and takes it off what they find. The caller goes through what waits by class, the highest first.
//
// Callers: the router actor owns a policy and a [Pass] and is their only user; testbench runs the same ones on recorded traffic.
//
// Invariants, checked for every policy by suite_test.go: only an eligible candidate is dispatched to; nobody is held past
// [Policy.Bound] while somebody can take it; the same random seed and calls give the same decisions; all idle means that
// something is dispatched; what is kept is found by its own class and those above it alone. Decisions allocate nothing.
//
// README.md says what each policy is for.
package policy
