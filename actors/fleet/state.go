package fleet

// State is where a replica is in its life.
type State uint8

const (
	Starting State = iota // never seen alive
	Warming               // alive, and about to serve
	Ready                 // serving; with a quota of seats at first (Snapshot.QuotaSeats), and not while it is suspected
	Degraded              // alive, but refuses all of us (a key, a missing model), is of another model, or does not tell what it holds
	Draining              // takes nothing new
	Down                  // nobody answers, or it hangs, or it breaks whatever it is sent (Snapshot.Hung); probed with back-off
	Gone                  // drained; its actor ends

	NumStates
)

// traits say what a state means for others, and how it ends. All changes are made by the replica's machine.
type traits struct {
	name       string
	routable   bool // new reservations are granted
	legsStay   bool // running attempts may go on
	indexValid bool // its overlap counts
	exits      exits
}

// exits are the states that may follow, and on what.
type exits map[State]string

const (
	onProbe    = "a probe is answered"
	onNoAnswer = "probes fail, it hangs (a canary was late), or it breaks attempt after attempt"
	onRefusal  = "it refuses us, or tells nothing of what it holds"
	onDrain    = "an operator's order"
)

// table is the one place that says what each state means.
var table = [NumStates]traits{
	Starting: {"starting", false, false, false, exits{
		Warming: onProbe, Degraded: onRefusal, Down: "a probe fails", Draining: onDrain, Gone: onDrain + ": nothing runs there",
	}},
	Warming: {"warming", false, true, false, exits{
		Ready: "the cache feed has begun, or Config.FeedWait is over", Degraded: onRefusal, Down: onNoAnswer, Draining: onDrain,
	}},
	Ready: {"ready", true, true, true, exits{
		Warming: "the engine was restarted", Degraded: onRefusal, Down: onNoAnswer, Draining: onDrain,
	}},
	Degraded: {"degraded", false, true, true, exits{
		Warming: onProbe + ", after a time that doubles", Down: onNoAnswer, Draining: onDrain,
	}},
	Draining: {"draining", false, true, true, exits{
		Warming: onDrain + " taken back", Down: onDrain + " taken back, while it does not answer", Gone: "nothing runs there any more",
	}},
	Down: {"down", false, false, false, exits{
		Warming: onProbe + "; after a hang a canary, or a token", Degraded: onRefusal, Draining: onDrain, Gone: onDrain + ": nothing runs there",
	}},
	Gone: {"gone", false, false, false, exits{}},
}

// Exit says on what a state is left for another; false: it never is.
func (s State) Exit(to State) (on string, ok bool) {
	on, ok = table[s].exits[to]
	return on, ok
}

// String returns the state's name for logs, metrics and health reports.
func (s State) String() string { return table[s].name }

// Routable says whether new work may go there.
func (s State) Routable() bool { return table[s].routable }

// LegsStay says whether attempts that run there may go on.
func (s State) LegsStay() bool { return table[s].legsStay }

// IndexValid says whether what the index holds of it counts.
func (s State) IndexValid() bool { return table[s].indexValid }
