// Package simmodel is the embedded model plimsoll-sim: a real tokenizer.json (byte-level BPE of 4,098 ids with ChatML, thinking
// and tool tokens), a chat template, and a source of readable text for the simulated engine, so that `plimsoll serve` answers
// without any file or network.
//
//	FS ─▶ the ordinary loaders (hf, chat) ─▶ prompts in ids
//	sentence templates ─ encoded once ─▶ automaton over ids ─▶ Source ─▶ engine/sim draws an answer's ids
//
// The wiring of serve and the simulated engines call it. A [Source] does not change after it is made; any number of
// engines share one.
//
// # What a Source promises
//
// The next id is a function of the last ids of the context and of a digest of everything that determines the draw. The last
// ids tell where in a sentence the text stands; the digest chooses among the words that may follow there: several times in
// each sentence, so that a draw from a wrong context shows in the text. It knows nothing of where the prompt ends: an answer
// that is resumed on another engine goes on as it would have.
//
// The ids of an answer are those that its text encodes to: the next turn of a chat finds its prefix in the engine's cache.
package simmodel
