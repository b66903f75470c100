package tokenize

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
)

// Messages to a pool beside stream.Submit, stream.Withdraw and stream.Inquire, which calls send.
type (
	// Tokenize asks for an input's prompts without running it. From the edge; answered once on Reply.
	Tokenize struct {
		Input  stream.Input
		Tenant string
		Class  queue.Class
		Reply  chan<- Tokenized // of capacity 1
	}
	// Abandon takes a Tokenize back: nobody waits for its answer. From who sent it.
	Abandon struct{ Of *Tokenize }
	// ran is what has come of a job's step. From the worker.
	ran struct {
		job    *job
		result result
		took   time.Duration
	}
	// ready: a worker can run a step of its lane. From the worker, at its start and after each one.
	ready struct {
		worker   *actor.PID
		lane     Lane
		instance uint64
	}
	// gateOpen: a slot of the node may be free. From the gate.
	gateOpen struct{}
)

// run is a step of a job for a worker.
type run struct {
	job  *job
	slot *slot
}

// Tokenized answers Tokenize.
type Tokenized struct {
	Prompts []stream.Prompt
	Err     error
}

// answer replies once: a second answer, of an instance that failed after the first, is dropped.
func (t *Tokenize) answer(r Tokenized) {
	select {
	case t.Reply <- r:
	default:
	}
}
