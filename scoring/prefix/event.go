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

// Event is one change of a replica's KV cache as its engine reports it. Engines name blocks by hashes of their own;
// the index chains token IDs itself and uses engine hashes only to find parents and removals.
type Event struct {
	Kind   EventKind
	Hashes []uint64 // the engine's hashes of the blocks, in order along the sequence
	// Parent is the engine's hash of the block before the first one; nil at the start of a sequence. Stored only.
	Parent *uint64
	// Tokens are the IDs of the blocks, BlockTokens each. Stored only.
	Tokens      []uint32
	BlockTokens int
	LoRA        string // adapter the blocks were computed with; "" for the base model
	Salt        string // cache salt; "" if none
}
