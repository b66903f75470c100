package chaos

import (
	"slices"
	"sync"
	"time"
)

// Attempt is one try of a request on an engine, as it was seen on the way there.
type Attempt struct {
	Request      int           `json:"request"` // -1: nobody's, a canary
	Engine       int           `json:"engine"`
	Life         int           `json:"life"` // of the engine's process, from 1
	PromptTokens int           `json:"prompt_tokens"`
	Began        time.Duration `json:"began"`
	First        time.Duration `json:"first"` // when its first bytes came; 0: none did
	Ended        time.Duration `json:"ended"` // 0: it has not
	End          End           `json:"end"`
	Status       int           `json:"status,omitempty"`
}

// End is how an attempt ended.
type End string

// The ends of attempts.
const (
	EndNone   End = ""       // it goes on
	EndWhole  End = "whole"  // the engine's answer came to its end, whatever it says
	EndLeft   End = "left"   // Plimsoll closed the connection
	EndBroken End = "broken" // the engine closed it, or a fault did
	// EndStale is the engine closing a connection that had been in use before and was idle, as the request came. Clients of
	// HTTP send it again on another connection, and it is the same attempt to who asked (RFC 9112, 9.3.1).
	EndStale End = "stale"
)

// tracker knows all attempts. It is safe for concurrent use.
type tracker struct {
	now func() time.Duration // since the run's start

	mu       sync.Mutex
	attempts []*Attempt            // guarded by mu; what they hold as well
	of       map[int][]*Attempt    // guarded by mu; by request
	open     []map[*Attempt]func() // guarded by mu; by engine; what cuts them
	lives    []int                 // guarded by mu; by engine
	watchers map[int]chan struct{} // guarded by mu; by request, closed when something becomes of it
}

func newTracker(engines int, now func() time.Duration) *tracker {
	t := &tracker{now: now, of: map[int][]*Attempt{}, lives: make([]int, engines), watchers: map[int]chan struct{}{}}
	for range engines {
		t.open = append(t.open, map[*Attempt]func(){})
	}
	return t
}

// reborn counts an engine's process.
func (t *tracker) reborn(engine int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lives[engine]++
}

// began books an attempt; cut breaks its connection in the middle of a frame.
func (t *tracker) began(engine int, o *opening, cut func()) *Attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := &Attempt{Request: o.number, Engine: engine, Life: t.lives[engine], PromptTokens: o.promptTokens, Began: t.now()}
	t.attempts = append(t.attempts, a)
	t.open[engine][a] = cut
	if o.number >= 0 {
		t.of[o.number] = append(t.of[o.number], a)
	}
	t.tell(o.number)
	return a
}

// tell wakes who watches a request. The caller holds mu.
func (t *tracker) tell(request int) {
	if w := t.watchers[request]; w != nil {
		close(w)
		delete(t.watchers, request)
	}
}

// watch returns a request's attempts so far, and what is closed when something becomes of them.
func (t *tracker) watch(request int) ([]Attempt, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.watchers[request]
	if w == nil {
		w = make(chan struct{})
		t.watchers[request] = w
	}
	return t.copies(request), w
}

// forget drops who watches a request.
func (t *tracker) forget(request int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(request)
}

func (t *tracker) first(a *Attempt, status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.First, a.Status = t.now(), status
	t.tell(a.Request)
}

// ended closes an attempt, once.
func (t *tracker) ended(a *Attempt, how End) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.End == EndNone {
		a.Ended, a.End = t.now(), how
		delete(t.open[a.Engine], a)
		t.tell(a.Request)
	}
}

// under is what runs on an engine.
func (t *tracker) under(engine int) []Attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Attempt, 0, len(t.open[engine]))
	for a := range t.open[engine] {
		out = append(out, *a)
	}
	return out
}

// cut breaks what runs on an engine; giving: only what has given something.
func (t *tracker) cut(engine int, giving bool) {
	t.mu.Lock()
	cuts := make([]func(), 0, len(t.open[engine]))
	for a, cut := range t.open[engine] {
		if a.First > 0 || !giving {
			cuts = append(cuts, cut)
		}
	}
	t.mu.Unlock()
	for _, cut := range cuts {
		cut()
	}
}

// request returns a request's attempts so far.
func (t *tracker) request(number int) []Attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.copies(number)
}

func (t *tracker) copies(number int) []Attempt {
	out := make([]Attempt, 0, len(t.of[number]))
	for _, a := range t.of[number] {
		out = append(out, *a)
	}
	return out
}

// all returns every attempt.
func (t *tracker) all() []Attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Attempt, 0, len(t.attempts))
	for _, a := range t.attempts {
		out = append(out, *a)
	}
	return slices.Clip(out)
}
