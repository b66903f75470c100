// Package chaos breaks engines under traffic and judges what clients saw.
//
//	Plan ─▶ schedule ─▶ strike: signals, PUT /faults, links ──────────┐
//	  │                                                               ▼
//	  └─▶ clients ──HTTP──▶ plimsoll serve ──▶ link (TCP) ──▶ plimsoll sim   (a process each)
//	         │                    │             │ tracker
//	         ▼                    ▼             ▼
//	      streams        /admin, /metrics    attempts ─────▶ Result ─▶ Judge ─▶ verdicts, page, JSON
//
// `plimsoll chaos` calls [Run], which starts and ends the processes. What must hold is judged from outside: [Judge] reads the
// [Result] alone, so that it is tested on records. A plan is YAML (plan.go; plans/ has those that the binary holds).
//
// # What is checked
//
// Simulated engines say what engine/sim's oracle says, a pure function of the prompt and the sampling, so each answer has one
// right text: the oracle's where a resume changes nothing; else (sampled answers) that of engines which began anew at some of
// the joints where attempts were seen to begin. Verdicts bear the names of the invariants of the semantics:
//
//	outcome        every request ended with a whole answer
//	output         every answer is the right one, byte for byte; finishes, log probabilities and usage fit it
//	gap KIND       the times between two frames around a fault of a kind
//	detection      of what hangs: the gap is within the hang rule's bound and 1.5 times the predicted prefill
//	floor          as many streams were hit as the plan wants, else nothing is proved
//	amplification  attempts: one for each leg, one more for each that failed, and the retry budget
//	exclusion      no request came back to a life of an engine that had failed it; an idle connection that the engine closes
//	               as a request comes is no failure
//	zero, live     nothing is left; every engine serves again
//	index          every index follows its engine; what it predicted was there
//	cancel         the engine's socket closes soon after a client left, in each phase
//
// A clock that jumps is the engine's: its events bear a wrong time. That Plimsoll's own clock may jump is shown by the
// deterministic simulator, where time is an argument; a process cannot do that to another honestly.
//
// # Links
//
// A link is a TCP proxy before one port of an engine (HTTP, cache events, their replay). It refuses, delays, parts and cuts
// connections, and reads along: which request an attempt is of (two IDs of its prompt say it), when its first byte came, who
// ended it. Times are all of this process.
//
// # Real engines
//
// A plan may name real engines in the simulated ones' place: some that run already, which can be stopped, or some with a
// command, which are started, killed and started again here. Nobody knows what they should say, how fast they are, or what
// they cache, so that output, index and detection are not judged. Faults that are asked for over HTTP are for simulated ones.
//
// # Who owns what
//
// The tracker owns attempts, each stream's client what it read, the run all else, each under its lock. Goroutines: one a
// client, two a connection, one a fault, one that samples; Run has waited for all of them when it returns.
package chaos
