package router

import (
	"container/heap"
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
	heap  jobHeap
	bytes int
	max   int
}

// push lets a job in; false if it would pass the bound. A single job larger than the bound is let into an empty queue.
func (q *jobs) push(j *job) bool {
	if len(q.heap) > 0 && q.bytes+j.bytes > q.max {
		return false
	}
	heap.Push(&q.heap, j)
	q.bytes += j.bytes
	return true
}

// pop takes the job that is due first, nil if there is none.
func (q *jobs) pop() *job {
	if len(q.heap) == 0 {
		return nil
	}
	j, _ := heap.Pop(&q.heap).(*job)
	q.bytes -= j.bytes
	return j
}

// remove takes out the job of a call's submission; false if none waits.
func (q *jobs) remove(call *stream.Call, number uint64) bool {
	for _, j := range q.heap {
		if j.owner != nil && j.owner.Call == call && (number == 0 || j.owner.Number == number) {
			heap.Remove(&q.heap, j.at)
			q.bytes -= j.bytes
			return true
		}
	}
	return false
}

type jobHeap []*job

// Len implements heap.Interface.
func (h jobHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h jobHeap) Less(a, b int) bool { return h[a].due().Before(h[b].due()) }

// Swap implements heap.Interface.
func (h jobHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].at, h[b].at = a, b
}

// Push implements heap.Interface.
func (h *jobHeap) Push(x any) {
	j, _ := x.(*job)
	j.at = len(*h)
	*h = append(*h, j)
}

// Pop implements heap.Interface.
func (h *jobHeap) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	j.at = -1
	return j
}

// inputBytes is what an input weighs in the queue of jobs.
func inputBytes(in stream.Input) int {
	n := 0
	if in.Chat != nil {
		n += len(in.Chat.Messages) + len(in.Chat.Tools) + len(in.Chat.Documents)
	}
	for _, t := range in.Texts {
		n += len(t)
	}
	return n
}
