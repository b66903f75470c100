// Package trace reads recorded traffic and turns it into requests: when each came, and the token IDs of its prompt.
//
//	Mooncake's JSON lines ──Read──▶ []Request ──Cut, Squeeze──▶ a slice that fits the machine ──Text.Prompt──▶ token IDs
//
// Proofs and benchmarks of testbench call it. It holds no state: the same trace gives the same requests on every machine.
//
// The format is that of the Mooncake project (kvcache-ai/Mooncake, FAST25-release): one object a line, hash_ids name the
// prompt's blocks of 512 tokens in order, and equal ids mean equal content and an equal prefix.
package trace
