// Package prove runs the built program against simulated engines over real sockets and measures it in real time. It is no
// part of `make test`: each proof is a test with the build tag prove, which a make target of its own starts.
//
//	this test ──recorded requests──▶ plimsoll serve ──HTTP──▶ plimsoll sim (4 replicas)
//	    └──── /metrics of both: caches, preemptions, ledgers
//
// `make prove-replay` replays a slice of a recorded trace under each policy, with caches cold each time, prints a table
// and fails unless strict admission held (no error, no preemption, ledgers empty at the end) and token-load beat
// round-robin in cache hits and in the median time to first token.
//
// `make prove-faulty-replica` sends the same traffic to a good engine alone and to a good and a bad one at the same time, and
// fails if a request fails, if the bad one gets more than a few, if the first tokens come much later, or if an engine that
// was stopped is not in use again soon after it goes on.
//
// `make prove-overload` finds what saturates four engines, sends half, all and thrice of that for a minute each, and half again, open
// loop and with an SLO, and fails if an answer is none of 200, 429 and 503 with a reason and a time, if what was let in is late, if
// less good work is done than at load 1, or if the first tokens are not as before soon after.
//
// `make bench-serve` measures what a streamed token costs `plimsoll serve`, with nginx in the same place in the same run.
package prove
