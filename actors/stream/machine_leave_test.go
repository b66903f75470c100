package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// silence has a replica tell its attempts that it says nothing. Those of the tickets were in their prefill when that began.
func (r *rig) silence(name string, try bool, suspects ...uint64) []effect {
	e := fleet.Leaving{Incarnation: 1, Hung: true, Silent: true, Why: "silent", Try: try}
	for _, n := range suspects {
		e.Suspects = append(e.Suspects, scoring.Ticket{Boot: 1, Number: n})
	}
	return r.m.step(r.now, Leave{Ref: r.ref(name), Leaving: e})
}

// TestWhoLeavesASilentReplica (kind 3): what goes on elsewhere does at once; what could only fail by it stays where it is.
func TestWhoLeavesASilentReplica(t *testing.T) {
	off := &Request{Resume: ResumeOff}
	for name, c := range map[string]struct {
		req    *Request
		said   string // before; "": it is in its prefill
		leaves bool
	}{
		"an answer that has begun":           {&Request{}, "ab", true},
		"one that came behind the silence":   {&Request{}, "", true},
		"one that its client wants whole":    {off, "ab", false},
		"one that can begin anew":            {&Request{Resume: ResumeOff, Whole: true}, "ab", true},
		"one that has produced nothing, yet": {off, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), c.req)
			r.run(100, "a")
			if c.said != "" {
				r.do(text(1, c.said))
			}
			effects := r.silence("a", false)
			if c.leaves {
				require.Empty(t, submitted(t, effects).Legs[0].Excluded, "it is not the cause: there may be nobody else soon")
				return
			}
			require.Empty(t, effects)
			require.False(t, r.m.ended)
			at, ok := r.m.nextTimeout()
			require.True(t, ok)
			require.Equal(t, r.m.cfg.TokenTimeout, at.Sub(r.now), "until its own time is up")
			r.do(text(1, "c"))
		})
	}
}

// TestASuspectIsTriedOnOneOther: a request that was in its prefill when a replica fell silent may be the cause.
func TestASuspectIsTriedOnOneOther(t *testing.T) {
	for name, begun := range map[string]bool{"of a request that is new": false, "of an answer that goes on": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), &Request{})
			r.run(100, "z")
			if begun {
				r.do(text(1, "ab"))
			}
			r.do(attemptEnded{1, failure(engine.Refused)})
			r.run(100, "a")
			require.Empty(t, r.silence("a", false, 2), "not while it is worth the patience, nor while few are well")
			excluded := submitted(t, r.silence("a", true, 2)).Legs[0].Excluded
			require.Contains(t, excluded, Exclusion{Replica: "a", Incarnation: 1, Process: true})
			r.run(100, "b")
			require.Empty(t, r.silence("b", true, 3), "no third one is put at risk")
			require.True(t, r.m.legs[0].twice)
			require.False(t, r.m.ended)
			r.later(r.m.cfg.FirstTokenTimeout)
			with(t, r.do(timeout{}), "ended: deadline")
		})
	}
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "a")
	submitted(t, r.silence("a", true, 1))
	r.run(100, "b")
	require.Empty(t, r.silence("b", true, 2))
	r.do(text(2, "late, and right"))
	require.False(t, r.m.ended)
	submitted(t, r.silence("b", true, 2))
}

// TestFewMove: only those that are named, and only to where they are told.
func TestFewMove(t *testing.T) {
	r := begin(t, &Request{}, "ab")
	few := func(ticket uint64) []effect {
		return r.m.step(r.now, Leave{Ref: r.ref("a"), Leaving: fleet.Leaving{
			Incarnation: 1, Hung: true, Only: []scoring.ReplicaID{"c"}, Tickets: []scoring.Ticket{{Boot: 1, Number: ticket}},
		}})
	}
	require.Empty(t, few(2))
	r.m.legs[0].excluded = []Exclusion{{Replica: "c", Incarnation: 1, Process: true}}
	require.Empty(t, few(1), "it has failed there: it would only wait")
	r.m.legs[0].excluded = nil
	require.Equal(t, []scoring.ReplicaID{"c"}, submitted(t, few(1)).Legs[0].Only)
	r.run(100, "c")
	require.Nil(t, submitted(t, r.m.step(r.now, attemptEnded{2, failure(engine.Refused)})).Legs[0].Only, "that was for once")
}

// TestSilenceThatWouldEndIt: nobody is taken away from where he is to fail for having been taken away too often.
func TestSilenceThatWouldEndIt(t *testing.T) {
	cfg := DefaultConfig()
	cfg.AttemptsMax = 1
	r := newRig(t, cfg, &Request{})
	r.run(100, "a")
	r.do(text(1, "ab"))
	require.Empty(t, r.silence("a", true))
	require.False(t, r.m.ended)
}

// TestAReplicaThatServesNobodyIsNotTheRequestsToJudge: the shorter limits are for what is lost on one that serves others.
func TestAReplicaThatServesNobodyIsNotTheRequestsToJudge(t *testing.T) {
	for name, c := range map[string]struct {
		serves func(r *rig) // others, while the attempt waits
		after  time.Duration
	}{
		"it serves nobody":       {func(*rig) {}, 10 * time.Minute},
		"it serves others":       {func(r *rig) { b := r.ref("a").Beat(); b.Heard(r.now) }, 20 * time.Second},
		"it answers its canary":  {func(r *rig) { r.ref("a").Publish(&fleet.Snapshot{Life: r.now}) }, 20 * time.Second},
		"it did, at first":       {func(r *rig) { b := r.ref("a").Beat(); b.Heard(epoch.Add(2 * time.Second)) }, 10 * time.Minute},
		"it did, before the try": {func(r *rig) { b := r.ref("a").Beat(); b.Heard(epoch) }, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), &Request{})
			r.ref("a").Pulse().Start(epoch)
			r.later(time.Second)
			r.predict("a", 100)
			began := r.now
			for len(r.m.attempts) > 0 {
				at, ok := r.m.nextTimeout()
				require.True(t, ok)
				r.now = at
				c.serves(r)
				if r.do(timeout{}); r.m.waiting.asks != nil {
					break
				}
			}
			require.Equal(t, c.after, r.now.Sub(began))
		})
	}
}
