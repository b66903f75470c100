package router

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
)

// TestCanItEverFit: 400 only where every configured replica is too small, whatever its state; 503 where only one that
// does not serve could hold it, or none serves; else it is placed or waits.
func TestCanItEverFit(t *testing.T) {
	type is struct {
		state    fleet.State
		told     bool
		sequence scoring.Tokens
	}
	ready := func(n scoring.Tokens) is { return is{fleet.Ready, true, n} }
	const placed, waits = fault.NumKinds, fault.NumKinds + 1
	for name, c := range map[string]struct {
		fleet             []is
		prompt, minTokens int
		want              fault.Kind
	}{
		"it fits":                           {[]is{ready(1000)}, 999, 0, placed},
		"one token too long":                {[]is{ready(1000)}, 1000, 0, fault.ContextLength},
		"room for min_tokens":               {[]is{ready(1000)}, 900, 100, placed},
		"no room for min_tokens":            {[]is{ready(1000)}, 900, 101, fault.ContextLength},
		"min_tokens 1 is the least":         {[]is{ready(1000)}, 999, 1, placed},
		"the larger one takes it":           {[]is{ready(500), ready(1000)}, 700, 0, placed},
		"too long for both":                 {[]is{ready(500), ready(1000)}, 1000, 0, fault.ContextLength},
		"only one that is down could":       {[]is{ready(500), {fleet.Down, true, 1000}}, 700, 0, fault.NoReplica},
		"only one that drains could":        {[]is{ready(500), {fleet.Draining, true, 1000}}, 700, 0, fault.NoReplica},
		"only one that is degraded could":   {[]is{ready(500), {fleet.Degraded, true, 1000}}, 700, 0, fault.NoReplica},
		"too long even for the one down":    {[]is{ready(500), {fleet.Down, true, 1000}}, 1000, 0, fault.ContextLength},
		"too long for all, and all down":    {[]is{{fleet.Down, true, 1000}}, 1000, 0, fault.ContextLength},
		"one was never reached":             {[]is{ready(500), {fleet.Starting, false, 0}}, 9999, 0, fault.NoReplica},
		"none was ever reached":             {[]is{{fleet.Down, false, 0}, {fleet.Starting, false, 0}}, 10, 0, fault.NoReplica},
		"none serves":                       {[]is{{fleet.Down, true, 1000}, {fleet.Gone, true, 1000}}, 10, 0, fault.NoReplica},
		"no replica is configured":          {nil, 10, 0, fault.NoReplica},
		"the one that could is warming":     {[]is{ready(500), {fleet.Warming, true, 1000}}, 700, 0, waits},
		"one is down, another takes it":     {[]is{ready(1000), {fleet.Down, true, 1000}}, 10, 0, placed},
		"an empty prompt can't be answered": {[]is{ready(1000)}, 0, 0, fault.BadInput},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 0)
			for i, s := range c.fleet {
				limits := testLimits()
				limits.SequenceTokens = s.sequence
				added := r.add(scoring.ReplicaID('a'+rune(i)), limits)
				added.snap.State, added.snap.Told = s.state, s.told
			}
			sub := r.submit(r.askFor(&stream.Request{N: 1, MinTokens: c.minTokens}, ids(1, c.prompt)))
			require.Equal(t, c.want == waits, r.waits(sub))
			if c.want == placed {
				require.Len(t, r.places(sub), 1)
			}
			if c.want < fault.NumKinds {
				require.Equal(t, c.want, r.fault(sub).Kind)
				require.Equal(t, []fault.Kind{c.want}, r.kinds, "counted")
				r.empty()
			}
		})
	}
}

// TestFaultsSayWhatToDo: numbers, parameter and Retry-After.
func TestFaultsSayWhatToDo(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	f := r.fault(r.submit(r.askFor(&stream.Request{N: 1, MinTokens: 7}, ids(1, 995))))
	require.Equal(t, "this model's maximum context length is 1000 tokens, but the prompt has 995 and the answer needs at least 7; "+
		"lower min_tokens or shorten the prompt", f.Message)
	require.Equal(t, "min_tokens", f.Param)
	require.Zero(t, f.RetryAfter, "trying again is no use")

	for _, s := range r.sites {
		s.snap.State = fleet.Down
	}
	f = r.fault(r.submit(r.ask(1, 10, nil)))
	require.Contains(t, f.Message, "try again later")
	require.Positive(t, f.RetryAfter)
}

