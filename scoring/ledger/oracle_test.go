package ledger_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// oracle is a second ledger that keeps nothing but the list of what was granted and adds it up at every question.
type oracle struct {
	limits  scoring.Limits
	live    []*held // in the order of grants
	ended   map[scoring.Ticket]bool
	blocks  []int            // excess of the engine's figure over ours, newest last
	seats   []int            // the same of sequences
	history []scoring.Blocks // what was booked since the last sample
	running []int            // seats booked since then
	missed  int
	started time.Time // the last first token
}

type held struct {
	ledger.Claim

	state     ledger.State
	produced  scoring.Tokens
	overdraft scoring.Blocks
	granted   time.Time
	lingers   time.Time
	until     time.Time
}

// rest is what is still expected of an answer: a quarter of the expectation once it is outlived, never past the limit.
func (h *held) rest() scoring.Tokens {
	rest := h.ExpectedOutputTokens - h.produced
	if outlived := h.ExpectedOutputTokens / 4; rest < outlived {
		rest = outlived
	}
	if room := h.SequenceTokens - h.PromptTokens - h.produced; rest > room {
		rest = room
	}
	return max(0, rest)
}

func (o *oracle) find(t scoring.Ticket) *held {
	for _, h := range o.live {
		if h.Ticket == t {
			return h
		}
	}
	return nil
}

// load adds up everything.
func (o *oracle) load() ledger.Load {
	ld := ledger.Load{Limits: o.limits}
	pinned := map[prefix.Key]bool{}
	for _, h := range o.live {
		for _, k := range h.SharedKeys {
			pinned[k] = true
		}
		ld.BookedBlocks += h.PrivateBlocks + h.overdraft
		ld.OverdraftBlocks += h.overdraft
		ld.SeatsBooked += h.Seats
		switch h.state {
		case ledger.Reserved:
			ld.Reserved++
			ld.QueuedPrefillTokens += h.PrefillTokens
			ld.ReservedPromptTokens += h.PromptTokens
			u, hit := float64(h.PrefillTokens), float64(h.PromptTokens-h.PrefillTokens)
			ld.QueuedPrefillTokens2 += u * (hit + u/2)
			if ld.OldestPrefill == nil {
				since := h.granted
				if o.started.After(since) {
					since = o.started
				}
				ld.OldestPrefill, ld.OldestPrefillTokens = &since, h.PrefillTokens
			}
			ld.RemainingOutputTokens += h.rest()
		case ledger.Running:
			ld.Running++
			ld.DecodeKVTokens += h.PromptTokens + h.produced
			ld.RemainingOutputTokens += h.rest()
		case ledger.Lingering:
			ld.Lingering++
		case ledger.Ended, ledger.NumStates:
		}
	}
	ld.SharedBlocks = scoring.Blocks(len(pinned))
	ld.BookedBlocks += ld.SharedBlocks
	ld.ForeignBlocks = scoring.Blocks(leastOfThree(o.blocks))
	ld.ForeignSeats = leastOfThree(o.seats)
	return ld
}

func leastOfThree(excess []int) int {
	if len(excess) < 3 {
		return 0
	}
	return max(0, slices.Min(excess[len(excess)-3:]))
}

// grants says what a claim must be answered, from the definition.
func (o *oracle) grants(c ledger.Claim) ledger.Reason {
	ld := o.load()
	added := c.PrivateBlocks
	for _, k := range c.SharedKeys {
		pinned := slices.ContainsFunc(o.live, func(h *held) bool { return slices.Contains(h.SharedKeys, k) })
		if !pinned {
			added++
		}
	}
	alone := c.PrivateBlocks + scoring.Blocks(len(c.SharedKeys))
	switch {
	case o.find(c.Ticket) != nil || o.ended[c.Ticket]:
		return ledger.Duplicate
	case c.SequenceTokens > o.limits.SequenceTokens:
		return ledger.SequenceTooLong
	case alone > o.limits.KVBlocks || c.Seats > o.limits.Seats:
		return ledger.TooLarge
	case ld.OverdraftBlocks > 0 && ld.BookedBlocks+ld.OverdraftBlocks > o.limits.KVBlocks-ld.ForeignBlocks:
		return ledger.Overdraft
	case ld.SeatsBooked+c.Seats > o.limits.Seats-ld.ForeignSeats:
		return ledger.NoSeats
	case ld.BookedBlocks+added > o.limits.KVBlocks-ld.ForeignBlocks:
		return ledger.NoBlocks
	}
	return ledger.None
}

func (o *oracle) grow(h *held, produced scoring.Tokens) {
	h.produced = max(h.produced, produced)
	next := min(h.PromptTokens+h.produced+16+1, h.SequenceTokens) // it may be 16 tokens further before it is told
	claimed := h.PrivateBlocks + scoring.Blocks(len(h.SharedKeys))
	h.overdraft = max(h.overdraft, next.Blocks(o.limits.BlockTokens)-claimed)
}

