package meter

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plimsoll/engine"
	"plimsoll/scoring/ledger"
)

// replicaStates are the states of a replica's life, as its actor names them.
var replicaStates = [...]string{"starting", "warming", "ready", "degraded", "draining", "down", "gone"}

type replicaMetrics struct {
	state                                          *prometheus.GaugeVec
	booked, lingering, capacity, seats, seatsUsed  *prometheus.GaugeVec
	overdraft, foreign, prefill                    *prometheus.GaugeVec
	ends, refusals, failures                       *prometheus.CounterVec
	lateEnds, restarts, incarnations, foreignAlarm *prometheus.CounterVec
	suspicions, strikes, canaries, relaunches      *prometheus.CounterVec
	firstToken, tokenGap                           *prometheus.HistogramVec
}

func newReplicaMetrics(b builder) replicaMetrics {
	return replicaMetrics{
		state:        b.gauge(replicaState),
		booked:       b.gauge(replicaBooked),
		lingering:    b.gauge(replicaLingering),
		capacity:     b.gauge(replicaCapacity),
		seats:        b.gauge(replicaSeats),
		seatsUsed:    b.gauge(replicaSeatsUsed),
		overdraft:    b.gauge(replicaOverdraft),
		foreign:      b.gauge(replicaForeign),
		prefill:      b.gauge(replicaPrefill),
		ends:         b.counter(replicaEnds),
		refusals:     b.counter(replicaRefusals),
		failures:     b.counter(replicaFailures),
		lateEnds:     b.counter(replicaLateEnds),
		restarts:     b.counter(replicaRestarts),
		incarnations: b.counter(replicaIncarnations),
		foreignAlarm: b.counter(replicaForeignAlarms),
		suspicions:   b.counter(replicaSuspicions),
		strikes:      b.counter(replicaStrikes),
		canaries:     b.counter(replicaCanaries),
		relaunches:   b.counter(replicaRelaunches),
		firstToken:   b.histogram(replicaFirstToken, secondsBuckets()),
		tokenGap:     b.histogram(replicaTokenGap, secondsBuckets()),
	}
}

// Replica is what one replica's actor reports to. The methods that a ledger's figures go to (Load, Counters) are not for
// concurrent use; the others are safe for it.
type Replica struct {
	of     *Registered
	m      *replicaMetrics
	gauges [8]prometheus.Gauge

	firstToken, tokenGap prometheus.Observer

	last ledger.Counters // what Counters was given last
}

// Replica returns the handle of the replica. An actor takes a new one for each of its epochs, because the counters of a new
// ledger start at zero.
func (r *Registered) Replica() (w *Replica) {
	if r == nil {
		return nil
	}
	r.report(func() {
		m := &r.m.replica
		w = &Replica{of: r, m: m}
		for i, v := range [...]*prometheus.GaugeVec{
			m.booked, m.lingering, m.capacity, m.seats, m.seatsUsed, m.overdraft, m.foreign, m.prefill,
		} {
			w.gauges[i] = v.WithLabelValues(r.label, r.model)
		}
		w.firstToken, w.tokenGap = m.firstToken.WithLabelValues(r.label, r.model), m.tokenGap.WithLabelValues(r.label, r.model)
		w.zeros()
	})
	return w
}

// zeros has all counters of the replica exist. The caller holds the set of replicas.
func (r *Replica) zeros() {
	name, model, m := r.of.label, r.of.model, r.m
	for _, c := range []*prometheus.CounterVec{m.lateEnds, m.restarts, m.incarnations, m.foreignAlarm, m.suspicions, m.canaries, m.relaunches} {
		c.WithLabelValues(name, model)
	}
	for reason := range ledger.NumEndReasons {
		m.ends.WithLabelValues(name, model, reason.String())
	}
	for reason := ledger.None + 1; reason < ledger.NumReasons; reason++ {
		m.refusals.WithLabelValues(name, model, labelOf(reason))
	}
	for kind := range engine.NumFailKinds {
		m.failures.WithLabelValues(name, model, kind.String())
	}
	for _, kind := range []string{"hang", "breaks"} {
		m.strikes.WithLabelValues(name, model, kind)
	}
}

