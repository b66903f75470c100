// Package kvmodel holds random engines whose KV cache is known: what they publish can be damaged on its way, and what an
// index makes of it compared with the truth.
//
//	Library (texts) ──path──▶ Engine.Step ──events──▶ publisher, faults, feed, index
//	                             │ truth                              │ claim
//	                             └──────────── must be equal ◀────────┘
//
// A [Library] is a tree of texts: a node is a block and all that stands before it, so nodes are the blocks' identity and the
// truth needs no hashing. An [Engine] serves paths of it at random: it pins what it holds, evicts the least recently freed
// block, the last of a sequence first, to make room, stores what it computed (copies included), copies blocks to a host
// tier, resets, and begins a new life. It shares no code with the index, the ledger or the simulated engine.
//
// Callers: the model-based test of the feed and the index, and the soak over sockets. An Engine is owned by one goroutine; a
// Library does not change once made.
package kvmodel