func (o *oracle) end(t scoring.Ticket) {
	o.live = slices.DeleteFunc(o.live, func(h *held) bool { return h.Ticket == t })
	o.ended[t] = true
}

// note keeps what is booked after every step, for the next sample.
func (o *oracle) note() {
	ld := o.load()
	o.history = append(o.history, ld.BookedBlocks)
	o.running = append(o.running, ld.SeatsBooked)
}

// drawClaim draws from few prefixes, so that claims ride on each other's blocks.
func drawClaim(t *rapid.T, number uint64) ledger.Claim {
	const blockTokens = 4
	family := rapid.IntRange(0, 2).Draw(t, "family")
	shared := rapid.IntRange(0, 4).Draw(t, "shared")
	c := ledger.Claim{Ticket: scoring.Ticket{Boot: 1, Number: number}, Seats: 1}
	for i := range shared {
		c.SharedKeys = append(c.SharedKeys, prefix.Key(family*100+i))
	}
	tail := rapid.IntRange(1, 3*blockTokens).Draw(t, "tail")
	c.PromptTokens = scoring.Tokens(shared*blockTokens + tail)
	c.PrefillTokens = scoring.Tokens(rapid.IntRange(1, int(c.PromptTokens)).Draw(t, "prefill"))
	c.PredictedOutputTokens = scoring.Tokens(rapid.IntRange(1, 12).Draw(t, "predicted"))
	c.ExpectedOutputTokens = scoring.Tokens(rapid.IntRange(1, 12).Draw(t, "expected"))
	c.SequenceTokens = c.PromptTokens + c.PredictedOutputTokens + scoring.Tokens(rapid.IntRange(0, 20).Draw(t, "room"))
	c.PrivateBlocks = (c.PromptTokens + c.PredictedOutputTokens).Blocks(blockTokens) - scoring.Blocks(shared)
	return c
}

// TestLedgerAgainstOracle drives both through every operation in any order. The invariants are those of the package
// comment; the last step ends everything and looks for what is left.
func TestLedgerAgainstOracle(t *testing.T) {
	did := map[string]int{}
	reasons := map[ledger.Reason]int{}
	for range 60 {
		rapid.Check(t, func(t *rapid.T) { runLedger(t, did, reasons) })
	}
	t.Log(did, reasons)
	for _, op := range []string{
		"reserve", "ride", "start", "grow", "overdraft", "linger", "expire", "confirm", "not confirmed", "postponed", "end", "end late",
		"end unknown", "restore", "restore beyond limits", "sample", "foreign", "alarm", "shrink", "end granted", "end all",
	} {
		require.GreaterOrEqual(t, did[op], 50, "too few cases of %q succeeded", op)
	}
	for why := range ledger.NumReasons {
		if why == ledger.Closed {
			continue // its owner's to say
		}
		require.GreaterOrEqual(t, reasons[why], 50, "too few answers %q", why)
	}
}

// run is one run of the state machine.
type run struct {
	l       *ledger.Ledger
	o       *oracle
	now     time.Time
	number  uint64
	did     map[string]int
	reasons map[ledger.Reason]int
}

