// Package openai holds the wire types of the OpenAI API in both directions: what a server answers, what a client reads,
// and how a request's JSON body is taken apart.
//
//	body ──ParseObject──▶ Object ──Float, Int, IDs, ...──▶ typed values (absent and null are nil)
//	ChatCompletion, Completion, ModelList, ErrorBody ──Marshal──▶ body
//	Chunks.AppendText, AppendFinish, ... ──▶ one SSE event's data, appended to the caller's buffer without allocation
//
// It is used by actors/ingress (the server) and by adapters and test doubles that speak the same protocol. It holds no
// state, and decides nothing: which parameters are served, and their ranges, is the ingress's business.
//
// Invariants: every byte appended is valid UTF-8 and valid JSON whatever the text holds (NUL, U+2028, broken UTF-8); a
// chunk's data holds no line break, so that it is one SSE data line; field names and shapes are those of the API
// reference (https://platform.openai.com/docs/api-reference), with vLLM's stop_reason as the one addition.
package openai
