package replica

// State is where a replica is in its life.
type State uint8

const (
	Starting State = iota // never seen alive; left for Warming when a probe succeeds
	Warming               // alive; left for Ready when the cache feed has begun, or after Config.FeedWait
	Ready                 // serving; left for Degraded, Draining or Down
	Degraded              // alive but refuses us (key, missing model); left for Warming when a probe succeeds
	Draining              // takes nothing new until it is empty; left for Gone
	Down                  // nobody answers; probed with back-off; left for Warming when a probe succeeds
	Gone                  // drained; left by nobody

	NumStates
)

// traits say what a state means for others.
type traits struct {
	name       string
	routable   bool // new reservations are granted
	legsStay   bool // running attempts may go on
	indexValid bool // its overlap counts
}

// table is the one place that says what each state means.
var table = [NumStates]traits{
	Starting: {"starting", false, false, false},
	Warming:  {"warming", false, true, false},
	Ready:    {"ready", true, true, true},
	Degraded: {"degraded", false, true, true},
	Draining: {"draining", false, true, true},
	Down:     {"down", false, false, false},
	Gone:     {"gone", false, false, false},
}

// String returns the state's name for logs, metrics and health reports.
func (s State) String() string { return table[s].name }

// Routable says whether new work may go there.
func (s State) Routable() bool { return table[s].routable }

// LegsStay says whether attempts that run there may go on.
func (s State) LegsStay() bool { return table[s].legsStay }

// IndexValid says whether what the index holds of it counts.
func (s State) IndexValid() bool { return table[s].indexValid }
