package tokenize

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkTokenizeShort is the way of a short input through a pool and back, without the encode.
func BenchmarkTokenizeShort(b *testing.B) {
	o := openOffice(b, DefaultConfig("m"), 2, plain, letters{})
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, o.tokenize("a short text").Err)
	}
}

// BenchmarkSubmitShort is a call's whole way to its refusal by a router that knows of no replica.
func BenchmarkSubmitShort(b *testing.B) {
	o := openOffice(b, DefaultConfig("m"), 2, plain, letters{})
	b.ReportAllocs()
	for b.Loop() {
		_, err := o.submit("default", "a short text").Next(b.Context())
		require.Error(b, err)
	}
}
