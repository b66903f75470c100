package scoring

// ReplicaID names a replica within a fleet. It outlives incarnations of the engine process.
type ReplicaID string

// Tokens counts tokens.
type Tokens int

// Blocks counts KV cache blocks.
type Blocks int

// Blocks returns how many blocks of blockTokens tokens hold t tokens, rounded up. Zero or fewer tokens need none.
// It panics if blockTokens is not positive.
func (t Tokens) Blocks(blockTokens Tokens) Blocks {
	if blockTokens <= 0 {
		panic("scoring: a block holds at least one token")
	}
	if t <= 0 {
		return 0
	}
	return Blocks((t-1)/blockTokens + 1)
}

// Limits is what a replica can hold at once. Every field is known: what an engine does not tell is filled in by the
// operator or by a safe assumption before it gets here.
type Limits struct {
	KVBlocks       Blocks // usable blocks of the device cache (vLLM: one less than it reports, the null block)
	Seats          int    // sequences decoded at once
	SequenceTokens Tokens // longest prompt plus answer
	BlockTokens    Tokens // tokens a block, at least 1
}
