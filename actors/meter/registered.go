package meter

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// other is the label value that those share that are not told apart.
const other = "other"

// Registered is a replica that is in the fleet, from [Meter.Register] until Close: as long as there are series of it. After
// that whoever still holds its name or a handle of it reports to nobody. It is safe for concurrent use.
type Registered struct {
	m     *Meter
	name  string
	label string // the name, or other
	model string

	closed bool // guarded by replicaSet.mu
}

// replicaSet owns the label values of replicas: no series of one is made but while it is registered.
type replicaSet struct {
	max    int
	series []interface { // all metrics with a replica's label
		DeletePartialMatch(labels prometheus.Labels) int
	}

	mu   sync.RWMutex // held to read while a series may be made
	open map[string]*Registered
}

// Register takes a replica in. One of the same name that is in is closed: names differ within a fleet.
func (m *Meter) Register(replica, model string) *Registered {
	if m == nil {
		return nil
	}
	s := &m.replicas
	r := &Registered{m: m, name: replica, label: replica, model: m.models.value(model)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.open[replica]; before != nil {
		s.close(before)
	}
	apart := 0
	for _, o := range s.open {
		if o.label == o.name {
			apart++
		}
	}
	if apart >= s.max {
		r.label = other
	}
	s.open[replica] = r
	return r
}

// Close frees the replica's name and deletes its series. Closing again does nothing.
func (r *Registered) Close() {
	if r == nil {
		return
	}
	s := &r.m.replicas
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.closed {
		s.close(r)
	}
}

// close is for who holds mu.
func (s *replicaSet) close(r *Registered) {
	r.closed = true
	delete(s.open, r.name)
	for _, o := range s.open {
		if o.label == r.label {
			return // the series are that one's too
		}
	}
	for _, v := range s.series {
		v.DeletePartialMatch(prometheus.Labels{labelReplica: r.label})
	}
}

// report calls write, which may make series of the replica, unless it is closed.
func (r *Registered) report(write func()) {
	s := &r.m.replicas
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !r.closed {
		write()
	}
}

// reportOf calls write with the label value of a replica that is registered, and not at all for another.
func (s *replicaSet) reportOf(replica string, write func(label string)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.open[replica]; r != nil {
		write(r.label)
	}
}
