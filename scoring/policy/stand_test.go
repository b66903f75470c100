package policy

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// TestTheShortWayToAReasonLeadsThere: what is worked out once of a candidate says of most requests what Eligible says.
func TestTheShortWayToAReasonLeadsThere(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[Reason]int{}
	blocks := func(most int) scoring.Blocks { return scoring.Blocks(rng.IntN(most)) }
	tokens := func(most int) scoring.Tokens { return 16 * scoring.Tokens(rng.IntN(most)) }
	seldom := func() bool { return rng.IntN(10) == 0 }
	for range 20_000 {
		c := Candidate{
			Void: seldom(), LimitsUnknown: seldom(), Suspect: seldom(), Ejected: seldom(),
			Load: ledger.Load{
				Limits:       scoring.Limits{KVBlocks: 8 + blocks(8), Seats: rng.IntN(9), SequenceTokens: tokens(20), BlockTokens: 16},
				BookedBlocks: blocks(10), ForeignBlocks: blocks(3), SeatsBooked: rng.IntN(4), ForeignSeats: rng.IntN(2),
			},
			WarmingSeats: rng.IntN(5), PendingBlocks: blocks(3), PendingSeats: rng.IntN(2),
		}
		if seldom() {
			c.State = State(rng.IntN(int(NumStates)))
		}
		if seldom() {
			c.Load.OverdraftBlocks = blocks(8)
		}
		if rng.IntN(3) == 0 {
			c.KeptBlocks, c.KeptSeats = blocks(6), rng.IntN(3)
		}
		if seldom() {
			c.CoolingUntil = new(now.Add(time.Duration(rng.IntN(3)-1) * time.Second))
		}
		d := Demand{Seats: 1, MinSequenceTokens: tokens(8)}
		f := Fit{NeedBlocks: blocks(8), Barred: seldom()}
		var s stand
		s.look(now, &c)
		want := Eligible(now, &d, &c, &f)
		require.Equal(t, want, s.takes(d.MinSequenceTokens, &f), "%+v %+v %+v", c, d, f)
		seen[want]++
	}
	for why := range NumReasons {
		if why != LoRAMissing && why != ChatMissing && why != IsExcluded { // the long way's
			require.Greater(t, seen[why], 20, why.String())
		}
	}
}
