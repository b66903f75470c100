package queue

import (
	"errors"
	"fmt"
	"time"

	"plimsoll/scoring"
)

// ID names a waiting request; the caller chooses it.
type ID uint64

// Class is a request's rank among all. Lower ones go first.
type Class uint8

// Classes, named as OpenAI's service tiers.
const (
	Priority Class = iota
	Default
	Flex

	NumClasses
)

// String is the word used in requests, errors and metrics.
func (c Class) String() string {
	switch c {
	case Priority:
		return "priority"
	case Default:
		return "default"
	case Flex:
		return "flex"
	case NumClasses:
	}
	return "unknown"
}

// Config bounds and orders a queue.
type Config struct {
	RequestsMax int            // requests waiting
	TokensMax   scoring.Tokens // their prompt tokens together
	// PromoteAfter is how long a request waits in a class before it is counted to the one above it.
	PromoteAfter time.Duration
	// PrefillWeight is by how many seconds a request of a tenant comes later for each second of its own prefill.
	PrefillWeight float64
}

// DefaultConfig holds 4,096 requests and 16 million tokens: at 4 bytes a token ID, 64 MB.
func DefaultConfig() Config {
	return Config{RequestsMax: 4096, TokensMax: 16 << 20, PromoteAfter: 10 * time.Second, PrefillWeight: 1}
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	switch {
	case c.RequestsMax <= 0 || c.TokensMax <= 0:
		return errors.New("queue-requests and queue-tokens must be positive")
	case c.PromoteAfter <= 0:
		return errors.New("queue-promote-after must be positive")
	case !(c.PrefillWeight >= 0):
		return errors.New("the queue's PrefillWeight must not be negative")
	}
	return nil
}

// Standing is in which class a request that came with one is tried at a time, promotions counted.
func (c Config) Standing(class Class, arrival, now time.Time) Class {
	return class - Class(min(int64(class), max(0, int64(now.Sub(arrival)/c.PromoteAfter)))) //nolint:gosec // at most class
}

// Bound names a limit of the queue.
type Bound uint8

// Bounds of a queue.
const (
	Requests Bound = iota // how many wait
	Tokens                // their prompt tokens together

	NumBounds
)

// String is the word used in errors and metrics.
func (b Bound) String() string {
	switch b {
	case Requests:
		return "requests"
	case Tokens:
		return "tokens"
	case NumBounds:
	}
	return "unknown"
}

// ErrFull is matched by every [FullError].
var ErrFull = errors.New("queue is full")

// ErrDuplicate says that the ID is in the queue already.
var ErrDuplicate = errors.New("already in the queue")

// FullError says which bound a push would have passed.
type FullError struct {
	Bound Bound
	Max   int
}

// Error names the bound and its value.
func (e *FullError) Error() string {
	return fmt.Sprintf("queue is full: at most %d %s", e.Max, e.Bound)
}

// Is reports whether target is [ErrFull].
func (e *FullError) Is(target error) bool { return target == ErrFull }

// Entry is a waiting request.
type Entry[T any] struct {
	ID             ID
	Item           T
	Tokens         scoring.Tokens // of its prompt
	Arrival        time.Time      // when the request came in, however often it was queued since
	Class          Class          // as it came in
	Tenant         string
	Weight         float64 // of the tenant, positive
	PrefillSeconds float64 // what its prompt takes where that takes the least
	ChargeSeconds  float64 // the service that its tenant is charged for it
}

// waiter is an entry and where it stands.
type waiter[T any] struct {
	Entry[T]

	head  bool
	class Class     // with promotions
	key   time.Time // orders it among those of its tenant, or at the head
	due   time.Time // of its next promotion
}

// before is the order among those of one tenant, or at one head.
func (e *waiter[T]) before(o *waiter[T]) int {
	if c := e.key.Compare(o.key); c != 0 {
		return c
	}
	switch {
	case e.ID < o.ID:
		return -1
	case e.ID > o.ID:
		return 1
	}
	return 0
}

// Queue is the waiting room. See the package comment.
type Queue[T any] struct {
	cfg     Config
	classes [NumClasses]class[T]
	byID    map[ID]*waiter[T]
	tokens  scoring.Tokens
	came    [NumClasses]int // those that wait, by the class that they came with
	aging   aging[T]
	cursors []cursor[T] // scratch of a scan
}

