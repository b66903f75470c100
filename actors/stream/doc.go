// Package stream carries one request from its submission to its end: the stream machine and its journal.
//
//	ingress ──Submit──▶ Call (a goroutine of its own, runs the machine)
//	                     │ ▲ Encoded, Placed, Rejected            ▲ frames
//	                     ▼ │                                      │
//	                   router ──reserve──▶ replica          attempt goroutine ──Generate──▶ engine
//	                     │
//	                     └─entries─▶ Response (journal) ──Next──▶ the client's writer
//
// A request has N answers to each of its prompts: its legs. A leg has one attempt at a time that counts; an attempt has
// one ticket on one replica. The attempt's goroutine reads the engine and never waits for the client: what it reads goes
// through the machine (end tokens, stop strings, detokenizer) into the journal, from which the client's writer reads at
// its own pace.
//
// A raw prompt is a chat that the engine renders. Its answer is relayed: text, stops, ends and what is said beside text are the
// engine's, only max_tokens, the seed, the salt and what is reserved are ours; nothing is learned from its estimated length.
//
// # Who owns what
//
//   - machine state: the call's goroutine. It is pure: events and time go in, effects come out.
//   - The journal ([Response]): the call's goroutine appends, the client's writer takes; what is taken is forgotten.
//   - Tickets: the machine decides their end; the replica's ledger holds them.
//   - Attempt goroutines: the call starts and cancels them. While the call runs it hears of their end and tells the
//     replica. It does not wait for an aborted one to end: it leaves, the attempt is a stray on the list of [Live], and its
//     goroutine tells the replica itself when the engine lets go. A hung engine thus holds tickets and strays, no more of
//     them than it has seats, but no call and no client's connection.
//
// # A ticket's last words
//
// Each ticket placed with a call gets one of
//
//	End                              the engine finished or was never asked
//	AttemptFailed                    the engine failed; after a stall, that an End follows is as for Linger
//	Linger, then End                 aborted; the End when Generate returns, if the engine confirms aborts or had finished
//	Linger                           aborted on an engine that does not confirm: the ledger has a bound for it
//
// A panic in the machine or an adapter fails this request alone: its tickets are given back and its client gets an error.
package stream