// TestReservationSizes: strict mode books the whole answer, expected mode what is predicted and a block a seat more.
func TestReservationSizes(t *testing.T) {
	for name, c := range map[string]struct {
		admission  Admission
		prompt     int
		maxTokens  *int
		wantBlocks scoring.Blocks
		wantMax    int // what the engine is asked for
	}{
		"strict, max_tokens":                  {Strict, 100, new(60), 10, 60},
		"strict, max_tokens beyond the room":  {Strict, 900, new(500), 63, 100},
		"strict, absent":                      {Strict, 100, nil, 15, 128},
		"strict, absent, little room":         {Strict, 950, nil, 63, 50},
		"strict, max_tokens above default":    {Strict, 100, new(300), 25, 300},
		"expected, before any answer":         {Expected, 100, nil, 40, 900}, // 612 tokens are 39 blocks
		"expected, short max_tokens":          {Expected, 100, new(20), 8, 20},
		"expected, no margin past the end":    {Expected, 100, new(12), 7, 12},
		"expected, max_tokens at the room":    {Expected, 900, new(500), 63, 100},
		"expected, prompt fills all but one":  {Expected, 999, nil, 63, 1},
		"expected, max_tokens above expected": {Expected, 100, new(700), 40, 700},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Admission = c.admission
			r := newRig(t, cfg, 1)
			p := r.places(r.submit(r.ask(1, c.prompt, c.maxTokens)))[0]
			require.Equal(t, c.wantMax, p.MaxTokens)
			require.Equal(t, c.wantBlocks, r.site("a").ledger.Load().BookedBlocks)
			require.EqualValues(t, c.prompt+c.wantMax, p.Claim.SequenceTokens)
			require.EqualValues(t, 1000, p.LongestTokens, "the replica's, whatever is claimed")
		})
	}
}

// TestPredictionFollowsAnswers: the p90 of the answers seen is reserved.
func TestPredictionFollowsAnswers(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	for i := range 10 {
		r.step(stream.Finished{Replica: "a", Produced: scoring.Tokens(10 * (i + 1))})
	}
	p := r.places(r.submit(r.ask(1, 100, nil)))[0]
	require.EqualValues(t, 90, p.Claim.PredictedOutputTokens)
	require.EqualValues(t, 13, r.site("a").ledger.Load().BookedBlocks) // 190 tokens are 12
}

// TestStrictNeverExceeds: whatever is granted in strict mode, all answers together never need more than there is.
func TestStrictNeverExceeds(t *testing.T) {
	cfg := testConfig()
	cfg.Admission = Strict
	r := newRig(t, cfg, 2)
	for i := range 40 {
		r.submit(r.ask(i, 50+13*i, new(1+29*i%300)))
	}
	most := map[scoring.ReplicaID]scoring.Blocks{}
	for _, p := range r.placed {
		most[p.Ref.ID] += (p.Claim.PromptTokens + scoring.Tokens(p.MaxTokens)).Blocks(16)
	}
	for _, s := range r.sites {
		require.Equal(t, s.ledger.Load().BookedBlocks, most[s.ref.ID])
		require.LessOrEqual(t, most[s.ref.ID], scoring.Blocks(100))
	}
	require.Greater(t, len(r.placed), 3)
}

// TestAdmissionWords: what the flag takes is what it shows.
func TestAdmissionWords(t *testing.T) {
	for a := range NumAdmissions {
		got, err := ParseAdmission(a.String())
		require.NoError(t, err)
		require.Equal(t, a, got)
	}
	_, err := ParseAdmission("unknown")
	require.Error(t, err)
	require.Equal(t, "unknown", NumAdmissions.String())
}

// TestPromptBound: the operator's bound on prompts holds whatever the replicas could take.
func TestPromptBound(t *testing.T) {
	cfg := testConfig()
	most := scoring.Tokens(100)
	cfg.PromptTokensMax = &most
	r := newRig(t, cfg, 1)
	require.Len(t, r.places(r.submit(r.askFor(&stream.Request{N: 1}, ids(1, 100)))), 1)
	f := r.fault(r.submit(r.askFor(&stream.Request{N: 1}, ids(2, 101))))
	require.Equal(t, fault.ContextLength, f.Kind)
	require.Contains(t, f.Message, "101")
	require.Contains(t, f.Message, "100")
}
