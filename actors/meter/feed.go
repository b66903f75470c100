package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

type feedMetrics struct {
	state                  *prometheus.GaugeVec
	events, skipped, left  *prometheus.CounterVec
	gaps, replays, voids   *prometheus.CounterVec
	lag                    *prometheus.GaugeVec
	predicted, reported    *prometheus.CounterVec
	over                   *prometheus.HistogramVec
	blocks, orphans, holes *prometheus.GaugeVec
}

func newFeedMetrics(b builder) feedMetrics {
	return feedMetrics{
		state:     b.gauge(feedState),
		events:    b.counter(feedEvents),
		skipped:   b.counter(feedSkipped),
		left:      b.counter(feedLeftOut),
		gaps:      b.counter(feedGaps),
		replays:   b.counter(feedReplays),
		voids:     b.counter(feedVoids),
		lag:       b.gauge(feedLag),
		predicted: b.counter(feedPredicted),
		reported:  b.counter(feedReported),
		over:      b.histogram(feedOver, overBuckets()),
		blocks:    b.gauge(feedBlocks),
		orphans:   b.gauge(feedOrphans),
		holes:     b.gauge(feedHoles),
	}
}

// overBuckets are symmetric: less predicted than found is negative.
func overBuckets() []float64 {
	return []float64{-65536, -16384, -4096, -1024, -256, -64, -16, -1, 0, 15, 63, 255, 1023, 4095, 16383, 65535}
}

// Feed is what one replica's KV feed reports to. Batch is for one goroutine at a time, State and Index for another; the rest
// is safe for concurrent use.
type Feed struct {
	of                   *Registered
	m                    *feedMetrics
	events               [prefix.NumEventKinds]prometheus.Counter
	skipped              [engine.NumKVSkips]prometheus.Counter
	gaps, replays, voids prometheus.Counter
	lag                  prometheus.Gauge
	predicted, reported  prometheus.Counter
	over                 prometheus.Observer
	left                 [len(leftOut)]prometheus.Counter
	blocks               [prefix.NumTiers]prometheus.Gauge
	orphans, holes       prometheus.Gauge

	replaying bool         // as of the last batch
	last      prefix.Stats // what Index was given last
}

// Labels of what is counted by kind.
var (
	eventLabels = [prefix.NumEventKinds]string{prefix.Stored: "stored", prefix.Removed: "removed", prefix.Cleared: "cleared"}
	tierLabels  = [prefix.NumTiers]string{prefix.Device: "device", prefix.Host: "host", prefix.Disk: "disk"}
	skipLabels  = [engine.NumKVSkips]string{
		engine.KVSkipFrames: "frames", engine.KVSkipBatch: "batch", engine.KVSkipEvent: "event",
		engine.KVSkipUnknownType: "unknown_type", engine.KVSkipOldLife: "old_life",
	}
)

// leftOut are the reasons for which the index leaves something out.
var leftOut = [...]string{
	"other_block_size", "other_attention", "malformed", "conflict", "unknown_name", "offload_full", "orphan_dropped", "unknown_removal",
}

// countsOf are the index's counters, in the order of leftOut.
func countsOf(s prefix.Stats) [len(leftOut)]uint64 {
	return [...]uint64{
		s.OtherBlockSize, s.OtherAttention, s.Malformed, s.Conflicts, s.UnknownNames, s.OffloadFull, s.OrphansDropped, s.UnknownRemovals,
	}
}

// Feed returns the handle of the replica's KV feed.
func (r *Registered) Feed() (f *Feed) {
	if r == nil {
		return nil
	}
	r.report(func() { f = newFeed(r) })
	return f
}

func newFeed(r *Registered) *Feed {
	m, replica := r.m, r.label
	f := &Feed{
		of: r, m: &m.feed,
		gaps:      m.feed.gaps.WithLabelValues(replica),
		replays:   m.feed.replays.WithLabelValues(replica),
		voids:     m.feed.voids.WithLabelValues(replica),
		lag:       m.feed.lag.WithLabelValues(replica),
		predicted: m.feed.predicted.WithLabelValues(replica),
		reported:  m.feed.reported.WithLabelValues(replica),
		over:      m.feed.over.WithLabelValues(replica),
		orphans:   m.feed.orphans.WithLabelValues(replica),
		holes:     m.feed.holes.WithLabelValues(replica),
	}
	for i, reason := range leftOut {
		f.left[i] = m.feed.left.WithLabelValues(replica, reason)
	}
	for tier, label := range tierLabels {
		f.blocks[tier] = m.feed.blocks.WithLabelValues(replica, label)
	}
	for kind, label := range eventLabels {
		f.events[kind] = m.feed.events.WithLabelValues(replica, label)
	}
	for reason, label := range skipLabels {
		f.skipped[reason] = m.feed.skipped.WithLabelValues(replica, label)
	}
	return f
}

// State reports the state of the replica's part of the index, one of words.
func (f *Feed) State(state string, words []string) {
	if f == nil {
		return
	}
	f.of.report(func() {
		for _, w := range words {
			on := 0.0
			if w == state {
				on = 1
			}
			f.m.state.WithLabelValues(f.of.label, w).Set(on)
		}
	})
}

// Batch counts what a batch brought that came now.
func (f *Feed) Batch(now time.Time, b engine.KVBatch) {
	if f == nil {
		return
	}
	var kinds [prefix.NumEventKinds]int
	for i := range b.Events {
		if kind := b.Events[i].Kind; kind < prefix.NumEventKinds {
			kinds[kind]++
		}
	}
	for kind, n := range kinds {
		if n > 0 {
			f.events[kind].Add(float64(n))
		}
	}
	for reason, n := range b.Skipped {
		if n > 0 {
			f.skipped[reason].Add(float64(n))
		}
	}
	if b.Gap {
		f.gaps.Inc()
	}
	replaying := b.State == engine.KVReplaying
	if replaying && !f.replaying {
		f.replays.Inc()
	}
	f.replaying = replaying
	if !b.At.IsZero() {
		f.lag.Set(max(0, now.Sub(b.At).Seconds()))
	}
}

// Distrusted counts a part of the index that was voided because the engine kept finding less in its cache.
func (f *Feed) Distrusted() {
	if f != nil {
		f.voids.Inc()
	}
}

// Index reports what the index holds of the replica and what it has left out since its slot was taken; what is new since the
// last call is added. Counters that go back are those of another slot.
func (f *Feed) Index(s prefix.Stats) {
	if f == nil {
		return
	}
	f.blocks[prefix.Device].Set(float64(s.Blocks))
	f.blocks[prefix.Host].Set(float64(s.HostBlocks))
	f.blocks[prefix.Disk].Set(float64(s.DiskBlocks))
	f.orphans.Set(float64(s.Orphans))
	f.holes.Set(float64(s.Holes))
	before, now := countsOf(f.last), countsOf(s)
	f.last = s
	for i, n := range now {
		if n >= before[i] {
			n -= before[i]
		}
		f.left[i].Add(float64(n))
	}
}

// Cached reports the cached prompt tokens that were predicted for a request and what its engine said.
func (f *Feed) Cached(predicted, reported int) {
	if f != nil {
		f.predicted.Add(float64(predicted))
		f.reported.Add(float64(reported))
		f.over.Observe(float64(predicted - reported))
	}
}
