// Package dst is the deterministic simulator: the machines of router, replicas, streams and cache feeds, the very ones
// that the actors wrap, under one virtual clock and one seeded scheduler, among simulated engines that fail in every way
// that the issue tracker knows.
//
//	clients ──▶ stream.Machine ◀──mail──▶ router.Machine ◀──mail──▶ replica.Machine ──▶ connection, feed
//	                 │  ▲                                                 probes │  ▲ cache events
//	                 ▼  │ frames, resets                                         ▼  │
//	              process: sim.Machine that is killed, stopped, slowed, cut, overloaded, ...
//
//	          every message, effect and pass ──▶ checkers: each with a model of its own ──▶ Violation
//
// A seed draws everything: the fleet, the traffic, which faults there are (a random subset of all kinds, so that some
// runs have a single kind often and others all of them), and when each message arrives. One run has a safety phase, in
// which faults happen; then all is healed, and within a bounded time every request must have ended, every replica must
// serve, and nothing may be left anywhere. Equal seeds give equal logs, so a seed is a bug report.
//
// Callers: plimsoll dst, make dst, and this package's tests. A run owns all its state; runs share nothing.
//
// # What is checked
//
// A [Checker] stands outside the code under test: it sees what goes into a machine and what comes out of it, keeps books
// of its own, and asks the simulated engine for the truth. It never asks the code for its sums, save to compare.
//
// # How the checkers are checked
//
// A [Plant] alters what goes into or comes out of a machine, as a bug there would: a release dropped, a claim altered. The
// tests require that each plant is found, by the checker it is meant for.
package dst
