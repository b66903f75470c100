package kvpub_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/prefix"
	"plimsoll/testbench/kvpub"
)

// One publisher with a subscriber that reads bytes and no more: batches of a store of 4 blocks of 16 tokens and 4 removals.
func BenchmarkPublish(b *testing.B) {
	p, err := kvpub.New(kvpub.DefaultConfig(), kvpub.Deps{Now: time.Now, Plan: kvpub.Calm{}})
	require.NoError(b, err)
	defer p.Close() //nolint:errcheck // it returns nil
	s := kvpub.DialRaw(b, p.Endpoint(), "SUB")
	_, err = s.Conn.Write([]byte{0, 1, 1})
	require.NoError(b, err)
	require.NoError(b, p.AwaitSubscribers(b.Context(), 1))
	go func() { _, _ = io.Copy(io.Discard, s.Reader) }()
	hashes := []uint64{1 << 60, 1 << 61, 1 << 62, 1 << 63}
	tokens := make([]uint32, 64)
	for i := range tokens {
		tokens[i] = uint32(i) * 2000
	}
	events := []prefix.Event{
		{Kind: prefix.Stored, Hashes: hashes, Parent: &hashes[0], Tokens: tokens, BlockTokens: 16},
		{Kind: prefix.Removed, Hashes: hashes},
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Publish(events)
	}
	b.ReportMetric(8*float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
	b.ReportMetric(float64(p.Stats().Overruns)/float64(b.N), "overruns/op")
}
