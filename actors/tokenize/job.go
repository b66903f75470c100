package tokenize

import (
	"sync/atomic"
	"time"

	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
)

// job is one input to tokenize, and what it has come to.
type job struct {
	id      queue.ID
	input   stream.Input
	tenant  string
	class   queue.Class
	arrival time.Time
	bytes   int // what it weighs where it waits
	short   bool
	limited bool // the prompts are to be answered, so that they must fit

	// One of them is set: a call's submission, or a bare tokenization.
	owner *stream.Submit
	bare  *Tokenize

	// The machine's.
	lane    Lane // of the next step, or of the one that runs
	step    int  // bytes that it takes
	came    time.Time
	waited  time.Duration // over all its steps
	begun   bool          // its first step was
	running bool
	gone    bool // nobody wants its result any more

	took time.Duration // its steps; the pool's
	work work          // the worker's, while it runs
	slot *slot
	// first is the slot of the first step, which is the only one of most jobs.
	first slot
}

// slot is one of the node's, held by a step. Whoever is done with the step first gives it back.
type slot struct {
	lane     Lane
	released atomic.Bool
}

// take makes a slot of a lane that of a job's next step: a step before it may not have heard yet that its own was given back.
func (j *job) take(lane Lane) *slot {
	if j.slot == nil {
		j.slot = &j.first
	} else {
		j.slot = &slot{}
	}
	j.slot.lane = lane
	return j.slot
}

// release gives the slot back, once.
func (s *slot) release(g *Gate) {
	if s.released.CompareAndSwap(false, true) {
		g.Release(s.lane)
	}
}

// isOf says whether a job is for a call's submission; number 0 is any.
func (j *job) isOf(call *stream.Call, number uint64) bool {
	return j.owner != nil && j.owner.Call == call && (number == 0 || j.owner.Number == number)
}

// What an input weighs where it waits beside its text, so that many small ones count too. A call of the library takes some 3 us, as
// long as 3 kB of text, but the weight is that of memory.
const (
	jobBytes   = 512
	textBytes  = 16
	tokenBytes = 4
)

// inputBytes is what an input weighs.
func inputBytes(in stream.Input) int {
	n := jobBytes
	if in.Chat != nil {
		for _, part := range [][]byte{
			in.Chat.Messages, in.Chat.Tools, in.Chat.ToolChoice, in.Chat.Documents, in.Chat.Kwargs, in.Chat.ChatTemplate,
		} {
			n += len(part)
		}
	}
	for _, t := range in.Texts {
		n += textBytes + len(t)
	}
	for _, ids := range in.Tokens {
		n += textBytes + tokenBytes*len(ids)
	}
	return n
}
