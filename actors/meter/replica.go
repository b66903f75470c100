package meter

import (
	"strings"

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
	}
}

// Replica is what one replica's actor reports to. The methods that a ledger's figures go to (Load, Counters) are not for
// concurrent use; the others are safe for it.
type Replica struct {
	m           *replicaMetrics
	name, model string
	gauges      [8]prometheus.Gauge
	last        ledger.Counters // what Counters was given last
}

// Replica returns the handle of a replica. An actor takes a new one for each of its epochs, because the counters of a new
// ledger start at zero.
func (m *Meter) Replica(name, model string) *Replica {
	if m == nil {
		return nil
	}
	name, model = m.replicas.value(name), m.models.value(model)
	r := &Replica{m: &m.replica, name: name, model: model}
	for i, v := range [...]*prometheus.GaugeVec{
		m.replica.booked, m.replica.lingering, m.replica.capacity, m.replica.seats, m.replica.seatsUsed,
		m.replica.overdraft, m.replica.foreign, m.replica.prefill,
	} {
		r.gauges[i] = v.WithLabelValues(name, model)
	}
	return r
}

// State reports the state the replica is in now, in its actor's word for it.
func (r *Replica) State(state string) {
	if r == nil {
		return
	}
	for _, s := range replicaStates {
		on := 0.0
		if s == state {
			on = 1
		}
		r.m.state.WithLabelValues(r.name, r.model, s).Set(on)
	}
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
	for reason := range ledger.NumEndReasons {
		if n := c.Ends[reason] - r.last.Ends[reason]; n > 0 {
			r.m.ends.WithLabelValues(r.name, r.model, reason.String()).Add(float64(n))
		}
	}
	for reason := range ledger.NumReasons {
		if n := c.Refusals[reason] - r.last.Refusals[reason]; n > 0 {
			r.m.refusals.WithLabelValues(r.name, r.model, strings.ReplaceAll(reason.String(), " ", "_")).Add(float64(n))
		}
	}
	late := c.LateEnds + c.UnknownEnds - r.last.LateEnds - r.last.UnknownEnds
	r.m.lateEnds.WithLabelValues(r.name, r.model).Add(float64(late))
	r.m.foreignAlarm.WithLabelValues(r.name, r.model).Add(float64(c.Alarms - r.last.Alarms))
	r.last = c
}

// Restarted counts a new epoch of the actor.
func (r *Replica) Restarted() {
	if r != nil {
		r.m.restarts.WithLabelValues(r.name, r.model).Inc()
	}
}

// Reborn counts a new incarnation of the engine.
func (r *Replica) Reborn() {
	if r != nil {
		r.m.incarnations.WithLabelValues(r.name, r.model).Inc()
	}
}

// AttemptFailed counts an attempt that its engine failed.
func (r *Replica) AttemptFailed(kind engine.FailKind) {
	if r != nil {
		r.m.failures.WithLabelValues(r.name, r.model, kind.String()).Inc()
	}
}

// Suspected counts a silence that looks like a hang.
func (r *Replica) Suspected() {
	if r != nil {
		r.m.suspicions.WithLabelValues(r.name, r.model).Inc()
	}
}

// Struck counts a strike that took the replica out, by its actor's word for the kind.
func (r *Replica) Struck(kind string) {
	if r != nil {
		r.m.strikes.WithLabelValues(r.name, r.model, kind).Inc()
	}
}

// Canary counts a request for one token that asks whether the engine lives.
func (r *Replica) Canary() {
	if r != nil {
		r.m.canaries.WithLabelValues(r.name, r.model).Inc()
	}
}

// Relaunched counts a process of ours that was given up and started anew.
func (r *Replica) Relaunched() {
	if r != nil {
		r.m.relaunches.WithLabelValues(r.name, r.model).Inc()
	}
}
