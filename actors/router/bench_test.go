package router

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// bigLimits are those of the default simulated engine.
func bigLimits() scoring.Limits {
	return scoring.Limits{KVBlocks: 25_000, Seats: 256, SequenceTokens: 131_072, BlockTokens: 16}
}

// fleetOf is a rig of replicas with bigLimits.
func fleetOf(tb testing.TB, replicas int) *rig {
	tb.Helper()
	cfg := testConfig()
	cfg.Queue.TokensMax = 1 << 30
	r := newRig(tb, cfg, 0)
	for i := range replicas {
		r.add(scoring.ReplicaID(fmt.Sprintf("r%02d", i)), bigLimits())
	}
	return r
}

// BenchmarkDecide is the path of one request whose prompt is known: hash, match, rank, reserve, and the answer. The
// prompt is cached on one replica.
func BenchmarkDecide(b *testing.B) {
	for _, replicas := range []int{8, 64} {
		for _, tokens := range []int{1_000, 32_000, 100_000} {
			b.Run(fmt.Sprintf("replicas=%d/prompt=%d", replicas, tokens), func(b *testing.B) {
				r := fleetOf(b, replicas)
				prompt := ids(1, tokens)
				first := r.submit(r.askFor(&stream.Request{Model: "m", N: 1, MaxTokens: new(1)}, prompt))
				r.end(r.places(first)[0])
				vs := r.views()
				maxTokens := 256
				req := &stream.Request{Model: "m", N: 1, MaxTokens: &maxTokens}
				b.ReportAllocs()
				for b.Loop() {
					sub := r.askFor(req, prompt)
					effects := r.m.step(r.now, sub, vs)
					asked, ok := effects[0].(reserve)
					if !ok {
						b.Fatal("not placed")
					}
					ticket, id := asked.place.Claim.Ticket, asked.place.Ref.ID
					r.m.step(r.now, &fleet.Granted{Ticket: ticket, Replica: id, Snapshot: snapOf(vs, id)}, vs)
					r.m.step(r.now, stream.Failed{Replica: id, Ticket: ticket}, vs) // so that no speculation is left
				}
			})
		}
	}
}

// BenchmarkPump is one sign of room while 4,096 requests wait: on a fleet that is full, on one whose room is too small
// for any of the 160 that are tried, and with room for one.
func BenchmarkPump(b *testing.B) {
	const waiting = 4096
	for _, replicas := range []int{8, 64} {
		queued := func(b *testing.B, shared []uint32) *rig {
			b.Helper()
			r := fleetOf(b, replicas)
			for _, s := range r.sites {
				if len(shared) > 0 {
					s.place.Slot = r.index.Add(prefix.SlotConfig{Source: prefix.Routed, CapacityBlocks: bigLimits().KVBlocks})
					r.index.Routed(s.place.Slot, prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), shared, 16))
				}
				s.fill()
			}
			for i := range waiting {
				r.step(r.askFor(&stream.Request{Model: "m", N: 1}, append(slices.Clone(shared), ids(i, 2000-len(shared))...)))
			}
			if r.m.waiting.Len() != waiting {
				b.Fatal("they do not wait")
			}
			return r
		}
		b.Run(fmt.Sprintf("replicas=%d/full", replicas), func(b *testing.B) {
			r := queued(b, nil)
			vs := r.views()
			b.ReportAllocs()
			for b.Loop() {
				r.m.step(r.now, fleet.Room{}, vs)
			}
		})
		for _, tc := range []struct {
			name   string
			shared []uint32
		}{{"too little", nil}, {"too little, a beginning cached everywhere", ids(0, 1024)}} {
			b.Run(fmt.Sprintf("replicas=%d/%s", replicas, tc.name), func(b *testing.B) {
				r := queued(b, tc.shared)
				for _, s := range r.sites {
					s.free()
					s.hold(24_950)
				}
				vs, took := r.views(), newTimes()
				b.ReportAllocs()
				for b.Loop() {
					took.of(func() { r.m.step(r.now, fleet.Room{}, vs) })
				}
				took.report(b)
			})
		}
		b.Run(fmt.Sprintf("replicas=%d/one ends", replicas), func(b *testing.B) {
			r := queued(b, nil)
			for _, s := range r.sites {
				s.free()
				s.hold(24_950)
			}
			maxTokens := 16
			seed := waiting
			b.ReportAllocs()
			for b.Loop() {
				s := r.sites[seed%replicas]
				seed++
				s.free()
				s.hold(24_800) // room for one of them
				r.step(fleet.Room{Replica: s.ref.ID})
				if len(r.sent) != 1 {
					b.Fatal("exactly one is dispatched", len(r.sent))
				}
				r.deliver()
				r.step(r.ask(seed, 2000, &maxTokens))
			}
		})
	}
}

