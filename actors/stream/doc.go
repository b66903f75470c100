// Package stream carries one request from its submission to its end: the stream machine and its journal.
//
//	ingress ──Submit──▶ Call (a goroutine of its own, runs the machine)
//	                     │ ▲ Encoded, Placed, Rejected            ▲ frames
//	                     ▼ │                                      │
//	                   router ──reserve──▶ replica          attempt goroutine ──Generate──▶ engine
//	                     │
//	                     └─entries─▶ Response (journal) ──Next──▶ the client's writer
//
// A request has N answers to each of its prompts: its legs. A leg has one attempt at a time; an attempt has one ticket on
// one replica. The attempt's goroutine reads the engine and never waits for the client: what it reads goes through the
// machine (end tokens, stop strings, detokenizer) into the journal, from which the client's writer reads at its own pace.
//
// # Who owns what
//
//   - [Machine] state: the call's goroutine. It is pure: events and time go in, effects come out.
//   - The journal ([Response]): the call's goroutine appends, the client's writer takes; what is taken is forgotten.
//   - Tickets: the machine decides their end; the replica's ledger holds them. Each is ended or left to linger once.
//   - Attempt goroutines: the call starts them, cancels them and waits for them before it ends.
//
// A panic in the machine or an adapter fails this request alone: its tickets are given back and its client gets an error.
package stream
