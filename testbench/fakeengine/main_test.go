package fakeengine_test

import (
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entropy counts: tests are the same each time.
func entropy() func() uint64 {
	var n atomic.Uint64
	return func() uint64 { return n.Add(1) }
}
