package ledger

import (
	"slices"

	"plimsoll/scoring"
)

// samplesKept is how many of the engine's figures must agree that others use it, and how many may be missed.
const samplesKept = 3

// foreign estimates use of the engine by others: the least excess of the last samples, so that a figure that is older
// than our last release alone shows nothing.
type foreign struct {
	blocks, seats window
	crowd         window // sequences that run or wait there
	misses        int
	// The most of ours that can have been in use at some moment since the sample before: a figure may be older than the
	// newest end of a ticket.
	peakBlocks scoring.Blocks
	peakSeats  int
}

// window holds the last samples of an excess, newest first; a place not filled yet is 0, so that nothing shows before
// there are enough.
type window [samplesKept]int

func (w *window) push(v int) {
	copy(w[1:], w[:])
	w[0] = v
}

func (w *window) least() int { return max(0, slices.Min(w[:])) }

// Sample takes the engine's own figures: blocks in use by running sequences, running sequences, and those that wait in it; nil
// for what it does not tell.
func (l *Ledger) Sample(used *scoring.Blocks, runningSeqs, waitingSeqs *int) {
	f := &l.foreign
	f.misses = 0
	if used != nil {
		f.blocks.push(int(*used - f.peakBlocks))
	} else {
		f.blocks = window{}
	}
	if runningSeqs != nil {
		f.seats.push(*runningSeqs - f.peakSeats)
	} else {
		f.seats = window{}
	}
	if waitingSeqs != nil { // ours may be among either
		f.crowd.push(valueOf(runningSeqs) + *waitingSeqs - f.peakSeats)
	} else {
		f.crowd = window{}
	}
	f.peakBlocks, f.peakSeats = l.booked(), l.sum.seats
}

func valueOf(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// waiting is how many sequences of others wait in the engine.
func (f *foreign) waiting() int { return max(0, f.crowd.least()-f.seats.least()) }

// MissedSample notes that the engine's figures could not be had. The third miss in a row makes foreign use expire and
// returns true, once.
func (l *Ledger) MissedSample() (alarm bool) {
	f := &l.foreign
	f.misses++
	if f.misses != samplesKept {
		return false
	}
	f.blocks, f.seats, f.crowd = window{}, window{}, window{}
	l.counters.Alarms++
	return true
}