func snapOf(vs []view, id scoring.ReplicaID) *fleet.Snapshot {
	for _, v := range vs {
		if v.ref.ID == id {
			return v.snap
		}
	}
	return nil
}

// times are how long each of a benchmark's rounds took: half of them took less than p50, whatever else the machine did meanwhile.
type times []float64

func newTimes() *times {
	t := make(times, 0, 1<<20)
	return &t
}

func (t *times) of(f func()) {
	began := time.Now()
	f()
	if len(*t) < cap(*t) {
		*t = append(*t, float64(time.Since(began).Nanoseconds())/1000)
	}
}

func (t *times) report(b *testing.B) {
	b.Helper()
	slices.Sort(*t)
	b.ReportMetric((*t)[len(*t)/2], "p50-us")
}

// learned makes the router know its replicas: a hundred prefills and runs of steps of each.
func (r *rig) learned() {
	for n := range 100 {
		for _, s := range r.sites {
			r.m.learner.FirstToken(r.now, s.ref.ID, 100_000, scoring.Tokens(n), 6*time.Second)
			r.m.learner.Step(r.now, s.ref.ID, 1, scoring.Tokens(1000*n), 10*time.Millisecond)
		}
	}
	r.now = r.now.Add(time.Minute)
}

// road is the way of a prompt whose blocks are hashed from the queue's head to the message to its replica.
type road struct {
	*rig

	e  *entry
	vs []view
}

// newRoad is that of a prompt that is cached on one of a fleet's replicas.
func newRoad(r *rig, tokens int) *road {
	prompt := ids(1, tokens)
	e := newEntry(1, r.askFor(&stream.Request{Model: "m", N: 1, MaxTokens: new(256)}, prompt))
	r.sites[0].place.Slot = r.index.Add(prefix.SlotConfig{Source: prefix.Routed, CapacityBlocks: bigLimits().KVBlocks})
	r.index.Routed(r.sites[0].place.Slot, e.keysFor("m", 0, bigLimits().BlockTokens))
	return &road{r, e, r.views()}
}

// drive matches, ranks and reserves, on the first look at the fleet; false: it found no place.
func (r *road) drive() bool {
	r.m.out, r.m.pass.begun, r.e.known, r.e.matched = r.m.out[:0], false, false, time.Time{}
	return r.m.place(r.now, r.e, r.vs)
}

// giveUp has the fleet stay as it is: the place is taken off. The index is written after the message is on its way.
func (r *road) giveUp() {
	a := r.m.open.first
	delete(r.m.byCall, r.e.sub.Call)
	r.m.answer(a)
	r.m.spare.asking.give(a.by)
	r.m.spare.turn()
	r.m.unsaid = r.m.unsaid[:0]
}

// BenchmarkRoute is match, rank and reserve of a prompt whose blocks are hashed, on the first look at a fleet: what stands between
// a tokenized request and the message to its replica. The prompt is cached on one of them, and the router has learned how fast they
// are.
func BenchmarkRoute(b *testing.B) {
	for _, replicas := range []int{8, 64} {
		for _, tokens := range []int{1_000, 100_000} {
			b.Run(fmt.Sprintf("replicas=%d/prompt=%d", replicas, tokens), func(b *testing.B) {
				r := fleetOf(b, replicas)
				r.learned()
				way := newRoad(r, tokens)
				took := newTimes()
				b.ReportAllocs()
				for b.Loop() {
					placed := false
					if took.of(func() { placed = way.drive() }); !placed {
						b.Fatal("not placed")
					}
					way.giveUp()
				}
				took.report(b)
			})
		}
	}
}
