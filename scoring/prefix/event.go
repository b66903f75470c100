package prefix

// EventKind is the kind of a cache event.
type EventKind uint8

// Kinds of cache events.
const (
	Stored  EventKind = iota // blocks were added to the cache, each a copy of its own
	Removed                  // one copy of each named block was evicted
	Cleared                  // the whole cache was dropped

	NumEventKinds
)

// Tier is where a replica keeps a block.
type Tier uint8

// Tiers, the fastest first.
const (
	Device Tier = iota // the accelerator's memory: a hit costs nothing
	Host               // the host's memory: a hit is loaded
	Disk               // disk or a remote store

	NumTiers
)

// Attention is the kind of layers that a cache group serves: it decides which blocks a hit needs.
type Attention uint8

// Kinds of attention.
const (
	FullAttention  Attention = iota // a hit of k blocks needs the blocks 0 to k-1
	SlidingWindow                   // it needs the last ones, as many as the window touches
	OtherAttention                  // its blocks say nothing about hits (states of recurrent layers, encoders)

	NumAttentions
)

// Event is one change of a replica's KV cache as its engine reports it. Engines name blocks by hashes of their own;
// the index chains token IDs itself and uses engine hashes only to find parents and removals.
type Event struct {
	Kind   EventKind
	Hashes []uint64 // the engine's hashes of the blocks, in order along the sequence
	// Parent is the engine's hash of the block before the first one; nil at the start of a sequence. Stored only.
	Parent *uint64
	// Tokens are the IDs of the blocks, BlockTokens each. Stored only. Empty with BlockTokens 0 where the engine names blocks
	// that it has described before (offload tiers); a sliding group may name only the last blocks of its tokens, or none.
	Tokens      []uint32
	BlockTokens int
	LoRA        string // adapter the blocks were computed with; "" for the base model
	Salt        string // cache salt; "" if none
	// Extras tell, block by block, what the KV depends on beside tokens, adapter and salt (images, embeddings), hashed; 0 is
	// nothing. nil: no block has any. Stored only.
	Extras []uint64

	Tier         Tier
	Group        int // cache group of a hybrid model; 0 where there is one
	Attention    Attention
	WindowTokens int // of a SlidingWindow group
}
