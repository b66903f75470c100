// Package sse reads and writes server-sent events: the framing under every streaming API of engines and clients.
//
//	engine ──bytes, cut anywhere──▶ Reader ──Event──▶ adapter           (engine/llamacpp and the like)
//	actors/ingress ──JSON payload──▶ Writer ──"data: {...}\n\n"──▶ client
//
// The format is that of the WHATWG HTML standard, "Server-sent events". Neither type is safe for concurrent use: one
// goroutine owns it for the life of one stream. Both reuse their buffers, so a frame costs no allocation once the
// buffers have grown to the largest frame; the growth is bounded by [Limits].
//
// Invariants:
//   - The events read do not depend on where the bytes were cut.
//   - A frame that the end of the stream cuts short is not delivered, as the standard says.
//   - Comments are counted and never delivered: a ping is not an event.
//   - What is written cannot break its frame: content with a line break is refused with [ErrLineBreak].
//   - An event that is written reads back as the same event.
package sse
