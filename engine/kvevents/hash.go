package kvevents

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// readHash reads an engine's block hash: an integer of either sign is its 64-bit pattern, a digest its last eight bytes
// big-endian, which is what vLLM makes of a digest itself.
func readHash(b []byte) (uint64, []byte, error) {
	switch msgp.NextType(b) { //nolint:exhaustive // nothing else is a hash
	case msgp.UintType:
		return msgp.ReadUint64Bytes(b)
	case msgp.IntType:
		i, rest, err := msgp.ReadInt64Bytes(b)
		return uint64(i), rest, err
	case msgp.BinType:
		digest, rest, err := msgp.ReadBytesZC(b)
		if err != nil {
			return 0, nil, err
		}
		if len(digest) < 8 {
			return 0, nil, errShape
		}
		return binary.BigEndian.Uint64(digest[len(digest)-8:]), rest, nil
	default:
		return 0, nil, errShape
	}
}

// appendHashes appends a list of hashes. Those that cannot be read are left out and counted; the error is for what is no
// list.
func appendHashes(dst []uint64, b []byte) (hashes []uint64, bad int, rest []byte, err error) {
	n, b, err := readLength(b)
	if err != nil {
		return dst, 0, nil, err
	}
	dst = slices.Grow(dst, n)
	for range n {
		h, rest, err := readHash(b)
		if err != nil {
			if b, err = msgp.Skip(b); err != nil {
				return dst, 0, nil, err
			}
			bad++
			continue
		}
		dst, b = append(dst, h), rest
	}
	return dst, bad, b, nil
}

// appendTokens appends a list of token IDs, or of pairs of neighbours, of which the first counts: engines that hash
// pairs (EAGLE) send [t, t+1] for t. The common widths are read in place, which halves the time a block takes.
func appendTokens(dst []uint32, b []byte) (tokens []uint32, rest []byte, err error) {
	n, b, err := readLength(b)
	if err != nil {
		return dst, nil, err
	}
	dst = slices.Grow(dst, n)
	for range n {
		switch {
		case len(b) >= 3 && b[0] == 0xcd:
			dst, b = append(dst, uint32(b[1])<<8|uint32(b[2])), b[3:]
		case len(b) >= 5 && b[0] == 0xce:
			dst, b = append(dst, binary.BigEndian.Uint32(b[1:])), b[5:]
		case len(b) >= 1 && b[0] <= 0x7f:
			dst, b = append(dst, uint32(b[0])), b[1:]
		default:
			var t uint32
			if t, b, err = readToken(b); err != nil {
				return dst, nil, err
			}
			dst = append(dst, t)
		}
	}
	return dst, b, nil
}

// readToken reads one token ID of any width, or a pair of them.
func readToken(b []byte) (uint32, []byte, error) {
	more := 0
	if msgp.NextType(b) == msgp.ArrayType {
		n, rest, err := readLength(b)
		if err != nil {
			return 0, nil, err
		}
		if n == 0 {
			return 0, nil, errMissing
		}
		more, b = n-1, rest
	}
	u, b, err := msgp.ReadUint64Bytes(b)
	if err != nil {
		return 0, nil, err
	}
	if u > math.MaxUint32 {
		return 0, nil, errRange
	}
	for range more {
		if b, err = msgp.Skip(b); err != nil {
			return 0, nil, err
		}
	}
	return uint32(u), b, nil
}

// readLength reads the header of a list. Each element takes a byte at least, so a list that claims more than there are
// bytes is refused before anything is made for it.
func readLength(b []byte) (int, []byte, error) {
	n, rest, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return 0, nil, err
	}
	if uint64(n) > uint64(len(rest)) {
		return 0, nil, msgp.ErrShortBytes
	}
	return int(n), rest, nil
}
