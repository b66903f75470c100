package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/ledger"
)

// TestWhatDecidesIsWhatIsExplained: the total that an operator is shown of a candidate, part by part, is the one by which it was
// ranked, whatever is held for it and booked on it in the same pass.
func TestWhatDecidesIsWhatIsExplained(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen := map[Cause]int{}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := newTokenLoad(DefaultTokenLoad(), cost.Weights{Reuse: 0.5 + rng.Float64(), TTFT: 0.5 + rng.Float64()}, rng)
		p.hit, p.prompts = 700, 1000
		fleet := make([]Candidate, 2+rng.IntN(6))
		for i := range fleet {
			fleet[i] = working(rng, now, i)
		}
		var pass Pass
		pass.Begin(now, fleet, Queue{Requests: rng.IntN(9), PrefillSeconds: rng.Float64()})
		p.Begin(&pass)
		for range 12 {
			d := Demand{
				PromptTokens: scoring.Tokens(1 + rng.IntN(4000)), OutputTokens: scoring.Tokens(rng.IntN(300)), Seats: 1,
				Arrival: now.Add(-time.Duration(rng.IntN(3000)) * time.Millisecond), FCFSSeconds: rng.Float64(),
			}
			d.MinSequenceTokens = d.PromptTokens + 1
			fits := make([]Fit, len(fleet))
			for i := range fits {
				fits[i].OverlapTokens = min(d.PromptTokens, scoring.Tokens(16*rng.IntN(250)))
				fits[i].NeedBlocks = (d.PromptTokens + d.OutputTokens).Blocks(16)
			}
			values := Values(p, &pass, &d, fits, nil)
			dec := p.Decide(&d, fits)
			n := len(p.Terms())
			for i, total := range p.totals {
				if !math.IsInf(total, 1) {
					require.InEpsilon(t, values[i*n+n-1], total, 1e-9)
				}
			}
			seen[dec.Cause]++
			if dec.Verdict == Dispatch {
				fleet[dec.Index].Pending.Requests++
				fleet[dec.Index].Pending.PromptTokens += d.PromptTokens
				fleet[dec.Index].Pending.PrefillTokens += newTokens(&d, &fits[dec.Index])
				fleet[dec.Index].PendingBlocks += fits[dec.Index].NeedBlocks
				fleet[dec.Index].PendingSeats++
				pass.Booked(dec.Index)
				p.OnDispatch(&d, fits, dec.Index)
			}
		}
	}
	for _, cause := range []Cause{NoCause, BetterBusy, BetterFull, NoRoom} {
		require.Greater(t, seen[cause], 50, cause.String())
	}
}

// working is a replica that has some work.
func working(rng *rand.Rand, now time.Time, i int) Candidate {
	c := Candidate{
		ID: scoring.ReplicaID(fmt.Sprint("r", i)), Rates: cost.DefaultRates(), Busy: 0.9 * rng.Float64(),
		Load: ledger.Load{
			Limits:       scoring.Limits{KVBlocks: 1000, Seats: 8, SequenceTokens: 16_000, BlockTokens: 16},
			BookedBlocks: scoring.Blocks(rng.IntN(1000)), Reserved: rng.IntN(2), Running: rng.IntN(6),
		},
	}
	l := &c.Load
	l.SeatsBooked = l.Reserved + l.Running
	l.DecodeKVTokens, l.RemainingOutputTokens = scoring.Tokens(400*l.Running), scoring.Tokens(50*l.Running)
	if l.Reserved > 0 {
		l.QueuedPrefillTokens, l.ReservedPromptTokens = scoring.Tokens(rng.IntN(6000)), 6000
		l.OldestPrefill, l.OldestPrefillTokens = &now, l.QueuedPrefillTokens
	}
	if rng.IntN(8) == 0 {
		l.OverdraftBlocks = 5
	}
	return c
}
