// Package load sends recorded requests to a server at their own times and measures what a client sees.
//
//	[]Call ──at its time──▶ one goroutine a call ──POST, SSE──▶ server
//	                           └──▶ []Sample: when the first and the last token came
//
// It is an open loop: a call is due at its time, whatever became of the earlier ones, and all times count from when it was
// due. A server, or a generator, that falls behind shows as longer times, not as fewer calls (no coordinated omission).
// Calls under way are bounded; one that is due while all places are taken waits, and its wait counts.
//
// Proofs and benchmarks of testbench call it. It holds no state between runs.
package load
