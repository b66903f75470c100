package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

var limits = scoring.Limits{KVBlocks: 10, Seats: 4, SequenceTokens: 160, BlockTokens: 16}

func blocks(n scoring.Blocks) *scoring.Blocks { return &n }

func ticket(n uint64) scoring.Ticket { return scoring.Ticket{Boot: 1, Number: n} }

// TestSharedPrefixOutlivesItsFirstHolder: A pins a prefix, B rides on it, A ends first: the prefix stays booked.
func TestSharedPrefixOutlivesItsFirstHolder(t *testing.T) {
	l := ledger.New(limits)
	claim := func(n uint64, private scoring.Blocks, keys ...prefix.Key) ledger.Claim {
		return ledger.Claim{Ticket: ticket(n), SharedKeys: keys, PrivateBlocks: private, Seats: 1, SequenceTokens: 100}
	}
	require.Equal(t, ledger.None, l.Reserve(start, claim(1, 2, 1, 2, 3)))
	require.EqualValues(t, 5, l.Load().BookedBlocks)
	require.Equal(t, ledger.None, l.Reserve(start, claim(2, 2, 1, 2, 3)))
	require.EqualValues(t, 7, l.Load().BookedBlocks)
	require.True(t, l.End(ticket(1), ledger.Finished))
	require.EqualValues(t, 5, l.Load().BookedBlocks)
	require.Equal(t, ledger.NoBlocks, l.Reserve(start, claim(3, 3, 7, 8, 9)))
	require.Equal(t, ledger.None, l.Reserve(start, claim(3, 3, 1, 2, 9)), "two of its blocks are there")
	require.EqualValues(t, 9, l.Load().BookedBlocks)
	l.EndAll(ledger.Lost)
	require.True(t, l.Empty())
}

// TestGrowthIsBookedBeforeItIsBegun walks an answer past its prediction token by token.
func TestGrowthIsBookedBeforeItIsBegun(t *testing.T) {
	l := ledger.New(limits)
	c := ledger.Claim{
		Ticket: ticket(1), PrivateBlocks: 3, Seats: 1, SequenceTokens: 80, PromptTokens: 20, PredictedOutputTokens: 10,
	}
	require.Equal(t, ledger.None, l.Reserve(start, c))
	require.True(t, l.Start(ticket(1), start))
	for produced := scoring.Tokens(1); produced <= 60; produced++ {
		if produced%ledger.ReportTokens(16) == 1 { // what it produces is told once a block
			require.True(t, l.Grow(ticket(1), produced))
		}
		// The engine now computes the KV of token prompt+produced, and then of the one after it.
		computed := min(20+produced+1, 80).Blocks(16)
		require.GreaterOrEqual(t, l.Load().BookedBlocks, computed, "cover, at %d tokens", produced)
	}
	require.EqualValues(t, 5, l.Load().BookedBlocks, "never past the longest sequence")
	require.EqualValues(t, 2, l.Load().OverdraftBlocks)
	other := ledger.Claim{Ticket: ticket(2), PrivateBlocks: 3, Seats: 1, SequenceTokens: 48}
	require.Equal(t, ledger.None, l.Reserve(start, other), "there is room for as much overdraft again, and is still with it")
	more := ledger.Claim{Ticket: ticket(3), PrivateBlocks: 1, Seats: 1, SequenceTokens: 16}
	require.Equal(t, ledger.None, l.Reserve(start, more))
	last := ledger.Claim{Ticket: ticket(4), PrivateBlocks: 1, Seats: 1, SequenceTokens: 16}
	require.Equal(t, ledger.Overdraft, l.Reserve(start, last), "a block is free, but that is no room for two")
	require.True(t, l.End(ticket(1), ledger.Finished))
	require.Equal(t, ledger.None, l.Reserve(start, last))
}

// TestLingeringStaysBooked: a client that leaves frees nothing until the engine lets go or the bound passes.
func TestLingeringStaysBooked(t *testing.T) {
	l := ledger.New(limits)
	c := ledger.Claim{Ticket: ticket(1), PrivateBlocks: 10, Seats: 1, SequenceTokens: 160, PromptTokens: 9, PrefillTokens: 9}
	require.Equal(t, ledger.None, l.Reserve(start, c))
	bound := start.Add(2 * time.Second)
	require.True(t, l.Linger(ticket(1), start, bound))
	require.Zero(t, l.Load().QueuedPrefillTokens, "it is no longer waited for")
	next, ok := l.NextExpiry()
	require.True(t, ok)
	require.Equal(t, bound, next)
	c2 := c
	c2.Ticket = ticket(2)
	require.Equal(t, ledger.NoBlocks, l.Reserve(start, c2))
	require.Empty(t, l.Expire(bound.Add(-1)))
	require.Equal(t, []scoring.Ticket{ticket(1)}, l.Expire(bound))
	require.False(t, l.End(ticket(1), ledger.Cancelled), "the engine's late confirmation")
	require.EqualValues(t, 1, l.Counters().LateEnds)
	require.Equal(t, ledger.None, l.Reserve(start, c2))
}

