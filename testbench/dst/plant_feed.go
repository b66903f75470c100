package dst

import (
	"slices"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// copied are events that outlive the batch in which they came.
func copied(events []prefix.Event) []prefix.Event {
	events = slices.Clone(events)
	for i := range events {
		e := &events[i]
		e.Hashes, e.Tokens, e.Extras = slices.Clone(e.Hashes), slices.Clone(e.Tokens), slices.Clone(e.Extras)
		if e.Parent != nil {
			e.Parent = new(*e.Parent)
		}
	}
	return events
}

func feedPlants() []Plant {
	return []Plant{
		{Name: "old feed's event after removal", Catches: Index, batch: func(l *link, b engine.KVBatch, take func(engine.KVBatch)) {
			take(b)
			f := l.feed
			if f.latestOf != l {
				f.stray, f.latest, f.latestOf = f.latest, nil, l
			}
			if f.shown == nil || f.state == fleet.IndexApproximate || len(b.Events) == 0 {
				return
			}
			if f.stray != nil && b.State != engine.KVReplaying { // of the subscription before, whose slot is gone
				f.shown.Index.Apply(f.shown.Slot, f.stray)
				f.stray = nil
			}
			f.latest = copied(b.Events)
		}},
		{Name: "a gap ignored", Catches: Index, published: func(l *link, seq uint64) uint64 {
			switch {
			case l.applied.life != l.life:
				l.skew = 0
			case l.asked == 0 && seq > l.applied.count:
				l.skew += seq - l.applied.count
			}
			return seq - min(seq, l.skew)
		}},
		{Name: "a replay applied twice", Catches: Index, batch: func(_ *link, b engine.KVBatch, take func(engine.KVBatch)) {
			take(b)
			if b.State == engine.KVReplaying && len(b.Events) > 0 {
				b.Reset = false
				take(b)
			}
		}},
		{Name: "void ignored when the engine is down", Catches: Index, toFeed: func(_ *feed, message any) any {
			if _, ok := message.(voiding); ok {
				return nil
			}
			return message
		}},
		{Name: "another life's feed goes on", Catches: Index, toFeed: func(f *feed, message any) any {
			if m, ok := message.(tuning); ok && f.link != nil && m.incarnation != f.last.incarnation {
				return nil
			}
			return message
		}},
		{Name: "void ignored at a restart", Catches: Index, batch: func(_ *link, b engine.KVBatch, take func(engine.KVBatch)) {
			b.Reset = false
			take(b)
		}},
	}
}
