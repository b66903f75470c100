package router

import (
	"sync/atomic"
	"time"

	"plimsoll/actors/stream"
)

// job is one input to tokenize.
type job struct {
	input   stream.Input
	bytes   int
	arrival time.Time
	// done gets the result, on the router's goroutine.
	done func(prompts []stream.Prompt, err error)
	// owner is the submission that the job is for, nil for a bare tokenization.
	owner *stream.Submit
	// withdrawn: nobody wants the result of this running job any more.
	withdrawn bool

	at int // place in the heap, -1 outside

	released atomic.Bool // its tokenization slot was given back
}

// release gives the job's tokenization slot back, once.
func (j *job) release(g *Gate) {
	if j.released.CompareAndSwap(false, true) {
		g.Release()
	}
}

// encodeSecondsPerByte weighs size against age in the order of jobs: 100 kB give way to whatever comes within 0.1 s.
const encodeSecondsPerByte = 1e-6

// due orders jobs: the shortest first, but every byte costs only so much age.
func (j *job) due() time.Time {
	return j.arrival.Add(time.Duration(float64(j.bytes) * encodeSecondsPerByte * float64(time.Second)))
}

// jobs is the queue of inputs that wait for a worker, bounded in bytes. It is pure.
type jobs struct {
	heap  indexed[*job]
	bytes int
	max   int
}

func newJobs(bytesMax int) jobs {
	return jobs{max: bytesMax, heap: indexed[*job]{
		before: func(a, b *job) bool { return a.due().Before(b.due()) },
		moved:  func(j *job, at int) { j.at = at },
	}}
}

// push lets a job in; false if it would pass the bound. A single job larger than the bound is let into an empty queue.
func (q *jobs) push(j *job) bool {
	if q.heap.Len() > 0 && q.bytes+j.bytes > q.max {
		return false
	}
	q.heap.push(j)
	q.bytes += j.bytes
	return true
}

// pop takes the job that is due first, nil if there is none.
func (q *jobs) pop() *job {
	if q.heap.Len() == 0 {
		return nil
	}
	return q.take(0)
}

func (q *jobs) take(at int) *job {
	j := q.heap.remove(at)
	q.bytes -= j.bytes
	return j
}

// remove takes out the job of a call's submission; false if none waits.
func (q *jobs) remove(call *stream.Call, number uint64) bool {
	for _, j := range q.heap.items {
		if j.isOf(call, number) {
			q.take(j.at)
			return true
		}
	}
	return false
}

// isOf says whether a job is for a call's submission; number 0 is any.
func (j *job) isOf(call *stream.Call, number uint64) bool {
	return j.owner != nil && j.owner.Call == call && (number == 0 || j.owner.Number == number)
}

// What an input weighs in the queue of jobs beside its text, so that many small ones count too.
const (
	jobBytes   = 512
	textBytes  = 16
	tokenBytes = 4
)

// inputBytes is what an input weighs in the queue of jobs.
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
