// Package recordings holds and reads the recorded sessions of a real vLLM (testdata, and what else lies in the shared data): the requests of a client
// with what the engine answered, and the cache events that it published meanwhile, as JSON.
//
//	*.requests.jsonl ──▶ [Request]  ─┐
//	                                 ├──▶ tests of scoring/prefix (events as JSON), engine/kvevents and testbench/kvpub (frames), engine/sim (counts)
//	*.events.jsonl ────▶ [Message] ──┘
//
// It says what stands in the files and nothing of what that means to an index: each test reads events into the index's own
// by itself. It holds no state.
package recordings
