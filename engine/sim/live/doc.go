// Package live runs a simulated engine in real time, inside the process: an [engine.Engine] and [engine.KVSource]
// without a wire.
//
//	Generate ──submit, abort──▶ ┌──────────────┐ ──token, end──▶ call (mailbox) ──▶ emit, in Generate's goroutine
//	Subscribe ──subscribe─────▶ │ loop: owns   │ ──KVBatch─────▶ feed (bounded) ──▶ sink, in Subscribe's goroutine
//	Kill, Pause, ... ─control─▶ │ sim.Machine  │ ──Status──────▶ atomic pointer ──▶ Probe
//	              timer ──────▶ └──────────────┘
//
// One goroutine, the loop, owns the machine, the calls and the feeds' list. It waits for nobody: a call's mailbox is
// bounded by the request's max_tokens; a feed that falls behind loses its backlog and gets a snapshot of the whole
// cache (Reset) instead, one of [Engine.Follow] what comes then. Calls and feeds are each written by the loop and read by
// one goroutine.
//
// [Engine.Kill], [Engine.Start], [Engine.Pause], [Engine.Resume] and [Engine.Slow] inject faults. A killed engine behaves as a dead
// process: streams break, the cache is gone, probes are refused until Start, which is a new incarnation. A paused one
// behaves as a hung one: requests are neither answered nor let go of, and probes show a step counter that stands still.
// A panic in the machine or the token source is a crash of the engine, not of the process.
//
// Generate returns after a cancel only when the machine has let go of the request's blocks (ConfirmsAbort); during
// Pause that is when the engine goes on, dies or is closed.
package live
