package dst

import (
	"slices"
	"time"

	"plimsoll/actors/replica"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// feed is the writer of a replica's slot in the index, and its subscription to the engine.
type feed struct {
	host  *host
	place *replica.Place
	tuned tuning
	slot  slotModel

	run   uint64 // numbers subscriptions
	open  bool
	life  uint64 // of the process subscribed to
	next  uint64 // batch
	began time.Duration
	retry time.Duration

	arrives       time.Duration
	stray, latest *batch // a plant's: the last batch of the subscription before, and of this one
}

// tuning is at what block size and capacity the feed works, for which life.
type tuning struct {
	blockTokens, capacity scoring.Tokens
	incarnation           uint64
}

// batch is a message of the engine's publisher.
type batch struct {
	seq     uint64
	reset   bool
	garbled bool
	events  []prefix.Event
}

const (
	feedFirst = 50 * time.Millisecond
	feedCap   = 5 * time.Second
)

func (f *feed) start() { f.retry = feedFirst }

func (f *feed) stop() {
	f.unsubscribe()
	f.leave()
}

func (f *feed) tune(t tuning) {
	f.unsubscribe()
	f.leave()
	f.tuned = t
	ix := f.host.w.indexes.Join(t.blockTokens)
	src := prefix.Routed
	if f.host.ref.Capabilities.KVEvents {
		src = prefix.Events
	}
	f.place = &replica.Place{
		Index: ix, BlockTokens: t.blockTokens, Incarnation: t.incarnation,
		Slot: ix.Add(prefix.SlotConfig{Source: src, CapacityBlocks: scoring.Blocks(max(1, t.capacity/t.blockTokens))}),
	}
	f.slot = slotModel{blockTokens: int(t.blockTokens), routed: src == prefix.Routed}
	f.slot.void(f.host.w.now)
	f.host.ref.SetPlace(f.place)
	f.subscribe()
}

func (f *feed) leave() {
	if f.place == nil {
		return
	}
	f.host.ref.SetPlace(nil)
	f.place.Index.Remove(f.place.Slot)
	f.host.w.indexes.Leave(f.place.BlockTokens)
	f.place = nil
	f.slot.void(f.host.w.now)
}

func (f *feed) void() {
	if f.place != nil {
		f.place.Index.Void(f.place.Slot)
		f.slot.void(f.host.w.now)
	}
}

// forget voids the slot and begins anew.
func (f *feed) forget() {
	if f.place != nil {
		f.unsubscribe()
		f.broke()
	}
}

func (f *feed) unsubscribe() {
	f.run++
	f.open = false
}

// subscribe asks for all that the cache holds and what comes after it.
func (f *feed) subscribe() {
	if f.place == nil || !f.host.ref.Capabilities.KVEvents {
		return
	}
	f.run++
	w, p := f.host.w, f.host.p
	f.began = w.now
	if !p.alive || p.frozen() {
		f.broke()
		return
	}
	events, seq := p.snapshot()
	f.open, f.life, f.next = true, p.lives, seq+1
	f.arrives = max(f.arrives, w.now+w.network())
	e := w.at(f.arrives, evBatch)
	e.host, e.n, e.msg = f.host, f.run, &batch{seq: seq, reset: true, events: events}
}

// publish is the engine's: it sends a batch to whoever has subscribed, which may come to harm on its way.
func (f *feed) publish(p *process, events []prefix.Event) {
	if !f.open || f.life != p.lives {
		return
	}
	w := f.host.w
	w.kvBatches++
	b := &batch{seq: p.batches, events: slices.Clone(events)}
	trouble := p.trouble
	p.trouble = NumFaults
	at := max(f.arrives, w.now+w.network())
	send := func(at time.Duration, b *batch) {
		e := w.at(at, evBatch)
		e.host, e.n, e.msg = f.host, f.run, b
	}
	switch trouble {
	case KVLost:
		return
	case KVDoubled:
		send(at, b)
		at = max(at, w.now+w.network())
	case KVReordered:
		send(at+w.between(0, 200*time.Millisecond), b)
		return
	case KVGarbled:
		b = &batch{seq: b.seq, garbled: true}
	case KVDelayed:
		at += w.between(0, 2*time.Second)
	case Kill, Restart, Stop, HungCore, Slow, ServerError, Shed, Distrust, ErrorFrame, Cut, MissingFinish, PanicReplica, PanicRouter,
		ClockJump, ClientLeaves, SlowClient, Drain, Add, NumFaults: // it comes to no harm
	}
	f.arrives = at
	send(at, b)
}

// arrive applies a batch if it is the next one. A hole is made good by a new subscription.
func (f *feed) arrive(run uint64, b *batch) {
	w := f.host.w
	if plant := w.cfg.Plant; plant != nil && plant.batch != nil {
		plant.batch(f, run, b)
	}
	if run != f.run || !f.open {
		return
	}
	switch {
	case b.reset:
		f.place.Index.Void(f.place.Slot)
		f.slot.void(w.now)
		f.apply(b)
		f.host.box.post(&f.host.box, replica.FeedReady{Incarnation: f.tuned.incarnation})
	case !b.garbled && b.seq < f.next:
	case b.garbled || b.seq > f.next:
		w.note(noteGap, f.host.n, f.next, b.seq)
		f.void()
		f.unsubscribe()
		f.broke()
	default:
		f.next++
		f.apply(b)
	}
}

func (f *feed) apply(b *batch) {
	f.place.Index.Apply(f.place.Slot, b.events)
	f.slot.apply(f.host.w.now, b.events)
}

// lose is the end of the publisher.
func (f *feed) lose() {
	if f.open {
		e := f.host.w.in(f.host.w.network(), evFeedBroke)
		e.host, e.n = f.host, f.run
	}
}

// broke waits and subscribes anew.
func (f *feed) broke() {
	w := f.host.w
	f.open = false
	if f.place != nil {
		f.void()
	}
	if w.now-f.began > feedCap {
		f.retry = feedFirst
	}
	if !f.host.ref.Capabilities.KVEvents {
		return
	}
	e := w.in(f.retry, evSubscribe)
	e.host, e.n = f.host, f.run
	f.retry = min(2*f.retry, feedCap)
}

// learn notes what an engine without events now holds.
func (f *feed) learn(m replica.Learned) {
	if f.place == nil || f.host.ref.Capabilities.KVEvents {
		return
	}
	ns := prefix.Namespace{Model: modelName, LoRA: m.LoRA, Salt: m.Salt}
	tokens := slices.Concat(m.Prompt, m.Output)
	f.place.Index.Routed(f.place.Slot, prefix.AppendKeys(nil, ns.Seed(), tokens, int(f.place.BlockTokens)))
	f.slot.routedTo(f.host.w.now, m.Salt, tokens)
}
