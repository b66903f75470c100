// Package detok turns an answer's token ids into text as they come, and finds stop strings in that text. It is pure: no
// goroutine, no clock, no I/O but the decoder it is given.
//
//	ids ─▶ Stream ─ pieces ─▶ Stops ─▶ text for the client
//	         │ Decoder: the model's own (package hf)
//	         └ window: the ids given out last + those held
//
// The egress of a request calls it from the request's own goroutine and owns both values; neither is safe for two goroutines.
//
// Ids can't be decoded one by one: a character may be split over several, and some decoders strip the space of the first
// one. A [Stream] therefore decodes a small window: the ids whose text was given out last, as context, and those after them.
// Trailing U+FFFD characters may be the start of a character yet to come: they are held, everything before them is given out.
//
//	window   [ context ........ | pending ...... ]      at most a few dozen ids
//	decoded  "text given out"   "more given" "��"
//	                                  given ─┘└─ held until the next id, or Flush
//
// # Invariants
//
//   - The pieces and the flush, put together, are the decoder's text of all ids, wherever that text only ever grows.
//     A decoder with byte fallback may turn characters that were given out into U+FFFD; what was given out stays.
//   - No piece ends inside a character, and none holds bytes that are no UTF-8, as far as the decoder's text is valid.
//   - Memory and the time of a Push do not grow with the answer.
//   - What Stops gives out does not depend on how the text was cut into pieces.
package detok