// TestTheEnginesFiguresEndLingering: the bound need not pass where the engine shows that it runs nothing. What began to linger
// since the figures were asked for may have come there later.
func TestTheEnginesFiguresEndLingering(t *testing.T) {
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	l := ledger.New(limits)
	claim := func(n uint64) ledger.Claim {
		return ledger.Claim{Ticket: ticket(n), PrivateBlocks: 1, Seats: 1, SequenceTokens: 16}
	}
	for n := range uint64(3) {
		require.Equal(t, ledger.None, l.Reserve(second(0), claim(n+1)))
	}
	require.Empty(t, l.Confirm(second(1)), "nothing lingers")
	require.True(t, l.Linger(ticket(2), second(1), second(9)))
	require.True(t, l.Linger(ticket(3), second(2), second(9)))
	require.Empty(t, l.Confirm(second(1)), "asked in the moment in which it began to linger")
	require.Equal(t, []scoring.Ticket{ticket(2)}, l.Confirm(second(2)))
	require.EqualValues(t, 1, l.Counters().Ends[ledger.Expired])
	require.Equal(t, 2, l.Load().SeatsBooked)
}

// TestABoundIsPutOff, to one time for all that lingers, and never to an earlier one.
func TestABoundIsPutOff(t *testing.T) {
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	l := ledger.New(limits)
	for n := range uint64(3) {
		claim := ledger.Claim{Ticket: ticket(n + 1), PrivateBlocks: 1, Seats: 1, SequenceTokens: 16}
		require.Equal(t, ledger.None, l.Reserve(second(0), claim))
	}
	require.True(t, l.Linger(ticket(1), second(1), second(2)))
	require.True(t, l.Linger(ticket(2), second(1), second(6)))
	l.Postpone(second(4))
	require.Empty(t, l.Expire(second(3)))
	require.Equal(t, []scoring.Ticket{ticket(1)}, l.Expire(second(4)))
	require.Equal(t, []scoring.Ticket{ticket(2)}, l.Expire(second(6)))
	require.Equal(t, ledger.Reserved, l.State(ticket(3)))
}

// TestRestoreBeforeLimitsAreKnown: after a restart of the owner live attempts announce themselves before the engine is
// asked again. They are booked; nothing is granted; their growth is booked as soon as the block size is known.
func TestRestoreBeforeLimitsAreKnown(t *testing.T) {
	l := ledger.New(scoring.Limits{})
	c := ledger.Claim{
		Ticket: ticket(1), PrivateBlocks: 3, Seats: 1, SequenceTokens: 80, PromptTokens: 20, PredictedOutputTokens: 10,
	}
	require.True(t, l.Restore(start, c, ledger.Running, 50))
	require.EqualValues(t, 3, l.Load().BookedBlocks)
	other := ledger.Claim{Ticket: ticket(2), PrivateBlocks: 1, Seats: 1, SequenceTokens: 16}
	require.NotEqual(t, ledger.None, l.Reserve(start, other))
	l.SetLimits(limits)
	require.EqualValues(t, 5, l.Load().BookedBlocks)
	require.EqualValues(t, 2, l.Load().OverdraftBlocks)
	require.True(t, l.End(ticket(1), ledger.Finished))
	require.True(t, l.Empty())
	require.Equal(t, ledger.None, l.Reserve(start, other))
}

