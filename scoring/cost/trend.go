package cost

import "plimsoll/scoring"

// trend is how a replica's steps compare with what its own past predicts for them, of late.
type trend struct {
	n    int     // as far as trendEnough
	late float64 // of the last steps: measured over predicted, the newest weighing trendNew
}

const (
	// trendAfter is how many runs of steps a replica's past must hold before anything is compared with it.
	trendAfter = 32
	trendNew   = 0.2
	// pastKeep is what a run of steps weighs in that past after one more: some 2000 are remembered.
	pastKeep = 0.9995
	// pastMost is how many times as long as predicted a run may count there: what is to be judged by the past must not become
	// it at once.
	pastMost = 2
	// trendEnough is how many must have been compared before their mean means something.
	trendEnough = 16
)

func (t *trend) observe(ratio float64) {
	if t.n == 0 {
		t.late = 1
	}
	t.late += trendNew * (ratio - t.late)
	t.n = min(t.n+1, trendEnough)
}

// Slowdown is how many times as long as its own past predicts a replica's steps take of late; 1 while too little is known.
// It is not compared with others: a slow device is no sick one.
func (l *Learner) Slowdown(id scoring.ReplicaID) float64 {
	o := l.replicas[id]
	if o == nil || o.pace.n < trendEnough {
		return 1
	}
	return o.pace.late
}

// Forgive forgets how a replica's steps compared with its past; the past stays.
func (l *Learner) Forgive(id scoring.ReplicaID) {
	if o := l.replicas[id]; o != nil {
		o.pace = trend{}
	}
}
