package queue

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll/scoring"
)

// ID names a waiting request; the caller chooses it.
type ID uint64

// Config bounds a queue.
type Config struct {
	RequestsMax int            // requests waiting
	TokensMax   scoring.Tokens // their prompt tokens together
}

// DefaultConfig holds 4,096 requests and 16 million tokens: at 4 bytes a token ID, 64 MB.
func DefaultConfig() Config { return Config{RequestsMax: 4096, TokensMax: 16 << 20} }

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
	ID      ID
	Item    T
	Tokens  scoring.Tokens // of its prompt
	Arrival time.Time      // when the request came in, however often it was queued since
	Head    bool           // goes before all that is not
}

// Before is the order of the queue: negative if a is tried before b, positive if after it, zero only for equal IDs in
// the same place.
func Before[T any](a, b Entry[T]) int {
	if a.Head != b.Head {
		if a.Head {
			return -1
		}
		return 1
	}
	if c := a.Arrival.Compare(b.Arrival); c != 0 {
		return c
	}
	switch {
	case a.ID < b.ID:
		return -1
	case a.ID > b.ID:
		return 1
	}
	return 0
}

// Queue is the waiting room. See the package comment.
type Queue[T any] struct {
	cfg     Config
	entries []*Entry[T] // in order
	byID    map[ID]*Entry[T]
	tokens  scoring.Tokens
}

// New returns an empty queue. It panics if a bound is not positive.
func New[T any](cfg Config) *Queue[T] {
	if cfg.RequestsMax <= 0 || cfg.TokensMax <= 0 {
		panic("queue: every bound is positive")
	}
	return &Queue[T]{cfg: cfg, byID: map[ID]*Entry[T]{}}
}

// Push lets a request in at its place by arrival. It fails with a [*FullError] where a bound would be passed, and with
// [ErrDuplicate].
func (q *Queue[T]) Push(id ID, item T, tokens scoring.Tokens, arrival time.Time) error {
	switch {
	case len(q.entries) >= q.cfg.RequestsMax:
		return &FullError{Bound: Requests, Max: q.cfg.RequestsMax}
	case q.tokens+tokens > q.cfg.TokensMax:
		return &FullError{Bound: Tokens, Max: int(q.cfg.TokensMax)}
	}
	return q.insert(&Entry[T]{ID: id, Item: item, Tokens: tokens, Arrival: arrival})
}

// PushHead brings a request back to the head. The bounds do not stop it: it was let in before and is a live request.
// It fails with [ErrDuplicate] alone.
func (q *Queue[T]) PushHead(id ID, item T, tokens scoring.Tokens, arrival time.Time) error {
	return q.insert(&Entry[T]{ID: id, Item: item, Tokens: tokens, Arrival: arrival, Head: true})
}

// place is where an entry stands or would stand.
func (q *Queue[T]) place(e *Entry[T]) int {
	at, _ := slices.BinarySearchFunc(q.entries, e, func(a, b *Entry[T]) int { return Before(*a, *b) })
	return at
}

func (q *Queue[T]) insert(e *Entry[T]) error {
	if _, ok := q.byID[e.ID]; ok {
		return fmt.Errorf("request %d: %w", e.ID, ErrDuplicate)
	}
	q.entries = slices.Insert(q.entries, q.place(e), e)
	q.byID[e.ID] = e
	q.tokens += e.Tokens
	return nil
}

// Remove takes a request out, wherever it stands. False if it is not in the queue.
func (q *Queue[T]) Remove(id ID) (Entry[T], bool) {
	e, ok := q.byID[id]
	if !ok {
		return Entry[T]{}, false
	}
	at := q.place(e)
	q.entries = slices.Delete(q.entries, at, at+1)
	q.forget(e)
	return *e, true
}

func (q *Queue[T]) forget(e *Entry[T]) {
	delete(q.byID, e.ID)
	q.tokens -= e.Tokens
}

// Peek returns the first request; false if the queue is empty.
func (q *Queue[T]) Peek() (Entry[T], bool) {
	if len(q.entries) == 0 {
		return Entry[T]{}, false
	}
	return *q.entries[0], true
}

// Visit says what becomes of a request that a scan has come to.
type Visit uint8

// Outcomes of a visit.
const (
	Keep Visit = iota // it stays
	Take              // it leaves the queue
	Stop              // it stays, and the scan ends
)

// Scan visits the requests in order until it is told to stop, the queue ends, or keepMax requests were kept. visit must
// not change the queue. Its cost is that of the requests visited, however many wait.
func (q *Queue[T]) Scan(keepMax int, visit func(Entry[T]) Visit) {
	seen, kept := 0, 0
	for stop := false; !stop && seen < len(q.entries) && kept < keepMax; seen++ {
		e := q.entries[seen]
		switch visit(*e) {
		case Take:
			q.forget(e)
			continue
		case Stop:
			stop = true
		case Keep:
		}
		q.entries[kept] = e
		kept++
	}
	gone := seen - kept
	if gone == 0 {
		return
	}
	copy(q.entries[gone:seen], q.entries[:kept])
	clear(q.entries[:gone])
	q.entries = q.entries[gone:]
}

// Len is the number of waiting requests.
func (q *Queue[T]) Len() int { return len(q.entries) }

// Tokens is the sum of their prompt tokens.
func (q *Queue[T]) Tokens() scoring.Tokens { return q.tokens }
