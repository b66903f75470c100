// Package sim is a pure model of one LLM engine replica: continuous batching over a paged KV cache, without a GPU.
//
//	Submit ──▶ waiting ──admit──▶ running ──▶ forward pass ──StepDone──▶ one token for every complete context
//	              ▲                  │             │
//	              └──── preempt ─────┘             └─ StartStep{Duration}: the caller sends StepDone when it is over
//	                                 │
//	                       pool: [free queue, LRU]──take──▶[held by sequences]
//	                               │        ▲                    │
//	                  hash ──hit───┘        └───free, tail first─┘
//
// [Machine] is the whole engine: [Machine.Step] takes an event at a time and returns effects. It has no clock, lock,
// goroutine, I/O or randomness of its own; package live runs it in real time, the deterministic simulator on a virtual
// clock. One caller owns a Machine; nothing in it is safe for concurrent use. It follows vLLM's scheduler and block
// pool, and the recordings in testdata hold it to that: same cached tokens, same blocks stored and removed.
//
// # Scheduling
//
// Each pass has a budget of BatchTokens. Running sequences come first, in order of admission: a decoding one takes one
// token, one in prefill as much of its context as the budget allows. If a block is missing, the last admitted sequence
// is preempted: its blocks are freed, it goes to the head of the waiting queue and later computes its whole context
// again. Then waiting sequences are admitted in order while there are seats, budget and blocks (of the whole
// context, not only of the first chunk).
//
// # Blocks
//
// Block 0 of the pool is the null block, so one less is usable. A full block is stored under a hash chained over
// (parent, token IDs, adapter, salt) when the pass that computes it is scheduled, so that a running prefill is hit at
// once. A hit covers at most floor((n-1)/BlockTokens) blocks of n tokens, because the last token is always computed;
// the block that is computed again becomes a second copy of its hash. Freed blocks that are cached join the tail of the
// free queue, those of one sequence tail first, the others its head. Taking a block from the head evicts its content:
// first go blocks without content, then the least recently used, the end of a sequence before its start.
// With HostBlocks evicted content moves to the host's memory, unless another copy is on the device; the least recently used
// goes when there is no room. What follows the hits on the device and is on the host is loaded back before the pass, into
// blocks of its own, counts as cached and stays on the host too. A reset empties the device only. The events of the host tier
// have hashes only, and follow those of the device.
// The last sampled token is never computed: after p prompt and o output tokens floor((p+o-1)/BlockTokens) blocks stay.
//
// # Time of a pass
//
// For sequences i that compute n_i tokens after c_i earlier ones, with T = Σ n_i (symbols in [Timing]):
//
//	linear    = T · TokenFLOPs / FLOPS                          projections and MLP
//	weights   = WeightBytes / BytesPerSecond                    read once a pass, whatever the batch
//	attention = Σ (n_i·c_i + n_i²/2) · PairFLOPs / FLOPS        causal pairs of query and key, n_i > 1 only
//	kv        = Σ c_i · KVBytes / BytesPerSecond                cache read by decoding sequences, n_i = 1 only
//	load      = L · KVBytes / HostBytesPerSecond                L tokens that come back from the host
//	t         = Overhead + max(linear, weights) + attention + kv + load
//
// # Answers
//
// The next ID is a function of every context ID, the adapter and what the request asks for (sampling.go), so that a
// resumed answer that lost, doubled or changed anything differs visibly. What an exact resume may change does not
// enter: greedy decoding without presence and frequency penalty depends on neither the border of prompt and output nor
// seed and draw number. [Answer] computes it without an engine: it is the oracle of tests and checkers. A request that brings a
// recorded answer gets that one.
package sim
