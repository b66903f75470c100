// Package fleet replays traffic on a simulated fleet in virtual time: the decisions are those of production, the engines are
// engine/sim, and nothing waits.
//
//	trace.Source ─▶ call ([stream.Machine]) ─Submit─▶ front ([router.Machine]: queue, policy, admission)
//	                  ▲   │                              │ Reserve          ▲ Granted, Refused, Room
//	                  │   └─ StartAttempt ─▶ engine      ▼                  │
//	                  └── tokens of a pass ── ([sim.Machine]) ◀─ host ([replica.Machine]: ledger, ramp, hang rule)
//	                                             └─ cache events, after Config.FeedDelay ─▶ prefix index ─▶ front
//
// Everything but the clock, the mail between actors and the bytes on the wire is the code that serves: routing, queue and
// admission exist once. What is simulated away: tokenization takes no time, mail and frames arrive at once, in the order in
// which they were sent, and clients read at once. Prompts are real token IDs made from the trace's content ([trace.Text]); the
// engine answers with the recorded length ([sim.Submit.Answer]), which the router learns when the answer ends, as it would.
//
// [Run] is one run: one goroutine, all state in a world of its own. Equal configurations and traces give equal results, to
// the last bit of [Result.Digest]. After the last request all ledgers and queues are empty, or Run fails.
//
// [Saturation] measures what a fleet can do at most, which is load 1. `plimsoll replay` and benchmarks of policies call both.
package fleet
