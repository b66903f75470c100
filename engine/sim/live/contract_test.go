package live_test

import (
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

func TestContract(t *testing.T) {
	enginetest.Run(t, enginetest.Subject{Open: func(tb testing.TB) engine.Engine {
		tb.Helper()
		return open(tb, tinyConfig(), source)
	}})
}
