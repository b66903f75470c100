// Package hf turns text into token ids and back with the model's own tokenizer.json, through the Rust tokenizers library
// (github.com/daulet/tokenizers, cgo). It adds what that binding lacks: errors instead of silence, NUL, the vocabulary, the
// added tokens, and a Close that may run beside calls.
//
//	tokenizer.json[.gz] ──┬─ one JSON pass ─▶ vocabulary, added tokens (Go memory)
//	                      └─ truncation and padding off ─▶ pipeline (Rust memory)
//	text ─ Encode ─▶ []uint32 ─ Decode ─▶ text
//
// The tokenizer room's root and its caches call it, detok drives Decode, and the ingress asks for end tokens. A Tokenizer
// owns its Rust memory (20 to 290 MB for real files) until Close; share one among all models with the same file. Loading
// takes up to 1.5 s: do it before the port opens.
//
// # Invariants
//
//   - Encode never shortens a text: a NUL, at which C strings end, is a [BadInput]; a file's own truncation and padding are off.
//   - Encode never fails silently: no ids for a text that must have some is an error.
//   - Decode keeps NUL, and refuses ids that the vocabulary lacks instead of leaving them out.
//   - Ids and texts are those of the Python library, for all goldens of all families tried.
//   - Memory is bounded: memory.go says how. What a long text took is given back to the system.
//
// An Encode holds an operating system thread for its whole time and can't be cancelled (about 1 s for each MB of text): bound
// the number of encodes at once, and encode long texts in slices.
//
// # Slices
//
// [Tokenizer.Cut] cuts a text so that its ids are those of the slices. Where that can be done is decided from the file's
// structure at the load, and is proved by a property test for every file that the tests know. There are three such places:
//
//   - Before an added token that is found in the raw text, where no other one crosses the place: the library takes such tokens
//     out before anything else, and what stands between two of them goes through the pipeline alone.
//   - In byte-level models, before a blank behind a letter, a digit or a mark: if no match of the pre-tokenizer's patterns can
//     hold the two side by side, and one of them has the first in a match for certain, a piece ends there whatever stands
//     around. Patterns that look around, beside the common one for white space, are not analysed.
//   - In BPE models of SentencePiece, before a blank behind a character to which no token of the vocabulary joins a blank.
//
// A file in which an added token looks at its neighbours (lstrip, single_word) or BPE is random (dropout) is never cut; with
// rstrip, with a normalizer or pre-tokenizer that the rules above do not name, and in Unigram and WordPiece models, texts are cut
// before added tokens alone.
//
// [Tokenizer.AtLeast] is a lower bound on a text's ids: its bytes, each divided by the length of the longest token that has that
// byte, which is at least the text's length divided by that of the longest token. There is none (0) where the
// normalizer or the pre-tokenizer drops text, and where unknown characters become one token, however many they are.
//
// # The static library
//
// The link needs libtokenizers.a in ./native/lib, which `make tokenizers-lib` makes once (cargo, 1 to 4 minutes) in
// ${XDG_CACHE_HOME:-~/.cache}/plimsoll/tokenizers; TOKENIZERS_LIB=DIR uses a ready one. After that plain `go build`,
// `go test` and editors work without any environment. The library carries a version symbol, so that one of another
// version fails at the link and not at run time. native/Cargo.toml says in what it differs from the module's own.
package hf
