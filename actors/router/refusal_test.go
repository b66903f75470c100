package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/queue"
)

// TestCausesOfRefusals: one kind of error has several causes, which are counted apart. Those of SLOs are in slo_test.go.
func TestCausesOfRefusals(t *testing.T) {
	after := func(kind fault.Kind) func(r *rig) *stream.Submit {
		return func(r *rig) *stream.Submit {
			sub := r.ask(1, 100, nil)
			sub.Again = true
			sub.Legs[0].LastFault = fault.New(kind, "of its last attempt")
			sub.Legs[0].Excluded = []stream.Exclusion{{Replica: "a", Incarnation: 1}}
			return r.submit(sub)
		}
	}
	afterTokens := func(kind fault.Kind) func(r *rig) *stream.Submit {
		return func(r *rig) *stream.Submit {
			sub := r.ask(1, 100, nil)
			sub.Begun = true
			sub.Legs[0].Since, sub.Legs[0].LastFault = r.now, fault.New(kind, "of its last attempt")
			sub.Legs[0].Excluded = []stream.Exclusion{{Replica: "a", Incarnation: 1}}
			r.submit(sub)
			r.pass(r.m.cfg.ResumeWait + time.Second)
			return sub
		}
	}
	for name, c := range map[string]struct {
		change func(cfg *Config)
		do     func(r *rig) *stream.Submit
		kind   fault.Kind
		want   fault.Cause
	}{
		"an empty prompt": {
			do:   func(r *rig) *stream.Submit { return r.submit(r.ask(1, 0, nil)) },
			kind: fault.BadInput, want: fault.Malformed,
		},
		"longer than any replica takes": {
			do:   func(r *rig) *stream.Submit { return r.submit(r.ask(1, 5000, nil)) },
			kind: fault.ContextLength, want: fault.TooLarge,
		},
		"longer than this server takes": {
			change: func(cfg *Config) { cfg.PromptTokensMax = new(scoring.Tokens(50)) },
			do:     func(r *rig) *stream.Submit { return r.submit(r.ask(1, 100, nil)) },
			kind:   fault.ContextLength, want: fault.TooLarge,
		},
		"more answers at once than fit": {
			do: func(r *rig) *stream.Submit {
				return r.submit(r.askFor(&stream.Request{Model: "m", N: 9}, ids(1, 10)))
			},
			kind: fault.BadInput, want: fault.TooLarge,
		},
		"nobody had room in time": {
			do: func(r *rig) *stream.Submit {
				fillAll(r)
				sub := r.submit(r.ask(1, 100, nil))
				r.pass(r.m.cfg.QueueTimeout)
				return sub
			},
			kind: fault.Contended, want: fault.QueueTimeout,
		},
		"too many wait": {
			change: func(cfg *Config) { cfg.Queue.RequestsMax = 3 },
			do: func(r *rig) *stream.Submit {
				fillAll(r)
				r.crowd(3, queue.Default)
				return r.submit(r.ask(1, 100, nil))
			},
			kind: fault.Contended, want: fault.QueueFull,
		},
		"nobody serves": {
			do: func(r *rig) *stream.Submit {
				r.sites[0].snap.State = fleet.Down
				return r.submit(r.ask(1, 100, nil))
			},
			kind: fault.NoReplica, want: fault.Unserved,
		},
		"all engines shed it":   {do: after(fault.Contended), kind: fault.Contended, want: fault.Shed},
		"its only engine broke": {do: after(fault.EngineFailed), kind: fault.EngineFailed, want: fault.Broken},
		"its only engine broke after tokens": {
			do:   afterTokens(fault.EngineFailed),
			kind: fault.EngineFailed, want: fault.Broken,
		},
		"its only replica was drained before a token": {do: after(fault.NoReplica), kind: fault.NoReplica, want: fault.Unserved},
		"its only replica was drained after tokens": {
			do:   afterTokens(fault.NoReplica),
			kind: fault.NoReplica, want: fault.Unserved,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			if c.change != nil {
				c.change(&cfg)
			}
			r := newRig(t, cfg, 1)
			require.Equal(t, c.kind, r.fault(c.do(r)).Kind)
			require.Equal(t, []fault.Kind{c.kind}, r.kinds)
			require.Equal(t, []fault.Cause{c.want}, r.causes)
		})
	}
}
