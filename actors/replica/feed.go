package replica

import (
	"context"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// Indexes holds one prefix index for each block size of a model's replicas. It is safe for concurrent use.
type Indexes struct {
	model string

	mu      sync.Mutex
	byBlock map[scoring.Tokens]*prefix.Index
}

// NewIndexes returns the indexes of a model.
func NewIndexes(model string) *Indexes {
	return &Indexes{model: model, byBlock: map[scoring.Tokens]*prefix.Index{}}
}

// For returns the index of a block size; the first call for a size makes it.
func (x *Indexes) For(blockTokens scoring.Tokens) *prefix.Index {
	x.mu.Lock()
	defer x.mu.Unlock()
	ix := x.byBlock[blockTokens]
	if ix == nil {
		cfg := prefix.DefaultConfig()
		cfg.Model, cfg.BlockTokens = x.model, int(blockTokens)
		ix = prefix.NewIndex(cfg)
		x.byBlock[blockTokens] = ix
	}
	return ix
}

// feed is the one writer of its replica's slot in the index: from the engine's cache events, or from what was routed
// there where the engine reports none. The subscription runs in a goroutine that ends with the actor.
type feed struct {
	deps   Deps
	parent *actor.PID
	source engine.KVSource // nil: the engine reports nothing

	place  *Place
	tuned  tune
	cancel context.CancelFunc
	ended  chan struct{} // closed when the running subscription has ended; nil if none runs
	run    uint64        // numbers subscriptions, so that the end of an old one is told from the present one's
	began  time.Time
	retry  time.Duration
	timer  *time.Timer
}

const (
	feedFirst = 50 * time.Millisecond // first new subscription after one broke; doubles
	feedCap   = 5 * time.Second
)

type (
	// feedBroke: a subscription has ended by itself. From its goroutine.
	feedBroke struct{ run uint64 }
	// resubscribe: the wait after a broken subscription is over. From a timer.
	resubscribe struct{ run uint64 }
)

func newFeed(deps Deps, parent *actor.PID) *feed {
	f := &feed{deps: deps, parent: parent, retry: feedFirst}
	if deps.Ref.Capabilities.KVEvents {
		f.source, _ = deps.Ref.Engine.(engine.KVSource)
	}
	return f
}

// Receive implements actor.Actor.
func (f *feed) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Stopping, *actor.Restarting:
		f.unsubscribe()
		f.leave()
	case tune:
		f.tune(c, m)
	case void:
		if f.place != nil {
			f.place.Index.Void(f.place.Slot)
		}
	case Learned:
		f.learn(m)
	case feedBroke:
		f.broke(c, m)
	case resubscribe:
		if m.run == f.run {
			f.subscribe(c)
		}
	}
}

func (f *feed) tune(c actor.Context, t tune) {
	f.unsubscribe()
	f.leave()
	f.tuned = t
	ix := f.deps.Indexes.For(t.blockTokens)
	src := prefix.Routed
	if f.source != nil {
		src = prefix.Events
	}
	f.place = &Place{
		Index: ix, BlockTokens: t.blockTokens,
		Slot: ix.Add(prefix.SlotConfig{Source: src, CapacityBlocks: scoring.Blocks(max(1, t.capacity/t.blockTokens))}),
	}
	f.deps.Ref.place.Store(f.place)
	f.subscribe(c)
}

func (f *feed) leave() {
	if f.place == nil {
		return
	}
	f.deps.Ref.place.Store(nil)
	f.place.Index.Remove(f.place.Slot)
	f.place = nil
}

func (f *feed) subscribe(c actor.Context) {
	if f.source == nil || f.place == nil {
		return
	}
	f.run++
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	f.cancel, f.ended, f.began = cancel, ended, time.Now()
	self, root, run := c.Self(), c.ActorSystem().Root, f.run
	place, first, incarnation := f.place, true, f.tuned.incarnation
	meter := f.deps.Meter.Feed(string(f.deps.Ref.ID))
	supervise.Go(f.deps.Log, "cache feed", func() {
		_ = f.source.Subscribe(ctx, func(b engine.KVBatch) {
			if b.Reset {
				place.Index.Void(place.Slot)
			}
			place.Index.Apply(place.Slot, b.Events)
			meter.Events(b.Events)
			if first {
				first = false
				root.Send(f.parent, FeedReady{incarnation})
			}
		})
		root.Send(self, feedBroke{run})
	}, func(any) {
		root.Send(self, feedBroke{run})
	}, func() { close(ended) })
}

func (f *feed) unsubscribe() {
	if f.timer != nil {
		f.timer.Stop()
	}
	if f.ended == nil {
		return
	}
	f.cancel()
	<-f.ended // the source promises to return when its context ends
	f.ended = nil
	f.run++
}

func (f *feed) broke(c actor.Context, m feedBroke) {
	if m.run != f.run || f.ended == nil {
		return
	}
	f.cancel()
	f.ended = nil
	f.place.Index.Void(f.place.Slot)
	self, root := c.Self(), c.ActorSystem().Root
	if time.Since(f.began) > feedCap {
		f.retry = feedFirst
	}
	run, wait := f.run, f.retry
	f.retry = min(2*f.retry, feedCap)
	f.timer = time.AfterFunc(wait, func() { root.Send(self, resubscribe{run}) })
}

// learn notes what an engine without events now holds.
func (f *feed) learn(m Learned) {
	if f.place == nil || f.source != nil {
		return
	}
	ns := prefix.Namespace{Model: f.deps.Ref.Model, LoRA: m.LoRA, Salt: m.Salt}
	keys := prefix.AppendKeys(nil, ns.Seed(), m.Tokens, int(f.place.BlockTokens))
	f.place.Index.Routed(f.place.Slot, keys)
}
