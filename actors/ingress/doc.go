// Package ingress is the HTTP edge: it authenticates, checks, hands requests to the actors behind [Front], and writes answers
// and errors as the official OpenAI clients type them.
//
//	             ┌─ key ─ route ─ media type ─ body ─ parameters ─┐
//	client ──────▶ exchange                                 stream.Request ──Front.Submit──▶ actors
//	   ▲                                                                                       │
//	   └── JSON, or SSE: chunks, comments, one [DONE] ── aligner ◀──Response.Next── journal ◀──┘
//
// cmd/plimsoll and the test bench make a [Server]; the actor system implements Front. A request's goroutine (net/http's)
// owns its exchange and is the one reader of its Response; what all share is the count of body bytes, an atomic.
//
// # Invariants
//
//   - Where keys are configured every route needs one but /, /health and /ready, unknown ones included. OPTIONS needs none: a
//     browser asks with it before it sends a page's request, and shows no key.
//   - The client's leaving cancels the request at once, wherever it is: queued, in prefill, while a write blocks. A client
//     that closes its sending side has left, as net/http sees it: who wants the answer keeps the connection open.
//   - Status and headers go out with the first token or a definitive error; after Config.EarlyHeaders without either status
//     200 and comments, and a later error is an event. A stream ends with exactly one [DONE] or, after an error event,
//     with none. A stream cut by a fault of ours ends without a clean end of the body.
//   - A mistake of the client's is a 400 that names the parameter, never a 5xx, and reaches no engine.
//   - No message to a client carries an address, a key or a stack.
//   - Memory is bounded: Config.BodyBytes a body, BodiesBytes over all, LegsMax answers a request, HeaderBytes a header.
//
// # Routes
//
//	POST /v1/chat/completions   one chat, n answers
//	POST /v1/completions        prompt: a text, texts, token IDs, lists of token IDs; choice index = prompt * n + answer
//	GET  /v1/models             GET /v1/models/{id}: an ID may hold slashes
//	POST /tokenize              {prompt} or {messages}, as vLLM: {count, max_model_len, tokens, token_strs}
//	POST /detokenize            {tokens}, as vLLM: {prompt}; an ID beyond the vocabulary is a 400
//	GET  /                      a page that says what this is
//	GET  /health                200 while the process can answer
//	GET  /ready                 200 if every model has a replica that serves, else 503; the body counts the replicas by state, and with a key says which
//	GET  /metrics               Prometheus
//
// HEAD goes with GET, OPTIONS answers 204 with Allow; other methods get 405 with Allow, other paths 404, both as JSON. One
// slash stands where a path has several, and none at its end, before the route and its key are looked at; otherwise a path is
// compared as it stands: /v1/../metrics is another path, nothing is redirected.
// Bodies are JSON in UTF-8, uncompressed; a byte order mark before it and a charset beside its type change nothing. A body without Content-Type is taken as JSON (curl and small clients), one with
// another type is a 415. Names of members are compared to the letter, the last of equal ones counts, null means absent,
// unknown members are passed over, as the API does it.
//
// Pages of Config.Origins may call from a browser: answers, errors too, and what OPTIONS says carry Access-Control headers for
// them. Cookies are neither set nor read.
//
// A request with Transfer-Encoding over HTTP/1 ends its connection with the answer. One that has a Content-Length as well has to
// (RFC 9112, 6.1), and net/http does not tell the two apart.
//
// # Headers
//
//	in   Authorization: Bearer KEY, x-api-key: KEY     either
//	in   X-Request-Id       1-128 of [A-Za-z0-9-_.:/+=@], else a new one is made; it stands in the log, not in the answer's id
//	in   X-Session-Id       whose turn it is; beats prompt_cache_key
//	in   X-Slo-Ttft-Ms      milliseconds to the first token, up to an hour: who would get it later gets a 429 at once; beats
//	                        Config.SLOs, as does
//	in   X-Slo-Tpot-Ms      milliseconds from one token to the next, likewise
//	in   X-Plimsoll-Resume  what may become of an answer whose engine fails after its first token: best (the default) has
//	                        another one go on; exact only if that changes nothing, off never, else it ends with an error
//	                        event. A whole (not streamed) answer begins anew instead. Another word is a 400
//	out  X-Request-Id       on every answer
//	out  X-Plimsoll-Replica replicas that work on the answer, joined by commas
//	out  Openai-Processing-Ms
//	out  Server-Timing      milliseconds: tokenize (from the arrival to known token IDs), queue (until a replica had room),
//	                        prefill (until the engine's first token), and from the arrival: ttft (first token at hand), total
//	                        (these headers); replicas and attempts, of all choices
//	out  Retry-After        with 429 and 503, whole seconds
//	out  Cache-Control: no-cache, X-Accel-Buffering: no   with streams
//
// # Parameters
//
// Served on both /v1/chat/completions and /v1/completions; outside its range each is a 400:
//
//	model                       a served model; absent or "": the only one
//	n                           1..128; prompts * n at most Config.LegsMax
//	stream, stream_options      include_usage: a last chunk with the usage and null in the others; continuous_usage_stats:
//	                            each chunk has the usage so far, of all choices; stream_options.include_obfuscation is ignored
//	temperature                 0..2
//	top_p                       0..1; 0: greedy, as temperature 0
//	top_k                       -1 or 0: all; else at least 1
//	min_p                       0..1
//	presence_penalty, frequency_penalty   -2..2
//	repetition_penalty          above 0, at most 10
//	seed                        64 bits; leg i has seed + i; -1: none
//	logit_bias                  {"token ID": -100..100}, at most 1024; where the model's engines have it
//	stop                        a string or a list, each 1..1024 bytes, 16 KiB in all
//	stop_token_ids              up to 128 IDs of the vocabulary
//	include_stop_str_in_output, ignore_eos, skip_special_tokens (true)
//	min_tokens                  0..max_tokens; where the model's engines have it
//	cache_salt                  1..1024 bytes
//	prompt_cache_key            up to 256 bytes: the session
//	service_tier                auto, default, scale: class default; priority, flex: those. The class says who waits for whom
//
// Served on /v1/chat/completions:
//
//	messages                    required, not empty, no more than the model's context has tokens; parts that are no text go to an engine
//	                            that renders chats itself, if there is one
//	tools                       []: none; calls come back as text, or as tool_calls from an engine that reads its answers itself
//	tool_choice                 "auto" (with tools), "none"
//	max_completion_tokens, max_tokens     at least 1; both given: equal; absent: the room left
//	logprobs, top_logprobs      true; 0..20; where the model's engines have it
//	reasoning_effort, chat_template_kwargs, documents, add_generation_prompt, continue_final_message
//	add_special_tokens          false only
//
// Served on /v1/completions:
//
//	prompt                      required, each one not empty, IDs within the vocabulary; of a text that is certain to be too long the
//	                            error says how many tokens it has at least
//	max_tokens                  at least 1; absent: 16
//	logprobs                    0..20; where the model's engines have it
//	best_of                     n only
//	add_special_tokens          true
//
// Taken and without effect on the answer:
//
//	user, metadata, safety_identifier, prompt_cache_retention, priority, request_id, stream_interval,
//	spaces_between_special_tokens
//
// Refused with a 400 that names the parameter, because they would change the answer and are not served (a value that asks for
// nothing, in brackets, passes):
//
//	functions ([]), function_call, parallel_tool_calls (true; any without tools), response_format ({"type":"text"}), structured_outputs ({}),
//	guided_json, guided_regex, guided_choice, guided_grammar, guided_decoding_backend, guided_whitespace_pattern,
//	structural_tag, grammar (""), json_schema ({}), regex, ebnf, modalities (["text"]), audio, mm_processor_kwargs ({}),
//	media_io_kwargs ({}), prediction, web_search_options, store (false), verbosity ("medium"), include_reasoning (true),
//	echo (false), suffix (""), prompt_embeds, prompt_logprobs, truncate_prompt_tokens, use_beam_search (false),
//	length_penalty (1), allowed_token_ids, bad_words ([]), logits_processors ([]), logprob_token_ids ([]),
//	thinking_token_budget, chat_template, return_token_ids (false), return_tokens_as_token_ids (false),
//	kv_transfer_params ({}), ec_transfer_params ({}), vllm_xargs ({})
//
// Where every chat goes to the engine as it came (Model.EngineRenders), chats may have response_format, structured_outputs,
// parallel_tool_calls, include_reasoning, thinking_token_budget and any tool_choice: the engine serves or refuses them.
//
// Refused likewise in chats, because only completions have it: prompt, best_of (1). In completions, because only chats have
// it: messages, tools ([]), tool_choice ("none", "auto"), max_completion_tokens, top_logprobs (0), reasoning_effort,
// chat_template_kwargs ({}), documents ([]), continue_final_message (false).
//
// # Answers
//
// The types are those of plimsoll/engine/openai. usage.prompt_tokens_details is absent where the engine does not tell what
// it had cached. Choices carry vLLM's stop_reason. Logprobs have one entry for each of the completion's tokens, whose
// bytes, one after the other, are the choice's text: tokens that add no text (special ones, what a stop string cut off) have
// none and go by their name in the vocabulary. A token whose log probability is minus infinity, or that the engine gave none
// for, has -9999. In chats a token that is no text by itself is written \xe2\x82, in text completions bytes:\xe2\x82.
// text_offset counts code points from the start of the choice's text.
//
// A relayed answer, of a chat that the engine rendered, says what the engine says: members of its deltas beside content
// (tool_calls, reasoning, ...) stand in the chunk's delta and, added up, in the message; finish_reason may be tool_calls; stop
// strings and tokens work, stop_reason does not name them. One chunk may hold what the engine said in several.
// usage.prompt_tokens is the engine's figure, or an estimate if the answer broke off before it. A logprob's bytes are the
// token's part of the content: none for tokens of reasoning and calls.
//
// # Errors
//
// fault.go holds the one table from a fault's kind to status, type, code and Retry-After. The body is
// {"error": {"message", "type", "param", "code"}}, also as the data of an error event in a stream. A stream that has begun ends
// with [DONE], with an error event, or, where its client has left or takes nothing for Config.ClientStall, with a connection that breaks:
// there is no fourth end.
package ingress