// TestForeignUse: what the engine has in use beyond ours lowers what is usable when three samples in a row say so.
func TestForeignUse(t *testing.T) {
	l := ledger.New(limits)
	c := ledger.Claim{Ticket: ticket(1), PrivateBlocks: 4, Seats: 1, SequenceTokens: 160}
	require.Equal(t, ledger.None, l.Reserve(start, c))
	running := 3
	l.Sample(blocks(9), &running, nil)
	l.Sample(blocks(7), &running, nil)
	require.Zero(t, l.Load().ForeignBlocks, "two samples show nothing")
	l.Sample(blocks(8), &running, nil)
	require.EqualValues(t, 3, l.Load().ForeignBlocks, "the least of 5, 3, 4")
	require.EqualValues(t, 3, l.Load().FreeBlocks())
	require.Equal(t, 2, l.Load().ForeignSeats)
	require.Equal(t, 1, l.Load().FreeSeats())

	require.True(t, l.End(ticket(1), ledger.Finished))
	l.Sample(blocks(4), &running, nil)
	require.Zero(t, l.Load().ForeignBlocks, "a figure from before our release shows nothing of others")

	for range 3 {
		l.Sample(blocks(6), nil, nil)
	}
	require.EqualValues(t, 6, l.Load().ForeignBlocks)
	require.Zero(t, l.Load().ForeignSeats, "this engine stopped telling its sequences")
	require.False(t, l.MissedSample())
	require.False(t, l.MissedSample())
	require.True(t, l.MissedSample(), "the alarm is raised")
	require.False(t, l.MissedSample(), "once")
	require.Zero(t, l.Load().ForeignBlocks)
}

// TestEndedTicketsAreForgottenInTheEnd: memory of ended tickets is bounded; what is forgotten counts as unknown.
func TestEndedTicketsAreForgottenInTheEnd(t *testing.T) {
	l := ledger.New(limits)
	c := ledger.Claim{PrivateBlocks: 1, Seats: 1, SequenceTokens: 16}
	const many = 5000
	for n := range uint64(many) {
		c.Ticket = ticket(n)
		require.Equal(t, ledger.None, l.Reserve(start, c))
		require.True(t, l.End(c.Ticket, ledger.Finished))
	}
	require.Equal(t, ledger.Duplicate, l.Reserve(start, c), "a claim that comes twice is not granted twice")
	require.False(t, l.End(ticket(many-1), ledger.Finished))
	require.False(t, l.End(ticket(0), ledger.Finished))
	require.EqualValues(t, 1, l.Counters().LateEnds)
	require.EqualValues(t, 1, l.Counters().UnknownEnds)
}

// TestPlan: what is asked of a replica covers the sequence, is clamped to the replica, and shares only what may be.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.SampledFrom([]scoring.Tokens{1, 4, 16}).Draw(t, "block")
		lim := scoring.Limits{
			KVBlocks: scoring.Blocks(rapid.IntRange(1, 60).Draw(t, "blocks")), Seats: 1,
			SequenceTokens: scoring.Tokens(rapid.IntRange(1, 300).Draw(t, "sequence")), BlockTokens: block,
		}
		p := ledger.Plan{
			PromptTokens:    scoring.Tokens(rapid.IntRange(1, 200).Draw(t, "prompt")),
			OutputTokens:    scoring.Tokens(rapid.IntRange(1, 100).Draw(t, "output")),
			MaxOutputTokens: scoring.Tokens(rapid.IntRange(1, 200).Draw(t, "most")),
			MarginBlocks:    scoring.Blocks(rapid.IntRange(0, 2).Draw(t, "margin")),
			Shares:          rapid.Bool().Draw(t, "shares"),
		}
		p.Keys = make([]prefix.Key, p.PromptTokens/block)
		for i := range p.Keys {
			p.Keys[i] = prefix.Key(i)
		}
		p.OverlapTokens = block * scoring.Tokens(rapid.IntRange(0, len(p.Keys)).Draw(t, "overlap"))
		c := p.Claim(lim)

		total := c.PrivateBlocks + scoring.Blocks(len(c.SharedKeys))
		fitsAtAll := p.PromptTokens+1 <= lim.SequenceTokens && (p.PromptTokens+1).Blocks(block) <= lim.KVBlocks
		why := ledger.New(lim).Reserve(start, c)
		require.Equal(t, fitsAtAll, why == ledger.None, "an empty replica grants what can fit: %v", why)
		require.GreaterOrEqual(t, total, (p.PromptTokens + 1).Blocks(block))
		require.LessOrEqual(t, total, (p.PromptTokens + max(1, p.MaxOutputTokens)).Blocks(block))
		require.Less(t, len(c.SharedKeys)*int(block), int(p.PromptTokens), "the block of the last prompt token is computed anew")
		require.Positive(t, c.PrefillTokens)
		require.LessOrEqual(t, c.PrefillTokens, c.PromptTokens)
		if !p.Shares {
			require.Empty(t, c.SharedKeys)
		}
	})
}

// TestNames: every value of every enum has a name of its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	name := func(s string) {
		require.NotEqual(t, "unknown", s)
		require.False(t, seen[s], s)
		seen[s] = true
	}
	for r := range ledger.NumReasons {
		name(r.String())
	}
	for s := range ledger.NumStates {
		name(s.String())
	}
	clear(seen)
	for r := range ledger.NumEndReasons {
		name(r.String())
	}
}
