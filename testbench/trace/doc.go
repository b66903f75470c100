// Package trace is traffic: when each request came, what its prompt shares with others, and how long its answer was.
//
//	Mooncake's JSON lines, Azure's CSV, our own JSON lines ─┐
//	                                                        ├─▶ Source ──Cut, Squeezed, Spread, Scaled──▶ Source ──▶ replay
//	Agents, HeavyMix, SharedPrompt, Bursts (seeded) ────────┘                                                 └─ Text: token IDs
//
// A [Source] is read request by request, so that a trace of any length takes the memory of a few. [Open] finds a file's format,
// or a generator by its name. Proofs, benchmarks and `plimsoll replay` of testbench and cmd call it. It holds no state between
// calls: the same trace, and the same seed, give the same requests on every machine.
//
// # Content
//
// What a prompt says is not known, only what is equal: a request's [Part]s name the content of its sequence, prompt and answer,
// from the start on. Part IDs are names: equal IDs are equal content, so that two sequences that begin with equal parts begin
// with equal tokens. What the parts do not cover is the request's alone. [Text] makes token IDs of it.
//
// # Formats
//
// Mooncake (kvcache-ai/Mooncake, FAST25-release): one object a line; timestamp in milliseconds, input_length, output_length, and
// hash_ids, which name the prompt's blocks of 512 tokens. Of its answers nothing is known.
//
// Azure (Azure/AzurePublicDataset, LLM inference 2023 and 2024): TIMESTAMP,ContextTokens,GeneratedTokens with that head.
// Nothing is known of what prompts share; they share nothing. An answer of 0 tokens counts as one of 1.
//
// Our own: one object a line, each of them whole, so that files can be cut and joined at any line:
//
//	{"at":12.5,"prompt_tokens":40,"output_tokens":9,"max_tokens":64,"block_tokens":16,"blocks":"000000000000000a000000000000000b",
//	 "session":"s1","tenant":"acme","class":"batch"}
//	{"at":12.75,"prompt_tokens":40,"output_tokens":9,"parts":[["a",32],["2f",8]]}
//
//	at             seconds since any fixed moment; never less than in the line before
//	prompt_tokens  at least 1
//	output_tokens  at least 1: how long the answer was
//	max_tokens     as the client set it; absent: it set none
//	blocks         keys of the sequence's full blocks, prompt and answer, 16 hexadecimal digits each; goes with
//	block_tokens   tokens a block
//	parts          in place of blocks: [ID in hexadecimal, tokens] in order
//	session, tenant, class  absent: none
//	outcome        of a recorded request: finished, refused, failed or cancelled; of one that did not finish the answer is what
//	               came of it; an answer of 0 tokens counts as one of 1 then
//
// Recorded block keys cover all that comes before them, as those of scoring/prefix do; they say nothing of the text.
package trace