func runLedger(t *rapid.T, did map[string]int, reasons map[ledger.Reason]int) {
	limits := scoring.Limits{KVBlocks: 20, Seats: 4, SequenceTokens: 40, BlockTokens: 4}
	r := &run{
		l: ledger.New(limits), o: &oracle{limits: limits, ended: map[scoring.Ticket]bool{}}, now: start,
		did: did, reasons: reasons,
	}
	r.o.note()
	t.Repeat(map[string]func(*rapid.T){
		"reserve":      r.reserve,
		"reserve more": r.reserve,
		"start": func(t *rapid.T) {
			h := r.pick(t)
			ok := r.l.Start(h.Ticket, r.now)
			require.Equal(t, h.state == ledger.Reserved, ok)
			if ok {
				h.state = ledger.Running
				r.o.started = r.now
				did["start"]++
			}
		},
		"grow":     r.grow,
		"linger":   r.linger,
		"expire":   r.expire,
		"confirm":  r.confirm,
		"postpone": r.postpone,
		"end":      r.end,
		"restore":  r.restore,
		"sample":   r.sample,
		"miss": func(t *rapid.T) {
			r.o.missed++
			alarm := r.l.MissedSample()
			require.Equal(t, r.o.missed == 3, alarm)
			if alarm {
				r.o.blocks, r.o.seats = nil, nil
				did["alarm"]++
			}
		},
		"limits": func(t *rapid.T) {
			r.o.limits.KVBlocks = scoring.Blocks(rapid.IntRange(5, 30).Draw(t, "blocks"))
			r.o.limits.Seats = rapid.IntRange(1, 6).Draw(t, "seats")
			r.l.SetLimits(r.o.limits)
			if r.o.load().BookedBlocks > r.o.limits.KVBlocks {
				did["shrink"]++
			}
		},
		"end granted": r.endGranted,
		"end all": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
				t.Skip("rarely")
			}
			r.endAll(t)
		},
		"": func(t *rapid.T) {
			r.o.note()
			require.Equal(t, r.o.load(), r.l.Load())
			for state, want := range map[ledger.State]int{
				ledger.Reserved: r.o.load().Reserved, ledger.Running: r.o.load().Running, ledger.Lingering: r.o.load().Lingering, ledger.Ended: 0,
			} {
				require.Equal(t, want, r.l.Tickets(state), state)
			}
			require.Equal(t, len(r.o.live) == 0, r.l.Empty())
			for _, h := range r.o.live {
				require.Equal(t, h.state, r.l.State(h.Ticket))
			}
		},
	})
	r.endAll(t)
	require.True(t, r.l.Empty(), "something is left: %+v", r.l.Load())
	ends := uint64(0)
	for _, n := range r.l.Counters().Ends {
		ends += n
	}
	require.EqualValues(t, len(r.o.ended), ends, "one end a ticket")
}

func (r *run) pick(t *rapid.T) *held {
	if len(r.o.live) == 0 {
		t.Skip("nothing is booked")
	}
	return rapid.SampledFrom(r.o.live).Draw(t, "ticket")
}

func (r *run) reserve(t *rapid.T) {
	r.number++
	c := drawClaim(t, r.number)
	if again := rapid.IntRange(0, 9).Draw(t, "again"); again == 0 && r.number > 1 {
		c.Ticket.Number = uint64(rapid.IntRange(1, int(r.number)-1).Draw(t, "number"))
	}
	want := r.o.grants(c)
	before := r.o.load()
	require.Equal(t, want, r.l.Fits(c))
	require.Equal(t, before, r.l.Load(), "a question changes nothing")
	require.Equal(t, want, r.l.Reserve(r.now, c))
	r.reasons[want]++
	if want != ledger.None {
		return
	}
	r.o.live = append(r.o.live, &held{Claim: c, granted: r.now})
	after := r.l.Load()
	require.LessOrEqual(t, after.BookedBlocks, after.UsableBlocks(), "grant")
	require.LessOrEqual(t, after.SeatsBooked, after.UsableSeats(), "grant")
	r.did["reserve"]++
	if after.BookedBlocks-before.BookedBlocks < c.PrivateBlocks+scoring.Blocks(len(c.SharedKeys)) {
		r.did["ride"]++
	}
}

func (r *run) grow(t *rapid.T) {
	h := r.pick(t)
	produced := h.produced + scoring.Tokens(rapid.IntRange(-1, 8).Draw(t, "tokens"))
	before := h.overdraft
	require.True(t, r.l.Grow(h.Ticket, produced), "a running sequence is never refused")
	r.o.grow(h, produced)
	r.did["grow"]++
	if h.overdraft > before {
		r.did["overdraft"]++
	}
}

func (r *run) linger(t *rapid.T) {
	h := r.pick(t)
	until := r.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
	ok := r.l.Linger(h.Ticket, r.now, until)
	require.Equal(t, h.state != ledger.Lingering, ok)
	if ok {
		h.state, h.lingers, h.until = ledger.Lingering, r.now, until
		r.did["linger"]++
	}
}

func (r *run) expire(t *rapid.T) {
	r.now = r.now.Add(time.Second)
	var want []scoring.Ticket
	for _, h := range r.o.live {
		if h.state == ledger.Lingering && !r.now.Before(h.until) {
			want = append(want, h.Ticket)
		}
	}
	slices.SortFunc(want, scoring.Ticket.Compare)
	require.Equal(t, want, r.l.Expire(r.now))
	for _, ticket := range want {
		r.o.end(ticket)
		r.did["expire"]++
	}
	next, lingers := r.l.NextExpiry()
	var bounds []time.Time
	for _, h := range r.o.live {
		if h.state == ledger.Lingering {
			bounds = append(bounds, h.until)
		}
	}
	require.Equal(t, len(bounds) > 0, lingers)
	if lingers {
		require.Equal(t, slices.MinFunc(bounds, time.Time.Compare), next)
	}
}