// New returns an empty queue. It panics if the configuration is not valid.
func New[T any](cfg Config) *Queue[T] {
	if err := cfg.Validate(); err != nil {
		panic("queue: " + err.Error())
	}
	q := &Queue[T]{cfg: cfg, byID: map[ID]*waiter[T]{}}
	for i := range q.classes {
		q.classes[i].tenants = map[string]*tenant[T]{}
	}
	return q
}

// Push lets a request in at its place. It fails with a [*FullError] where a bound would be passed, and with [ErrDuplicate].
func (q *Queue[T]) Push(e Entry[T]) error {
	switch {
	case len(q.byID) >= q.cfg.RequestsMax:
		return &FullError{Bound: Requests, Max: q.cfg.RequestsMax}
	case q.tokens+e.Tokens > q.cfg.TokensMax:
		return &FullError{Bound: Tokens, Max: int(q.cfg.TokensMax)}
	}
	return q.insert(e, false, e.Arrival.Add(seconds(q.cfg.PrefillWeight*e.PrefillSeconds)))
}

// PushHead brings a request back to the head of its class, where place orders it. The bounds do not stop it: it was let in
// before and is a live request. It fails with [ErrDuplicate] alone.
func (q *Queue[T]) PushHead(e Entry[T], place time.Time) error { return q.insert(e, true, place) }

func (q *Queue[T]) insert(e Entry[T], head bool, key time.Time) error {
	if _, ok := q.byID[e.ID]; ok {
		return fmt.Errorf("request %d: %w", e.ID, ErrDuplicate)
	}
	w := &waiter[T]{Entry: e, head: head, class: e.Class, key: key, due: e.Arrival.Add(q.cfg.PromoteAfter)}
	q.byID[e.ID] = w
	q.tokens += e.Tokens
	q.came[e.Class]++
	q.classes[w.class].insert(w)
	q.age(w)
	return nil
}

// Remove takes a request out, wherever it stands. Its tenant is charged nothing. False if it is not in the queue.
func (q *Queue[T]) Remove(id ID) (Entry[T], bool) {
	w, ok := q.byID[id]
	if !ok {
		return Entry[T]{}, false
	}
	q.classes[w.class].remove(w)
	q.forget(w)
	q.emptied()
	return w.Entry, true
}

func (q *Queue[T]) forget(w *waiter[T]) {
	delete(q.byID, w.ID)
	q.tokens -= w.Tokens
	q.came[w.Class]--
}

// emptied forgets all shares once nobody waits.
func (q *Queue[T]) emptied() {
	if len(q.byID) > 0 {
		return
	}
	for i := range q.classes {
		q.classes[i].reset()
	}
	q.aging.reset()
}

// Visit says what becomes of a request that a scan has come to.
type Visit uint8

// Outcomes of a visit.
const (
	Keep Visit = iota // it stays
	Take              // it leaves the queue, and its tenant is charged
	Drop              // it leaves the queue, and gets nothing: its tenant is charged nothing
	Stop              // it stays, and the scan ends
)

// Scan visits the requests in their order at a time until it is told to stop, the queue ends, or keepMax requests were kept.
// visit must not change the queue. Its cost is that of the tenants and of the requests visited, however many wait.
func (q *Queue[T]) Scan(now time.Time, keepMax int, visit func(Entry[T]) Visit) {
	q.promote(now)
	s := scan[T]{queue: q, left: keepMax, visit: visit}
	for i := range q.classes {
		if s.left <= 0 {
			break
		}
		s.class(&q.classes[i])
	}
	q.emptied()
}

// Span is the highest and the lowest class with which any that wait came; first is above last if the queue is empty.
func (q *Queue[T]) Span() (first, last Class) {
	first = NumClasses
	for c := range NumClasses {
		if q.came[c] > 0 {
			first, last = min(first, c), c
		}
	}
	return first, last
}

// Len is the number of waiting requests.
func (q *Queue[T]) Len() int { return len(q.byID) }

// Tokens is the sum of their prompt tokens.
func (q *Queue[T]) Tokens() scoring.Tokens { return q.tokens }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
