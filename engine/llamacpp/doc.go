// Package llamacpp speaks to llama.cpp's llama-server over its native /completion, token IDs in and token IDs out.
//
//	Generate ─encode─▶ POST /completion {"prompt":[ids],"stream":true,...}
//	                      │ 4xx, 503: one JSON error        ─▶ [engine.Failure]
//	                      ▼ 200: event stream (engine/sse)
//	         emit ◀─decoder─ data: {"tokens":[506],"tokens_predicted":1,...} ... {"stop":true,"stop_type":"limit"}
//	Probe ─▶ GET /health, GET /props, GET /metrics (if the server has it on)
//
// One [Engine] is one server. The replica actor owns it; calls are independent of each other and safe for concurrent use.
// Verified against the bodies recorded from build 11434, which lie in testdata.
//
// # What the server does, and what follows here
//
//   - The headers come when a slot has taken the request: no headers means still queued. There is no timeout on them;
//     deadlines belong to the stream machine, which cancels the context. Closing the connection frees the slot: while
//     decoding within a step, during the prompt at the end of the batch (LingerBound, ConfirmsAbort is false).
//   - Frames of an incomplete character are not sent and their IDs are lost; tokens_predicted jumps. The token after the
//     hole carries LostIDs and Text. A character that the token limit cuts is lost without a trace in the stream.
//   - Progress frames carry "tokens":[0], which is no token. They are asked for because the first of them says how much
//     of the prompt was cached, which an aborted request would never tell otherwise; it travels with the first token.
//   - The end token comes as a frame with its ID and no text, then the last frame says stop_type eos.
//   - A stream has no [DONE]. Without a frame "stop":true it is broken, however cleanly it ends.
//   - When the unified KV pool overruns, every running request of the server fails at once, by an error frame under
//     status 200 or by a 500: both are Broken.
//   - A request pinned to a slot waits for it while others are free: id_slot is always -1.
//   - X-Conversation-Id makes a generation survive its client: it is never sent.
//   - Keep-alive connections are closed by the server after 5 s, so we drop them after 4 s. If one was closed just as a
//     request went out, and nothing of an answer was read, the request is sent again on another connection.
//   - GET /slots wakes a sleeping server: it is never called.
//
// # What requests mean here
//
// A sampling parameter that is nil is left to the server, whose defaults are not OpenAI's: temperature 0.8, top_k 40,
// top_p 0.95, min_p 0.05 (or what the operator started it with). Penalties look at the last 64 tokens, prompt included.
// Seeds are folded to 32 bits. Stop strings are Plimsoll's own and are not sent. EndTokens are not sent either: the
// server ends at the model's own end tokens, and the stream machine ends a leg at others when it sees them. MinTokens
// and LoRA names have no counterpart and are refused as Client. The prefix cache knows no salt: a request with
// a salt does not read the cache, so that it cannot see what others asked; what it leaves can still be hit by a request
// without one.
//
// # Capacity
//
// The server has no KV blocks; Status counts in groups of Config.BlockTokens so that ledger and index treat it like any
// other. It does not tell whether its slots share one pool of n_ctx tokens (the default) or own n_ctx each (-np N), and
// overrunning a shared pool fails every request. So KVBlocks is n_ctx alone unless Config.CapacityTokens says more.
package llamacpp
