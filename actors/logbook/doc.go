// Package logbook keeps a log whose reader is slow, stuck or gone from holding anybody up.
//
//	slog handler ──Write──▶ waiting (bounded) ──┐
//	slog handler ──Write──▶                     ├── one goroutine ──▶ stderr, a pipe, a file
//	                    full: dropped, counted ─┘
//
// cmd/plimsoll makes one [Book] for a process that serves, before its logger, and closes it at the end. Whoever logs owns
// nothing here: Write copies. The goroutine alone writes to the reader, and may stand still there for ever.
//
// # Invariants
//
//   - Write never blocks on the reader and never fails: a line has its place, or is dropped whole and counted.
//   - Lines keep their order. Once the reader takes lines again, one more line says how many were dropped before it.
//   - Memory is bounded: Config.Bytes that wait, and as many that are being written.
//   - Close returns within Config.Flush, with or without the reader.
package logbook