// confirm lets the engine say that it runs nothing.
func (r *run) confirm(t *rapid.T) {
	before := r.now.Add(time.Duration(rapid.IntRange(-2, 1).Draw(t, "before")) * time.Second)
	var gone []scoring.Ticket
	for _, h := range r.o.live {
		switch {
		case h.state != ledger.Lingering:
		case h.lingers.Before(before):
			gone = append(gone, h.Ticket)
		default:
			r.did["not confirmed"]++
		}
	}
	slices.SortFunc(gone, scoring.Ticket.Compare)
	require.Equal(t, gone, r.l.Confirm(before))
	for _, ticket := range gone {
		r.o.end(ticket)
		r.did["confirm"]++
	}
}

// postpone puts the bounds off.
func (r *run) postpone(t *rapid.T) {
	until := r.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "until")) * time.Second)
	for _, h := range r.o.live {
		if h.state == ledger.Lingering && h.until.Before(until) {
			h.until = until
			r.did["postponed"]++
		}
	}
	r.l.Postpone(until)
}

// endGranted ends what an engine that was replaced must have had.
func (r *run) endGranted(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		t.Skip("rarely")
	}
	before := r.now.Add(time.Duration(rapid.IntRange(-2, 1).Draw(t, "before")) * time.Second)
	var want []scoring.Ticket
	for _, h := range r.o.live {
		if h.granted.Before(before) {
			want = append(want, h.Ticket)
		}
	}
	slices.SortFunc(want, scoring.Ticket.Compare)
	require.Equal(t, want, r.l.EndGranted(before, ledger.Lost))
	for _, ticket := range want {
		r.o.end(ticket)
		r.did["end granted"]++
	}
}

func (r *run) end(t *rapid.T) {
	ticket := scoring.Ticket{Boot: 1, Number: uint64(rapid.IntRange(0, int(r.number)+2).Draw(t, "number"))}
	before := r.l.Counters()
	booked := r.o.find(ticket) != nil
	require.Equal(t, booked, r.l.End(ticket, ledger.Finished))
	after := r.l.Counters()
	switch {
	case booked:
		r.o.end(ticket)
		r.did["end"]++
	case r.o.ended[ticket]:
		require.Equal(t, before.LateEnds+1, after.LateEnds)
		r.did["end late"]++
	default:
		require.Equal(t, before.UnknownEnds+1, after.UnknownEnds)
		r.did["end unknown"]++
	}
}

func (r *run) restore(t *rapid.T) {
	r.number++
	c := drawClaim(t, uint64(rapid.IntRange(1, int(r.number)).Draw(t, "number")))
	st := rapid.SampledFrom([]ledger.State{ledger.Reserved, ledger.Running, ledger.Ended}).Draw(t, "state")
	produced := scoring.Tokens(rapid.IntRange(0, 20).Draw(t, "produced"))
	want := r.o.find(c.Ticket) == nil && !r.o.ended[c.Ticket] && st != ledger.Ended
	fits := r.o.grants(c) == ledger.None
	require.Equal(t, want, r.l.Restore(r.now, c, st, produced))
	if !want {
		return
	}
	h := &held{Claim: c, state: st, granted: r.now}
	r.o.live = append(r.o.live, h)
	r.o.note() // it is booked before it grows
	r.o.grow(h, produced)
	r.did["restore"]++
	if !fits {
		r.did["restore beyond limits"]++
	}
}

func (r *run) sample(t *rapid.T) {
	used := scoring.Blocks(rapid.IntRange(0, 30).Draw(t, "used"))
	r.o.missed = 0
	running := rapid.IntRange(0, 8).Draw(t, "running")
	tells := rapid.IntRange(0, 3).Draw(t, "tells") // mostly both
	r.o.blocks = append(r.o.blocks, int(used-slices.Max(r.o.history)))
	r.o.seats = append(r.o.seats, running-slices.Max(r.o.running))
	switch tells {
	case 0:
		r.o.seats = nil
		r.l.Sample(&used, nil, nil)
	case 1:
		r.o.blocks = nil
		r.l.Sample(nil, &running, nil)
	default:
		r.l.Sample(&used, &running, nil)
	}
	r.o.history, r.o.running = nil, nil
	r.o.note()
	r.did["sample"]++
	if r.o.load().ForeignBlocks > 0 {
		r.did["foreign"]++
	}
}

func (r *run) endAll(t *rapid.T) {
	want := make([]scoring.Ticket, 0, len(r.o.live))
	for _, h := range r.o.live {
		want = append(want, h.Ticket)
	}
	slices.SortFunc(want, scoring.Ticket.Compare)
	require.ElementsMatch(t, want, r.l.EndAll(ledger.Lost))
	for _, ticket := range want {
		r.o.end(ticket)
	}
	require.True(t, r.l.Empty())
	if len(want) > 0 {
		r.did["end all"]++
	}
	require.Subset(t, slices.Collect(maps.Keys(r.o.ended)), want)
}
