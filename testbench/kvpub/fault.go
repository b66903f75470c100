package kvpub

import "math/rand/v2"

// BatchFault is what happens to one batch on its way to the subscribers.
type BatchFault uint8

// Faults of a batch.
const (
	Deliver BatchFault = iota // none
	Drop                      // it is not sent, and can be asked for
	Lose                      // it is neither sent nor kept: only its number is spent
	Double                    // it is sent twice
	Reorder                   // it is sent after the next one
	Delay                     // it waits and is sent before the next one
	Garble                    // what is sent cannot be read; what is kept can
	Sever                     // all connections break, and it is sent to nobody

	NumBatchFaults
)

// ReplayFault is what happens to one answer of the replay socket.
type ReplayFault uint8

// Faults of a replay.
const (
	Answer  ReplayFault = iota // none
	Silent                     // no answer
	Partial                    // the older half of what was asked for is gone
	Broken                     // it stops half way, without an end
	Late                       // it comes after the next batch

	NumReplayFaults
)

// Plan says what goes wrong. It is asked under the publisher's lock: by one goroutine at a time, and it must not call back.
type Plan interface {
	Batch(seq uint64) BatchFault
	Replay(start uint64) ReplayFault
}

// Calm is the plan in which nothing goes wrong.
type Calm struct{}

// Batch implements [Plan].
func (Calm) Batch(uint64) BatchFault { return Deliver }

// Replay implements [Plan].
func (Calm) Replay(uint64) ReplayFault { return Answer }

// Dice is the plan in which faults come at random, each with a probability of its own. What is left is the probability that
// nothing goes wrong.
type Dice struct {
	Rand    *rand.Rand
	Batches [NumBatchFaults]float64
	Replays [NumReplayFaults]float64
}

// Batch implements [Plan].
func (d *Dice) Batch(uint64) BatchFault {
	return BatchFault(draw(d.Rand, d.Batches[:])) //nolint:gosec // an index of the array
}

// Replay implements [Plan].
func (d *Dice) Replay(uint64) ReplayFault {
	return ReplayFault(draw(d.Rand, d.Replays[:])) //nolint:gosec // likewise
}

// draw returns an index by the weights; 0 if none comes up.
func draw(rng *rand.Rand, weights []float64) int {
	x := rng.Float64()
	for i, w := range weights {
		if x -= w; x < 0 {
			return i
		}
	}
	return 0
}
