package dst

// Fault is a kind of trouble.
type Fault uint8

// drawnFaults is how many kinds a seed's generator draws from; those behind them have generators of their own.
const drawnFaults = Undrain

// Kinds of trouble.
const (
	Kill          Fault = iota // the process dies and comes back after a while at the same address
	Restart                    // the process dies and another one listens there at once
	Stop                       // SIGSTOP: the process answers nothing, until SIGCONT
	HungCore                   // the engine's core hangs, its server goes on answering probes
	Slow                       // forward passes take many times as long
	ServerError                // new requests get a 5xx
	Shed                       // new requests get a 429 or 503
	Distrust                   // new requests get a 401
	ErrorFrame                 // a stream ends with an error frame
	Cut                        // a stream's connection is reset
	MissingFinish              // a stream ends cleanly without a finish
	PanicReplica               // a replica's actor panics: another epoch
	PanicRouter                // the router panics
	KVLost                     // a batch of cache events is lost
	KVDoubled                  // it comes twice
	KVReordered                // it comes after its successors
	KVGarbled                  // it can't be read
	KVDelayed                  // it comes late
	ClockJump                  // the wall clock jumps
	ClientLeaves               // a client closes its connection
	SlowClient                 // a client reads nothing
	Drain                      // a replica is drained and leaves
	Add                        // a replica joins
	Undrain                    // a replica that was drained to stay is asked back
	RefuseOne                  // an engine refuses one request as if it refused us
	ForAnHour                  // an engine sheds a request and asks to be left alone for an hour
	Trailing                   // an answer goes on after its finish
	LongStep                   // a forward pass takes half a minute

	NumFaults
)

var faultNames = [NumFaults]string{
	"kill", "restart", "stop", "hung core", "slow", "5xx", "shed", "distrust", "error frame", "cut", "missing finish",
	"panic replica", "panic router", "kv lost", "kv doubled", "kv reordered", "kv garbled", "kv delayed", "clock jump",
	"client leaves", "slow client", "drain", "add", "undrain", "refuse one", "for an hour", "trailing", "long step",
}

// String returns the fault's name in logs and tables.
func (f Fault) String() string { return faultNames[f] }

// Phase is where a leg stands when a fault happens.
type Phase uint8

// Phases of a leg.
const (
	Queued   Phase = iota // waits for a place, tokenization included
	Prefill               // has a place and no token
	Decode                // has tokens
	Resuming              // lost its engine after a token, and has none of another one yet
	Draining              // its replica drains

	NumPhases
)

var phaseNames = [NumPhases]string{"queued", "prefill", "decode", "resuming", "draining"}

// String returns the phase's name in logs and tables.
func (p Phase) String() string { return phaseNames[p] }

// Coverage counts how often a leg was in a phase when a fault happened.
type Coverage [NumFaults][NumPhases]uint64

// Add adds another run's counts.
func (c *Coverage) Add(o *Coverage) {
	for f := range c {
		for p := range c[f] {
			c[f][p] += o[f][p]
		}
	}
}
