// Package wire is what the adapters of engines behind HTTP have in common: connections, answers that stream, the meaning
// of statuses, and metrics.
//
//	llamacpp, vllm, ... ──[Client.Stream] path, body, [Decoder]──▶ POST ─▶ event stream ─frame─▶ Decoder ─Event─▶ emit
//	                    ──[Client.Get]───────────────────────────▶ GET  ─▶ header, body          (what a probe asks for)
//
// Only adapters call it. A [Client] belongs to one engine value; its methods are safe for concurrent use. What is said
// in an engine's own protocol (paths, bodies, frames) stays in the adapter.
//
// # What holds for every adapter that uses it
//
//   - A call ends with its context, with the error of emit, after an event with a Finish, or in an [engine.Failure].
//   - However a call ends before its finish, its connection is closed at once: that is the abort.
//   - There is no timeout on headers or frames; deadlines belong to the stream machine, which cancels the context.
//   - Servers close connections that were unused for 5 s (uvicorn, llama-server), so ours are dropped after 4 s. If one
//     was closed just as a request went out, and nothing of an answer was read, the request is sent once more.
//   - What a probe asks and does not get is told by path, status and kind: "asked GET /metrics, got 404: is this a vllm
//     server? (kinds: ...)".
//   - No redirect is followed, no proxy used, nothing compressed. No address or key gets into an error.
package wire
