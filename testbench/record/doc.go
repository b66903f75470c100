// Package record writes the traffic that a node serves as a trace of our own format (testbench/trace), so that it can be replayed
// under other policies: when each request came, what its tokens share with others' (keys of blocks), how long its answer was,
// session, tenant, class, max_tokens and what became of it. It writes no text and no token.
//
//	request's goroutine ──Arrived, Ended──▶ list in order of arrival ──▶ writer's goroutine ──▶ FILE, FILE.1 before it
//	                      (never waits)      (bounded)                     keys, JSON, rotation
//
// Lines stand in the order of arrival, but are known at the end of a request. Those that ended wait for those that came before
// them and run on. Where more waits than Config allows, those that run longest are given up: they are dropped and counted, as is
// what comes while the writer is behind. A request of several answers is a line for each.
//
// `plimsoll serve --record FILE` wires it to the actors. The writer's goroutine owns the file; the list is under a lock that is
// never held while anything is hashed or written.
//
// Invariants: no call of a request's goroutine waits for the disk; what is held is bounded in requests and tokens; the lines of
// a file are in order and whole.
package record
