package kvpub

import (
	"encoding/binary"
	"math"
)

// The functions below append msgpack as msgspec writes it: every integer and header in its shortest form.

func appendNil(b []byte) []byte { return append(b, 0xc0) }

func appendFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
}

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 1<<7:
		return append(b, byte(v))
	case v < 1<<8:
		return append(b, 0xcc, byte(v))
	case v < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(b, uint64(v))
	case v >= -1<<5:
		return append(b, byte(v))
	case v >= math.MinInt8:
		return append(b, 0xd0, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(v)) //nolint:gosec // two's complement
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(v)) //nolint:gosec // likewise
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v)) //nolint:gosec // likewise
}

func appendText(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 1<<5:
		b = append(b, 0xa0|byte(n))
	case n < 1<<8:
		b = append(b, 0xd9, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n)) //nolint:gosec // no text is 4 GB long
	}
	return append(b, s...)
}

// appendTextOrNil writes nil for the empty text.
func appendTextOrNil(b []byte, s string) []byte {
	if s == "" {
		return appendNil(b)
	}
	return appendText(b, s)
}

// appendBytes writes a digest, which is shorter than 256 bytes.
func appendBytes(b, v []byte) []byte {
	return append(append(b, 0xc4, byte(len(v))), v...)
}

func appendArray(b []byte, n int) []byte {
	switch {
	case n < 1<<4:
		return append(b, 0x90|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n)) //nolint:gosec // no array has 4 G members
}

// appendMap writes the head of a map of fewer than 16 keys.
func appendMap(b []byte, n int) []byte { return append(b, 0x80|byte(n)) }
