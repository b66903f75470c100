package router

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

// TestTierCredit: what is on the device saves its prefill whole, what is loaded from slower tiers a part of it.
func TestTierCredit(t *testing.T) {
	credit := TierCredit{Host: 0.75, Disk: 0.5}
	for name, c := range map[string]struct {
		held prefix.Overlap
		most scoring.Blocks
		want scoring.Tokens
	}{
		"nothing":                    {prefix.Overlap{}, 9, 0},
		"device":                     {prefix.Overlap{Device: 3}, 9, 48},
		"host":                       {prefix.Overlap{Host: 2}, 9, 24},
		"disk":                       {prefix.Overlap{Disk: 2}, 9, 16},
		"all":                        {prefix.Overlap{Device: 3, Host: 2, Disk: 2}, 9, 88},
		"the last block is computed": {prefix.Overlap{Device: 3, Host: 2, Disk: 2}, 4, 60},
		"all on the device":          {prefix.Overlap{Device: 5}, 4, 64},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, credit.of(capped(c.held, c.most), 16))
		})
	}
	cfg := testConfig()
	require.NoError(t, cfg.Validate())
	cfg.Credit.Host = 1.1
	require.ErrorContains(t, cfg.Validate(), "between 0 and 1")
}

// TestOverlapIsOfTheLifeThatServes: what the index holds of a life of the engine says nothing of the next one.
func TestOverlapIsOfTheLifeThatServes(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	s := r.site("a")
	r.end(r.places(r.submit(r.ask(1, 800, new(16))))[0])
	s.snap.Incarnation++
	next := r.places(r.submit(r.ask(1, 800, new(16))))[0]
	require.Zero(t, next.OverlapTokens)
	r.end(next)
	require.Zero(t, r.places(r.submit(r.ask(1, 800, new(16))))[0].OverlapTokens, "nothing is speculated on the old life's slot")
}

// TestABurstOfEqualPrompts goes where the first of them went, before anybody has answered for that one, as long as that is the
// best place: each then waits for one prefill, as it would elsewhere, and saves its own. What finds no seat goes elsewhere.
func TestABurstOfEqualPrompts(t *testing.T) {
	r := newRig(t, testConfig(), 4)
	for _, s := range r.sites[1:] {
		busy := claimOf(1, 25)
		busy.PromptTokens, busy.PrefillTokens = 330, 330
		require.Equal(t, ledger.None, s.ledger.Reserve(r.now, busy))
	}
	const burst = 4 // as many as the seats of a replica
	subs := make([]*stream.Submit, burst+1)
	for i := range subs {
		subs[i] = r.ask(1, 320, new(16))
		r.step(subs[i]) // and nothing is delivered
	}
	r.deliver()
	require.Equal(t, r.site("a").ref, r.places(subs[0])[0].Ref)
	for _, sub := range subs[1:burst] {
		p := r.places(sub)[0]
		require.Equal(t, r.site("a").ref, p.Ref)
		require.EqualValues(t, 304, p.OverlapTokens, "the block of the last token is computed anew")
	}
	over := r.places(subs[burst])[0]
	require.NotEqual(t, r.site("a").ref, over.Ref, "its seats are taken")
	require.Zero(t, over.OverlapTokens)
}

// TestNothingIsSpeculatedWhereNothingIsShared: a prompt that runs in blocks of its own is no help to an equal one.
func TestNothingIsSpeculatedWhereNothingIsShared(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	r.site("a").ref.Capabilities.Sharing = engine.SharingNever
	for range 3 {
		require.Zero(t, r.places(r.submit(r.ask(1, 320, new(16))))[0].OverlapTokens)
	}
}

// TestWhatIsRefusedIsNotCached: no claim is left of a place that was not got.
func TestWhatIsRefusedIsNotCached(t *testing.T) {
	overlap := func(r *rig, s *site) scoring.Blocks {
		keys := prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), ids(1, 800), 16)
		return s.place.Index.Match(r.now, keys, nil)[s.place.Slot].Device
	}
	for name, refuse := range map[string]func(r *rig, s *site, sub *stream.Submit){
		"the ledger knows better": func(r *rig, s *site, _ *stream.Submit) {
			s.ledger.Reserve(start, claimOf(99, 100))
			s.snap.State = fleet.Draining
			r.deliver()
		},
		"the client has left": func(r *rig, _ *site, sub *stream.Submit) {
			r.step(stream.Withdraw{Call: sub.Call})
			r.deliver()
		},
		"nobody answers": func(r *rig, s *site, _ *stream.Submit) {
			s.hangs = true
			s.snap.State = fleet.Down
			r.pass(r.m.cfg.ReserveWait)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 1)
			s := r.site("a")
			sub := r.ask(1, 800, new(16))
			r.step(sub)
			require.EqualValues(t, 50, overlap(r, s))
			refuse(r, s, sub)
			require.Zero(t, overlap(r, s))
		})
	}
}

// TestWhoIsRankedAnewSeesWhatOthersBroughtMeanwhile, however many prompts were dispatched since somebody waited.
func TestWhoIsRankedAnewSeesWhatOthersBroughtMeanwhile(t *testing.T) {
	for name, before := range map[string]int{"few before it": 1, "more than are noted": freshMax} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 3)
			for i := range before {
				r.end(r.places(r.submit(r.ask(100+i, 17, new(1))))[0])
			}
			first := r.ask(1, 800, new(16))
			r.step(first)
			asked := r.sent[0].ref.ID
			r.site(asked).snap.State = fleet.Draining // the router sees it, and sends the next one elsewhere
			second := r.submitAfter(r.ask(1, 800, new(16)))
			require.NotEqual(t, asked, second.Ref.ID)
			r.deliver() // the first one is refused
			p := r.places(first)[0]
			require.Equal(t, second.Ref.ID, p.Ref.ID)
			require.EqualValues(t, 784, p.OverlapTokens)
		})
	}
}

// submitAfter hands in a submission and lets the replica that it goes to answer before those that were asked earlier.
func (r *rig) submitAfter(sub *stream.Submit) stream.Placement {
	earlier := len(r.sent)
	r.step(sub)
	for len(r.sent) > earlier {
		r.deliverOne(earlier)
	}
	return r.places(sub)[0]
}
