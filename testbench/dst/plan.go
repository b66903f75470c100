package dst

import (
	"time"

	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/scoring/policy"
)

// plan is what a seed has drawn for the whole run.
type plan struct {
	enabled  [NumFaults]bool
	pairs    bool // each pair of actors has an order of its own
	safety   time.Duration
	replicas int
	legs     int // at least; requests come until there are as many
	faults   int
	families int // of prompts that share their beginning
	// Of the answers to replays and of the subscriptions, how many come to harm.
	badReplays, badFeeds float64
	router               router.Config
	tiers                tiers
	recalls              recalls
	singles              singles
	adapter              float64 // what part of the requests names an adapter
	sieges               sieges
	relapses             relapses
	raw                  bool // there are chats that engines render
	ranks                int  // of the first replicas, which share one process; 1: each has its own
	sluggish             sluggish
	stream               stream.Config
}

// Floors of a seed that is worth running.
const (
	ReplicasFloor = 4
	LegsFloor     = 40
	EventsFloor   = 5000
)

// unread is how much a client may leave unread: so little that one who reads nothing soon has more.
const unread = 4 << 10

// drawPlan draws. A swarm: every kind of fault is there or not, so that few of them mask others.
func (w *world) drawPlan() {
	p := &w.plan
	p.pairs = w.chance(0.3)
	share := []float64{0.15, 0.4, 0.8}[w.rng.IntN(3)]
	for f := range drawnFaults {
		p.enabled[f] = w.chance(share)
	}
	p.safety = w.between(6*time.Second, 14*time.Second)
	p.replicas = ReplicasFloor + w.rng.IntN(3)
	p.legs = 70 + w.rng.IntN(40)
	p.faults = 6 + w.rng.IntN(20)
	p.families = 1 + w.rng.IntN(6)
	if w.chance(0.5) {
		p.badReplays = 0.3
	}
	if w.chance(0.2) {
		p.badFeeds = 0.3
	}

	p.router = router.DefaultConfig(modelName)
	p.router.Policy.Name = policy.Names()[0]
	if w.chance(0.3) {
		p.router.Policy.Name = policy.Names()[w.rng.IntN(len(policy.Names()))]
	}
	if w.chance(0.4) {
		p.router.Admission = router.Strict
	}
	p.router.DefaultMaxTokens = 64
	p.router.QueueTimeout = w.between(2*time.Second, 10*time.Second)

	p.stream = stream.DefaultConfig()
	p.stream.FirstTokenTimeout = w.between(time.Second, 4*time.Second)
	p.stream.TokenTimeout = w.between(time.Second, 3*time.Second)
	p.stream.JournalBytes = unread
	p.stream.HedgeAfter = drawHedging(w.cfg.Seed)
	p.tiers = drawTiers(w.cfg.Seed)
	p.tiers.set(&p.router)
	p.recalls = drawRecalls(w.cfg.Seed)
	p.singles = drawSingles(w.cfg.Seed)
	p.adapter = drawAdapter(w.cfg.Seed)
	p.sieges = drawSieges(w.cfg.Seed)
	p.relapses = drawRelapses(w.cfg.Seed)
	p.raw = drawRaw(w.cfg.Seed)
	p.ranks = drawRanks(w.cfg.Seed)
	p.sluggish = drawSluggish(w.cfg.Seed)
	p.sluggish.set(p)
}

const (
	modelName   = "m"
	blockTokens = 16
	vocabulary  = 96
	idEnd       = 0 // the engines' end of an answer
)

// engineConfig is a small engine with the passes of a real one: 7.5 ms and more.
func (w *world) engineConfig() sim.Config {
	c := sim.DefaultConfig()
	c.Model = "e"
	c.Adapters = []string{adapterName}
	c.BlockTokens = blockTokens
	c.Seats = 3 + w.rng.IntN(6)
	c.KVBlocks = 1 + 20 + w.rng.IntN(60)
	c.ContextTokens = 256 + w.rng.IntN(256)
	c.BatchTokens = 64 + w.rng.IntN(192)
	c.WaitingMax = 8
	c.HashSeed = w.rng.Uint64()
	if w.plan.sluggish.rng != nil {
		c.WaitingMax = 1000
	}
	return c
}

// engineKinds are the ways in which engines differ for us: like the simulated one inside the process, like vLLM with and
// without its feed, and like llama.cpp.
func (w *world) capabilities() engine.Capabilities {
	c := engine.Capabilities{Logprobs: true, MinTokens: true, LogitBias: true}
	switch r := w.rng.IntN(10); {
	case r < 5:
		c.Kind, c.Sharing, c.ConfirmsAbort, c.KVEvents = "confirms", engine.SharingFromDispatch, true, true
	case r < 8:
		c.Kind, c.Sharing, c.LingerBound, c.KVEvents = "lingers", engine.SharingFromDispatch, 2*time.Second, true
	default:
		c.Kind, c.Sharing, c.LingerBound = "plain", engine.SharingNever, 2*time.Second
	}
	return c
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rng.Int64N(int64(b-a)))
}
