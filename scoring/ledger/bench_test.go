package ledger_test

import (
	"fmt"
	"testing"

	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

// BenchmarkReserveEnd is one request's life beside 200 others, with shared blocks and without.
func BenchmarkReserveEnd(b *testing.B) {
	for _, shared := range []int{0, 64, 2048} {
		b.Run(fmt.Sprintf("shared=%d", shared), func(b *testing.B) {
			l := ledger.New(scoring.Limits{KVBlocks: 1_000_000, Seats: 1000, SequenceTokens: 131_072, BlockTokens: 16})
			claim := ledger.Claim{PrivateBlocks: 32, Seats: 1, SequenceTokens: 40_000, PromptTokens: 32_768, PrefillTokens: 32_768}
			for i := range shared {
				claim.SharedKeys = append(claim.SharedKeys, prefix.Key(i))
			}
			for n := range uint64(200) {
				other := claim
				other.Ticket, other.SharedKeys = scoring.Ticket{Number: n}, claim.SharedKeys[:shared/2]
				if why := l.Reserve(start, other); why != ledger.None {
					b.Fatal(why)
				}
			}
			b.ReportAllocs()
			var load ledger.Load
			for n := uint64(1000); b.Loop(); n++ {
				claim.Ticket.Number = n
				if why := l.Reserve(start, claim); why != ledger.None {
					b.Fatal(why)
				}
				l.Start(claim.Ticket, start)
				load = l.Load()
				l.End(claim.Ticket, ledger.Finished)
			}
			_ = load
		})
	}
}