// labelOf is a ledger's reason as a label.
func labelOf(r ledger.Reason) string { return strings.ReplaceAll(r.String(), " ", "_") }

// FirstToken reports how long an attempt waited for its first token.
func (r *Replica) FirstToken(waited time.Duration) {
	if r != nil {
		r.firstToken.Observe(waited.Seconds())
	}
}

// TokenGaps reports a number of equal gaps between two tokens.
func (r *Replica) TokenGaps(gap time.Duration, times uint32) {
	if r != nil {
		for range times {
			r.tokenGap.Observe(gap.Seconds())
		}
	}
}

// State reports the state the replica is in now, in its actor's word for it.
func (r *Replica) State(state string) {
	if r == nil {
		return
	}
	r.of.report(func() {
		for _, s := range replicaStates {
			on := 0.0
			if s == state {
				on = 1
			}
			r.m.state.WithLabelValues(r.of.label, r.of.model, s).Set(on)
		}
	})
}

// Load reports what the replica is committed to.
func (r *Replica) Load(l ledger.Load) {
	if r == nil {
		return
	}
	for i, v := range [...]float64{
		float64(l.BookedBlocks), float64(l.Lingering), float64(l.Limits.KVBlocks), float64(l.Limits.Seats),
		float64(l.SeatsBooked), float64(l.OverdraftBlocks), float64(l.ForeignBlocks), float64(l.QueuedPrefillTokens),
	} {
		r.gauges[i].Set(v)
	}
}

// Counters reports a ledger's counters since it was made; what is new since the last call is added.
func (r *Replica) Counters(c ledger.Counters) {
	if r == nil {
		return
	}
	r.of.report(func() {
		name, model := r.of.label, r.of.model
		for reason := range ledger.NumEndReasons {
			if n := c.Ends[reason] - r.last.Ends[reason]; n > 0 {
				r.m.ends.WithLabelValues(name, model, reason.String()).Add(float64(n))
			}
		}
		for reason := range ledger.NumReasons {
			if n := c.Refusals[reason] - r.last.Refusals[reason]; n > 0 {
				r.m.refusals.WithLabelValues(name, model, labelOf(reason)).Add(float64(n))
			}
		}
		late := c.LateEnds + c.UnknownEnds - r.last.LateEnds - r.last.UnknownEnds
		r.m.lateEnds.WithLabelValues(name, model).Add(float64(late))
		r.m.foreignAlarm.WithLabelValues(name, model).Add(float64(c.Alarms - r.last.Alarms))
	})
	r.last = c
}

// count adds one to a counter of the replica's; kinds are the values of the labels beside its own.
func (r *Replica) count(c *prometheus.CounterVec, kinds ...string) {
	r.of.report(func() { c.WithLabelValues(append([]string{r.of.label, r.of.model}, kinds...)...).Inc() })
}

// Restarted counts a new epoch of the actor.
func (r *Replica) Restarted() {
	if r != nil {
		r.count(r.m.restarts)
	}
}

// Reborn counts a new incarnation of the engine.
func (r *Replica) Reborn() {
	if r != nil {
		r.count(r.m.incarnations)
	}
}

// AttemptFailed counts an attempt that its engine failed.
func (r *Replica) AttemptFailed(kind engine.FailKind) {
	if r != nil {
		r.count(r.m.failures, kind.String())
	}
}

// Suspected counts a silence that looks like a hang.
func (r *Replica) Suspected() {
	if r != nil {
		r.count(r.m.suspicions)
	}
}

// Struck counts a strike that took the replica out, by its actor's word for the kind.
func (r *Replica) Struck(kind string) {
	if r != nil {
		r.count(r.m.strikes, kind)
	}
}

// Canary counts a request for one token that asks whether the engine lives.
func (r *Replica) Canary() {
	if r != nil {
		r.count(r.m.canaries)
	}
}

// Relaunched counts a process of ours that was given up and started anew.
func (r *Replica) Relaunched() {
	if r != nil {
		r.count(r.m.relaunches)
	}
}
