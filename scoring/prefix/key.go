package prefix

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// Key identifies one block of one sequence: it covers the namespace and every token from the start of the sequence to
// the end of the block. Equal keys mean equal prefixes, up to 64-bit collisions: about 3e-4 for any pair among 1e8 live
// blocks. Keys of different block sizes never meet in one [Index].
type Key uint64

// Namespace separates sequences whose KV differs although their tokens are equal.
type Namespace struct {
	Model string
	LoRA  string // adapter; "" is the base model
	Salt  string // cache salt; "" is none
}

// Seed returns the parent of a sequence's first block. Every field is preceded by its length, so no two namespaces
// share a seed by moving a letter from one field to the next.
func (n Namespace) Seed() Key {
	buf := make([]byte, 0, 3*8+len(n.Model)+len(n.LoRA)+len(n.Salt))
	for _, field := range [...]string{n.Model, n.LoRA, n.Salt} {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(len(field)))
		buf = append(buf, field...)
	}
	return Key(xxh3.Hash(buf))
}

// AppendKeys appends the keys of the full blocks of tokens to dst; what remains after the last full block has no key.
// parent is the key of the block before tokens[0], or the namespace's seed. A prompt that grew is hashed from its last
// known key on: AppendKeys(keys, keys[len(keys)-1], newTokens, n) equals hashing it whole. It panics if blockTokens is
// not positive.
func AppendKeys(dst []Key, parent Key, tokens []uint32, blockTokens int) []Key {
	if blockTokens <= 0 {
		panic("prefix: a block holds at least one token")
	}
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		parent = chain(parent, blockSum(tokens[:blockTokens]))
		dst = append(dst, parent)
	}
	return dst
}

// multiplier is an odd constant with well spread bits (2^64 divided by the golden ratio).
const multiplier = 0x9e3779b97f4a7c15

// chain mixes a block's own hash into its parent's key with one multiplication. For a given parent it is a bijection of
// the hash and for a given hash one of the parent, so it adds no collision to those of the hash itself; the rotation
// makes it depend on the order of the two. Blocks are hashed apart from each other, so that the processor overlaps
// their loads; only this step waits for the block before.
func chain(parent Key, block uint64) Key {
	m := (bits.RotateLeft64(uint64(parent), 29) ^ block) * multiplier
	return Key(m ^ m>>32)
}

// blockSum hashes a block's token IDs as little-endian 32-bit words. Where the machine's own order is that one, the words
// are looked at as the bytes they are: copying them first takes longer than hashing them. Nothing is written through that
// view, and it does not outlive the call.
func blockSum(block []uint32) uint64 {
	if littleEndian {
		return xxh3.Hash(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(block))), 4*len(block)))
	}
	buf := make([]byte, 0, 4*64)
	for _, t := range block {
		buf = binary.LittleEndian.AppendUint32(buf, t)
	}
	return xxh3.Hash(buf)
}

// littleEndian says whether the lowest byte of a word comes first in memory.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// withExtra folds what a block depends on beside its tokens into their hash; 0 is nothing.
func withExtra(sum, extra uint64) uint64 {
	if extra == 0 {
		return sum
	}
	return uint64(chain(Key(sum), extra))
}
