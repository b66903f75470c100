// Package vllm speaks to vLLM's OpenAI-compatible server, token IDs in and token IDs out.
//
//	Generate ─encode─▶ POST /v1/completions       {"prompt":[ids],"return_token_ids":true,...}      works everywhere
//	                   POST /inference/v1/generate {"token_ids":[ids],"sampling_params":{..},...}    where it is on
//	                   POST /v1/chat/completions   the client's body, for what we can't render
//	                      │ 4xx, 503: one JSON error                ─▶ [engine.Failure]
//	                      ▼ 200: event stream (engine/wire)
//	         emit ◀─decoder─ data: {"choices":[{"token_ids":[3091],...}]} ... {"usage":{..}}, [DONE]
//	Probe ─▶ GET /health, /v1/models, /metrics; once a life /version and whether generate is on
//
// One [Engine] is one data-parallel rank of one server; its probes say which others there are. The replica actor owns it; calls are
// independent of each other and safe for concurrent use. Verified against the bodies recorded from vLLM 0.32.0, which lie
// in testdata, and against a real server (testbench/e2e/vllm).
//
// # What the server does, and what follows here
//
//   - Every stream ends in [DONE], also after an error frame: it proves nothing. Complete is what had a finish_reason and
//     no error frame.
//   - Validation that needs the engine comes after the 200: a stream may be nothing but an error frame with code 400.
//   - The finish comes before the usage, and only the usage tells cached_tokens (if the server was started with
//     --enable-prompt-tokens-details): the frame with the finish is held back until the usage came, or [DONE], or the
//     stream's end, or EndTimeout.
//   - token_ids of a frame and its text do not belong together (hold-back of stop strings and of incomplete characters);
//     only token_ids are read. A frame may carry several. Stop strings are Plimsoll's own and are not sent.
//   - In a chat text and deltas are the server's, and frames may say something without an ID (what a parser held back): each is
//     told as one token without an ID, which does not count against max_tokens.
//   - max_tokens defaults to 16 and is clamped silently to the context: it is always sent.
//   - A body's request_id loses to the header X-Request-Id: the header is what is sent.
//   - 401 bodies are {"error":"Unauthorized"}, unknown routes {"detail":".."}, older servers' errors flat.
//   - 503 means that the queue is full; there is no Retry-After. /health answers 503 when the engine core is dead, which is
//     Broken, and stays 200 when it hangs.
//   - After SIGTERM open streams hang without a byte: that is the stream machine's time-out, not seen here.
//   - A client that disconnects aborts: the running gauge fell within 0.12 s, no counter tells (ConfirmsAbort is false).
//   - Keep-alive comments and role-only deltas are no sign of life.
//
// # Capacity
//
// /metrics tells each rank's cache in vllm:cache_config_info. kv_cache_size_tokens goes before num_gpu_blocks, which counts
// the blocks of all ranks; the null block is in both, so usable is one less. Without metrics (--disable-log-stats) one
// sequence of max_model_len is assumed, which every server holds. max_num_seqs is told nowhere: Config.Slots says it.
//
// # Events of the cache
//
// A subscription asks GET /kv_event_sources where the rank publishes (behind no key; {} or 404: nowhere), or is told by
// Config.Publisher, and listens with package kvevents. The ports may be others after a restart, so that each subscription asks.
//
// # Two lives
//
// The evidence is process_start_time_seconds. A server with several API processes does not expose it; then counters that
// went back are evidence, or a refused connection while no call of ours is running.
package vllm
