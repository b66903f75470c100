// Package stream carries one request from its submission to its end: the stream machine and its journal.
//
//	ingress ──Submit──▶ Call (a goroutine of its own, runs the machine)
//	                     │ ▲ Encoded, Placed, Rejected            ▲ frames
//	                     ▼ │                                      │
//	                   router ──reserve──▶ replica          attempt goroutine ──Generate──▶ engine
//	                     │
//	                     └─entries─▶ Response (journal) ──Next──▶ the client's writer
//
// A request has N answers to each of its prompts: its legs. A leg has one attempt at a time that counts, or two while it
// hedges; an attempt has one ticket on one replica. The attempt's goroutine reads the engine and never waits for the client: what it reads goes
// through the machine (end tokens, stop strings, detokenizer) into the journal, from which the client's writer reads at
// its own pace.
//
// A raw prompt is a chat that the engine renders. Its answer is relayed: text, stops, ends and what is said beside text are the
// engine's, only max_tokens, the seed, the salt and what is reserved are ours; nothing is learned from its estimated length.
//
// # When an engine fails
//
// A leg whose attempt fails is submitted again, as long as its limits and its client allow it ([Config], [Request]):
//
//	nothing produced    it is routed anew, as if it had not begun. That takes from the model's [Budget] of retries; a leg
//	                    that was shed waits for it, a little, where it is spent
//	something produced  prompt and journal are the prompt of the next attempt, which is asked for the rest: max_tokens and
//	                    min_tokens less what there is. The leg's detokenizer, stop strings, limit and usage go on over
//	                    the joint, because they are the leg's and no attempt's.
//	 ... of which the client was sent nothing, and that cannot go on: the journal is dropped, and it begins anew
//
// What ends an answer (an end token, a stop, max_tokens) is found in the journal at once, so an answer that is over needs no
// further attempt, whatever its engine says or leaves out. How near the continuation comes to what would have been is the
// leg's [Class]. A failed life of an engine is not tried again by the same leg; all that share its process fall with it. Two
// attempts in a row that took a journal and added nothing to it end the request: it may be what breaks the engines. Those
// that would not even take it do not count.
//
// An answer's journal has all its IDs. Where an engine did not tell some (llama.cpp, inside a character), their text is
// encoded for the next attempt, and the answer is not exact any more.
//
// # When a first token is late
//
// Where Config.HedgeAfter is set, a request of one leg that nothing has come of is given a second attempt beside its first, once,
// when that one has taken so many times as long as was predicted for its first token: a hedge.
//
//	asked for         with a share in the [Budget] of retries, which is not waited for; the first attempt's process is excluded.
//	                  The router places it at once or declines, and then it is over: the request has lost nothing by it
//	a token or an end the attempt that brings one first goes on; the other is aborted in the same step, before anything is
//	                  given out, and lingers. If that is the first one its replica hears that it was late, so that one that hangs
//	                  is found though its requests never stay long enough. Journal, limit, usage, cached tokens and
//	                  X-Plimsoll-Replica are the winner's
//	a failure         before that: the failed one is excluded and the replica hears of it as always, the other goes on alone.
//	                  If both fail the leg is routed anew. What is the client's fault (400, 413, 422) ends the request, whoever says it
//	all else          what ends the request, or empties a replica, deals with both as it does with one
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
