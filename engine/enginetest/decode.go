package enginetest

import (
	"bytes"
	"testing"

	"plimsoll/engine/sse"
	"plimsoll/engine/wire"
)

// Decode runs a decoder over a stream's body as a [wire.Client] does, but without a connection and its goroutines, which
// would keep a fuzzer from seeing what an input covers. What it heard ends in a finish or in a failure.
func Decode(tb testing.TB, d wire.Decoder, body []byte) *Heard {
	tb.Helper()
	h, frames := &Heard{}, sse.NewReader(bytes.NewReader(body), sse.DefaultLimits())
	for h.Finish == nil && h.Err == nil {
		raw, err := frames.Next()
		if err != nil {
			ev, ok := d.End()
			if !ok {
				h.Err = wire.Broken("the stream ended without a finish")
				break
			}
			h.Err = h.Take(ev)
			continue
		}
		ev, tell, err := d.Frame(raw.Data)
		if tell {
			h.Err = h.Take(ev)
		}
		if err != nil {
			h.Err = err
		}
	}
	h.Check(tb)
	return h
}
