// Package trial compares routing policies on the same traffic, side by side.
//
//	Traffic (trace, cut, seed) ─┬─ Simulate: testbench/fleet, at a load that is a share of what the fleet can do at most ─┐
//	                            └─ Target: testbench/load, a live endpoint by the wall clock ─────────────────────────────┴▶ Report
//	Report ─▶ Table (terminal), JSON (scripts), Page (one HTML file with plots)
//
// A run is one policy on one seed; runs of one seed have the same requests at the same times, so that policies are compared in
// pairs. A request that was refused or failed counts as infinite in every percentile, and is never good.
//
// `plimsoll replay` and the benchmark of policies call it. It holds no state but a cache file of measured saturations.
package trial
