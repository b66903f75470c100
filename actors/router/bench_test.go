package router

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// bigLimits are those of the default simulated engine.
func bigLimits() scoring.Limits {
	return scoring.Limits{KVBlocks: 25_000, Seats: 256, SequenceTokens: 131_072, BlockTokens: 16}
}

// fleet is a rig of replicas with bigLimits.
func fleet(b *testing.B, replicas int) *rig {
	b.Helper()
	cfg := testConfig()
	cfg.Queue.TokensMax = 1 << 30
	r := newRig(b, cfg, 0)
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
				r := fleet(b, replicas)
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
					ticket, id := asked.claim.Ticket, asked.ref.ID
					r.m.step(r.now, &replica.Granted{Ticket: ticket, Replica: id, Snapshot: snapOf(vs, id)}, vs)
					r.m.step(r.now, stream.Failed{Replica: id, Ticket: ticket}, vs) // so that no speculation is left
				}
			})
		}
	}
}

// BenchmarkPump is one sign of room while 4,096 requests wait: on a fleet that is full, on one whose room is too small
// for any of them, and with room for one.
func BenchmarkPump(b *testing.B) {
	const waiting = 4096
	for _, replicas := range []int{8, 64} {
		queued := func(b *testing.B) *rig {
			b.Helper()
			r := fleet(b, replicas)
			for _, s := range r.sites {
				s.fill()
			}
			for i := range waiting {
				r.step(r.ask(i, 2000, nil))
			}
			if r.m.waiting.Len() != waiting {
				b.Fatal("they do not wait")
			}
			return r
		}
		b.Run(fmt.Sprintf("replicas=%d/full", replicas), func(b *testing.B) {
			r := queued(b)
			vs := r.views()
			b.ReportAllocs()
			for b.Loop() {
				r.m.step(r.now, replica.Room{}, vs)
			}
		})
		b.Run(fmt.Sprintf("replicas=%d/too little", replicas), func(b *testing.B) {
			r := queued(b)
			for _, s := range r.sites {
				s.free()
				s.hold(24_950)
			}
			vs := r.views()
			b.ReportAllocs()
			for b.Loop() {
				r.m.step(r.now, replica.Room{}, vs)
			}
		})
		b.Run(fmt.Sprintf("replicas=%d/one ends", replicas), func(b *testing.B) {
			r := queued(b)
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
				r.step(replica.Room{Replica: s.ref.ID})
				if len(r.sent) != 1 {
					b.Fatal("exactly one is dispatched", len(r.sent))
				}
				r.deliver()
				r.step(r.ask(seed, 2000, &maxTokens))
			}
		})
	}
}

func snapOf(vs []view, id scoring.ReplicaID) *replica.Snapshot {
	for _, v := range vs {
		if v.ref.ID == id {
			return v.snap
		}
	}
	return nil
}

// BenchmarkRoute is match, rank and reserve of a prompt whose blocks are hashed, on the first look at a fleet: what stands between
// a tokenized request and the message to its replica. The prompt is cached on one of them. The place is given up at once, so that
// the fleet stays as it is.
func BenchmarkRoute(b *testing.B) {
	for _, replicas := range []int{8, 64} {
		for _, tokens := range []int{1_000, 100_000} {
			b.Run(fmt.Sprintf("replicas=%d/prompt=%d", replicas, tokens), func(b *testing.B) {
				r := fleet(b, replicas)
				prompt := ids(1, tokens)
				e := newEntry(1, r.askFor(&stream.Request{Model: "m", N: 1, MaxTokens: new(256)}, prompt))
				r.sites[0].place.Slot = r.index.Add(prefix.SlotConfig{Source: prefix.Routed, CapacityBlocks: bigLimits().KVBlocks})
				r.index.Routed(r.sites[0].place.Slot, e.keysFor("m", 0, bigLimits().BlockTokens))
				vs := r.views()
				route := func() {
					r.m.out, r.m.pass.begun, e.known, e.matched = r.m.out[:0], false, false, time.Time{}
					if !r.m.place(r.now, e, vs) {
						b.Fatal("not placed")
					}
				}
				giveUp := func() {
					ticket := scoring.Ticket{Boot: 1, Number: r.next}
					r.m.unbook(r.m.tickets[ticket])
					delete(r.m.tickets, ticket)
					delete(r.m.byCall, e.sub.Call)
					r.m.overdue, r.m.unsaid = r.m.overdue[:0], r.m.unsaid[:0] // the index is written after the message is on its way
				}
				route()
				giveUp()
				took := make([]float64, 0, 1<<20)
				b.ReportAllocs()
				for b.Loop() {
					began := time.Now()
					route()
					if len(took) < cap(took) {
						took = append(took, float64(time.Since(began).Nanoseconds())/1000)
					}
					giveUp()
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2], "p50-us")
			})
		}
	}
}
