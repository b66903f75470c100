package kvevents

import (
	"time"

	"plimsoll/engine"
)

// Machine is the order machine of one subscription without the sockets around it, for who brings a clock and a network of
// its own: the simulator. A [Source] drives the very same one. It is pure: batches leave through its sink during a call and
// in order, and what it asks for goes to the call's Replayer before the call returns.
type Machine struct{ m *machine }

// Replayer does what a machine asks for.
type Replayer interface {
	// Replay asks the engine for every batch from a number on, in the place of what was asked for before. The answers carry
	// the attempt.
	Replay(attempt, from uint64)
	// Drop says that the answers to an attempt are of no more use.
	Drop(attempt uint64)
}

// NewMachine returns the machine of a subscription that has heard nothing yet. Of a configuration it takes the bounds and
// times, and whether there is a replay endpoint.
func NewMachine(cfg Config, entropy func() uint64, sink func(engine.KVBatch)) *Machine {
	return &Machine{newMachine(cfg.limits(), entropy, sink)}
}

// Connected says that a publisher is there: the one of before, or another.
func (d *Machine) Connected(now time.Time, to Replayer) { d.step(now, input{kind: connected}, to) }

// Broken says that the connection broke, or could not be made.
func (d *Machine) Broken(now time.Time, to Replayer) { d.step(now, input{kind: broken}, to) }

// Published takes a batch that was published. The payload is read during the call only.
func (d *Machine) Published(now time.Time, seq uint64, payload []byte, to Replayer) {
	d.step(now, input{kind: live, seq: seq, payload: payload}, to)
}

// Replayed takes a batch of a replay. The payload is read during the call only.
func (d *Machine) Replayed(now time.Time, attempt, seq uint64, payload []byte, to Replayer) {
	d.step(now, input{kind: replayed, attempt: attempt, seq: seq, payload: payload}, to)
}

// ReplayEnded takes a replay's end marker.
func (d *Machine) ReplayEnded(now time.Time, attempt uint64, to Replayer) {
	d.step(now, input{kind: replayEnded, attempt: attempt}, to)
}

// ReplayFailed says that a replay broke off, or could not be asked for.
func (d *Machine) ReplayFailed(now time.Time, attempt uint64, to Replayer) {
	d.step(now, input{kind: replayFailed, attempt: attempt}, to)
}

// NextTick is when the machine wants Tick, if at all.
func (d *Machine) NextTick() (time.Time, bool) {
	at := d.m.deadline()
	return at, !at.IsZero()
}

// Tick says that the time has come which NextTick named, or a later one.
func (d *Machine) Tick(now time.Time, to Replayer) { d.step(now, input{kind: tick}, to) }

func (d *Machine) step(now time.Time, in input, to Replayer) {
	for _, e := range d.m.Step(now, in) {
		switch e.kind {
		case askReplay:
			to.Replay(e.attempt, e.from)
		case dropReplay:
			to.Drop(e.attempt)
		}
	}
}
