package dst

import (
	"fmt"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// IndexSeen counts what the feeds of a run went through, and how often they were held against the engines.
type IndexSeen struct {
	Entered    [fleet.NumIndexStates]uint64 // states
	Returned   uint64                       // from approximate to what events tell
	Distrusted uint64                       // built anew
	Live       uint64                       // comparisons of a prompt with what was published, of feeds that say they know all of it
	Less       uint64                       // of others that follow events
	Exact      uint64                       // feeds that at the end held all that their engine did
}

// Add adds another run's counts.
func (s *IndexSeen) Add(o *IndexSeen) {
	for i := range s.Entered {
		s.Entered[i] += o.Entered[i]
	}
	s.Returned += o.Returned
	s.Distrusted += o.Distrusted
	s.Live += o.Live
	s.Less += o.Less
	s.Exact += o.Exact
}

// promptsCompared is how many prompts a slot is asked for after each batch.
const promptsCompared = 4

// took compares the slot with what was published up to the batch that it was given last: it claims nothing more, and all of
// it if it says that it is live.
func (f *feed) took(l *link, b engine.KVBatch) {
	w := f.w
	if b.Gap {
		w.note(noteGap, f.host.n, b.Seq, uint64(b.State))
	}
	if f.shown == nil || f.state == fleet.IndexApproximate {
		return // nobody sees the slot
	}
	if b.Reset {
		f.slot.turn(w.now)
	}
	f.note()
	if at := l.applied.life; at != nil && at.number < f.born[f.shown.Incarnation] {
		w.violate(Index, "%s is told of life %d of its engine, and life %d was known of when its feed began", f.host.id, at.number, f.born[f.shown.Incarnation])
	}
	for range min(promptsCompared, len(f.sent)) {
		f.seen++
		c := f.sent[f.seen*31%len(f.sent)]
		blocks := c.promptNames(0)
		least := 0
		switch b.State {
		case engine.KVLive:
			least = l.applied.sure(blocks)
			w.index.Live++
		case engine.KVPartial:
			least = l.told.sure(blocks)
			w.index.Less++
		case engine.KVReplaying, engine.NumKVStates:
			w.index.Less++
		}
		f.unsent(c)
		got, most := f.overlap(blocks), f.slot.now(w.now, blocks)
		if got < least || got > max(most, least) {
			w.violate(Index, "%s: of call %d its index holds %d blocks, at least %d and at most %d were published: %s",
				f.host.id, c.n, got, least, most, l.applied)
		}
	}
}

// void looks whether the index claims nothing.
func (f *feed) void() {
	w := f.w
	if f.shown == nil {
		return
	}
	n := min(16, len(f.sent))
	for i := range n {
		c := f.sent[len(f.sent)*(i+1)/n-1]
		if got := f.overlap(c.promptNames(0)); got > 0 {
			w.violate(Index, "%s: of call %d its index holds %d blocks after it was told that nothing it knows counts", f.host.id, c.n, got)
		}
	}
}

// String says how far a subscription has come.
func (p position) String() string {
	if p.life == nil {
		return "nothing"
	}
	return fmt.Sprintf("%d of %d batches of life %d", p.count, p.life.published, p.life.number)
}

// overlap is how many blocks of a sequence the index says the replica holds.
func (f *feed) overlap(blocks []prefix.Key) int {
	w := f.w
	w.held = f.shown.Index.Match(w.time(), blocks, w.held)
	return int(w.held[f.shown.Slot].Device)
}

// staleBeyond is how long a feed may take to draw a conclusion.
const staleBeyond = 300 * time.Millisecond

// stale looks whether what is known of a life that is over counts for longer than it may.
func (f *feed) stale() {
	w, l := f.w, f.link
	if l == nil {
		return
	}
	if f.state == fleet.IndexApproximate && l.flowed != none && w.now-l.flowed > returnsWithin {
		w.violate(Index, "%s: events flow again since %s, and its index is approximate", f.host.id, w.now-l.flowed)
	}
	if l.ended != none && w.now-l.ended > staleBeyond {
		w.violate(Index, "%s: its feed has not noticed that its subscription has ended", f.host.id)
	}
	at := l.applied.life
	if at == nil || l.turned == none || l.up && (!at.over || f.host.p.pub.orphan || l.turned < at.ended) {
		return // or no connection has told of its end
	}
	bound := staleBeyond
	if f.host.p.pub.replays {
		bound += f.cfg.ReplayTimeout // a proof is hoped for
	}
	if since := w.now - l.turned; since > bound {
		w.violate(Index, "%s: its index still tells of life %d of its engine, %s after the connection to it broke", f.host.id, l.applied.life.number, since)
	}
}

// returnsWithin is how long it takes at most until events that flow again are believed.
const returnsWithin = 500 * time.Millisecond

// follows says whether an index in a state follows events.
func follows(s fleet.IndexState) bool {
	return s == fleet.IndexLive || s == fleet.IndexPartial || s == fleet.IndexReplaying
}

// returns looks whether the events that take the place of what was routed are worth it.
func (f *feed) returns() {
	if l := f.link; l == nil || !l.rebuilt {
		f.w.violate(Index, "%s: its index follows events that do not say yet what its engine holds", f.host.id)
	}
}

// learned looks whether what was sent to an engine without events is known.
func (f *feed) learned(m *fleet.Learned) {
	if f.shown == nil || f.state != fleet.IndexApproximate {
		return
	}
	blocks := names(m.LoRA, m.Salt, m.Prompt)
	if got := f.overlap(blocks); got < len(blocks) {
		f.w.violate(Index, "%s: its index holds %d of %d blocks that it was told of just now", f.host.id, got, len(blocks))
	}
}

// waits says what is still to come of a feed whose engine is well; "": nothing.
func (f *feed) waits() string {
	now := f.host.p.pub.life()
	if life := f.host.ref.Snapshot().Incarnation; f.shown != nil && f.shown.Incarnation != life {
		return fmt.Sprintf("it is of life %d, and now is %d", f.shown.Incarnation, life)
	}
	switch f.state {
	case fleet.IndexApproximate:
		return "" // it takes events to tell that they flow again
	case fleet.IndexPartial:
		if f.host.p.pub.replays && now.kept0 == 0 {
			return "it could be asked for what it does not know"
		}
	case fleet.IndexLive:
	case fleet.IndexNone, fleet.IndexVoid, fleet.IndexReplaying, fleet.NumIndexStates:
		return "nothing is known"
	}
	if f.state == fleet.IndexPartial && f.link.applied.life == nil && f.link.missed == now.published {
		return "" // it came too late for all of them
	}
	if !f.link.applied.told(now) {
		return fmt.Sprintf("it was told %s, and there are %d of life %d", f.link.applied, now.published, now.number)
	}
	return ""
}

// checkIndex compares what the index says with what the engine holds, for the prompts of some requests.
func (w *world) checkIndex(h *host) {
	f := &h.feed
	if !h.ref.Capabilities.KVEvents || f.state == fleet.IndexApproximate {
		return
	}
	truth := position{&life{account: accountOf(h.p.m.Snapshot())}, 1}
	live := f.state == fleet.IndexLive
	for _, c := range f.sent {
		blocks := c.promptNames(0)
		least, most := 0, 0
		for most < len(blocks) && (truth.had(blocks[most]) || f.slot.claimed(w.now, most, blocks[most])) {
			most++
		}
		if live {
			for least < most && truth.had(blocks[least]) && least < f.link.applied.sure(blocks) {
				least++
			}
		}
		if got := f.overlap(blocks); got < least || got > most {
			w.violate(Index, "%s: of call %d its index (%s) holds %d blocks, and its engine %d to %d", h.id, c.n, f.state, got, least, most)
		}
	}
	if live {
		w.index.Exact++
	}
}
