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
// the number of encodes at once.
//
// # The static library
//
// The link needs libtokenizers.a in ./native/lib, which `make tokenizers-lib` makes once (cargo, 1 to 4 minutes) in
// ${XDG_CACHE_HOME:-~/.cache}/plimsoll/tokenizers; TOKENIZERS_LIB=DIR uses a ready one. After that plain `go build`,
// `go test` and editors work without any environment. The library carries a version symbol, so that one of another
// version fails at the link and not at run time. native/Cargo.toml says in what it differs from the module's own.
package hf
