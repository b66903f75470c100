package stream

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// BenchmarkRelay is the way of a token from the engine's adapter to the client's writer: emit, the request's goroutine,
// detokenizer, stop strings, journal, Next. One operation is one token.
func BenchmarkRelay(b *testing.B) {
	for _, legs := range []int{1, 4} {
		b.Run("legs="+strconv.Itoa(legs), func(b *testing.B) {
			b.ReportAllocs()
			perLeg := b.N/legs + 1
			e := &script{generate: func(_ context.Context, _ engine.Request, emit func(engine.Event) error) error {
				tokens := make([]engine.Token, 1)
				for i := range perLeg {
					tokens[0].ID = uint32('a' + i%26) //nolint:gosec // a letter
					if err := emit(engine.Event{Tokens: tokens}); err != nil {
						return err
					}
				}
				return emit(engine.Event{Finish: &engine.Finish{Reason: engine.FinishLength}})
			}}
			ref := fleet.NewRef("r", "m", e, nil)
			var call *Call
			live := NewLive()
			deps := Deps{Live: live, Log: quietLog(), Model: Model{Decoder: letters{}}, Ended: func(Summary) {}}
			ready := make(chan struct{})
			deps.Router = func(message any) {
				if s, ok := message.(*Submit); ok {
					call = s.Call
					close(ready)
				}
			}
			cfg := DefaultConfig()
			cfg.JournalBytes = 1 << 40
			req := &Request{Model: "m", N: legs, Input: Input{Tokens: [][]uint32{{1}}}, Stop: []string{"zebra"}}
			b.ResetTimer()
			r := Start(cfg, deps, req)
			<-ready
			call.Tell(Encoded{Prompts: []Prompt{{IDs: []uint32{1}}}})
			placed := Placed{Number: 1}
			for i := range legs {
				placed.Placements = append(placed.Placements, Placement{
					Leg: i, Ref: ref, Claim: ledger.Claim{Ticket: scoring.Ticket{Number: uint64(i)}}, BlockTokens: 16, MaxTokens: perLeg + 1, //nolint:gosec // a count
				})
			}
			call.Tell(placed)
			tokens := 0
			for {
				d, err := r.Next(b.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(b, err)
				tokens += len(d.Entries)
			}
			require.Equal(b, perLeg*legs, tokens)
			require.NoError(b, live.Wait(b.Context()))
		})
	}
}
