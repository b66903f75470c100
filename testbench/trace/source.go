package trace

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"
)

// Source gives a trace's requests in the order of their times; io.EOF follows the last one. It belongs to one goroutine.
type Source interface {
	Next() (Request, error)
}

// Take reads at most that many requests.
func Take(s Source, most int) ([]Request, error) {
	var out []Request
	for len(out) < most {
		r, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// nextOf makes a function a Source.
type nextOf func() (Request, error)

func (f nextOf) Next() (Request, error) { return f() }

// List is a Source of requests that are in order.
func List(requests []Request) Source {
	return nextOf(func() (Request, error) {
		if len(requests) == 0 {
			return Request{}, io.EOF
		}
		r := requests[0]
		requests = requests[1:]
		return r, nil
	})
}

// Cut leaves the first requests out and ends after that many. Times count from the first one that is left.
func Cut(s Source, skip, most int) Source {
	left := most
	var start *time.Duration
	return nextOf(func() (Request, error) {
		if left == 0 {
			return Request{}, io.EOF
		}
		for ; skip > 0; skip-- {
			if _, err := s.Next(); err != nil {
				return Request{}, err
			}
		}
		r, err := s.Next()
		if err != nil {
			return Request{}, err
		}
		if start == nil {
			at := r.At
			start = &at
		}
		left--
		r.At -= *start
		return r, nil
	})
}

// Squeezed is [Squeeze] for a Source.
func Squeezed(s Source, factor int) (Source, error) {
	if factor < 1 {
		return nil, fmt.Errorf("trace: cannot squeeze by %d", factor)
	}
	return changed(s, func(r Request) Request { return r.squeezed(factor) }), nil
}

// Scaled is [Faster] for a Source.
func Scaled(s Source, factor float64) (Source, error) {
	if !(factor > 0) || math.IsInf(factor, 0) {
		return nil, fmt.Errorf("trace: cannot make time %g times as fast", factor)
	}
	return changed(s, func(r Request) Request {
		r.At = time.Duration(float64(r.At) / factor)
		return r
	}), nil
}

func changed(s Source, change func(Request) Request) Source {
	return nextOf(func() (Request, error) {
		r, err := s.Next()
		if err != nil {
			return Request{}, err
		}
		return change(r), nil
	})
}

// Spread moves each request to a random moment of the tick that begins when it came: traces whose times are rounded have all
// requests of a tick come at once. Equal seeds give equal times; others give the same requests at others.
func Spread(s Source, tick time.Duration, seed uint64) Source {
	if tick <= 0 {
		return s
	}
	return &spread{source: s, tick: tick, rng: rand.New(rand.NewPCG(seed, 0x5ead))}
}

// spread holds the requests that one that is still to come may come before: those of one tick.
type spread struct {
	source Source
	tick   time.Duration
	rng    *rand.Rand
	held   byTime
	coming *Request // read, and not moved yet
	ended  error
}

// Next implements [Source].
func (s *spread) Next() (Request, error) {
	for {
		if s.coming == nil && s.ended == nil {
			r, err := s.source.Next()
			if err != nil {
				s.ended = err
			} else {
				s.coming = &r
			}
		}
		switch {
		case s.coming == nil && len(s.held) == 0:
			return Request{}, s.ended
		case s.coming == nil, len(s.held) > 0 && s.held[0].At <= s.coming.At:
			return heap.Pop(&s.held).(Request), nil
		}
		r := *s.coming
		s.coming = nil
		r.At += time.Duration(s.rng.Int64N(int64(s.tick)))
		heap.Push(&s.held, r)
	}
}

// byTime is a heap of requests, the earliest first.
type byTime []Request

func (h byTime) Len() int { return len(h) }
func (h byTime) Less(i, j int) bool {
	return h[i].At < h[j].At || h[i].At == h[j].At && h[i].Number < h[j].Number
}
func (h byTime) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *byTime) Push(r any) { *h = append(*h, r.(Request)) }

// Pop implements heap.Interface.
func (h *byTime) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = Request{}
	*h = old[:len(old)-1]
	return r
}
