// Package fakeengine is a simulated vLLM server: engine/sim/live behind the HTTP API of vLLM 0.32, for tests across real
// sockets and for people without a GPU.
//
//	client ──HTTP──▶ handler ──ask──▶ legs (n x prompts) ──engine.Request──▶ live.Engine
//	   ▲                                 │ choice: text, stop strings, finish      │
//	   └── SSE or JSON ◀── shape ◀───────┘ ◀───────────────── engine.Event ────────┘
//
// With [Config].KVEvents it publishes the events of its cache over ZeroMQ too (package kvpub):
//
//	live.Engine ──Follow: every batch of every life──▶ kvFeed ──▶ kvpub.Publisher ──ZMQ──▶ PUB, ROUTER
//
// A batch that the engine could not hand over is a hole in the numbers. When the engine is killed, connections break and the
// ring is lost; Start begins a life with number 0, on the same ports.
//
// `plimsoll sim` and the end-to-end tests of testbench call it. A [Server] owns its engine; a request's legs run in its
// handler's goroutine (several legs: a goroutine each, which the handler waits for), and only counters outlive them. The
// feed of events has a goroutine from [New] to [Server.Close].
//
// Routes: /v1/completions, /v1/chat/completions, /inference/v1/generate and abort_requests, /tokenize, /detokenize,
// /v1/models, /health, /ping, /version, /load, /metrics, /kv_event_sources and /reset_prefix_cache. Names, shapes, status
// codes and error objects are those recorded from a real vLLM (server_test.go compares them member by member). What a
// simulated model cannot do (constrained output, forced tool calls, log probabilities of the prompt, images) is refused with
// 400 rather than ignored.
//
// # Faults
//
// [Server.SetFaults], and PUT /faults with [Config].Faults, make it faulty: error statuses, for all requests, the first ones, or those
// with a text or for an adapter, answers that hang after some tokens, slow passes, a core that hangs or is dead, answers that break off
// with an error frame, end without a finish or go on after it, a wall clock that is wrong, cache events that are lost, doubled, out of
// order or garbled (inject.go).
//
// # As a real vLLM does
//
//   - Every stream ends with [DONE], after an error frame too; status 200 goes out before the engine has looked at the prompt.
//   - prompt_token_ids stand in a choice's first frame, token_ids hold more than the text (end tokens, what is held back).
//   - With stop strings the text lags as many characters behind as the longest of them has, less one.
//   - An incomplete character at the end vanishes.
//   - A client that hangs up aborts its request; no counter tells.
//   - The event of a reset leaves with the next pass; a reset fails while a request runs, unless it may preempt it.
//   - max_tokens beyond the context is clamped; a prompt that fills the context is refused.
package fakeengine
