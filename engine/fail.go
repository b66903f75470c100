package engine

import (
	"errors"
	"fmt"
	"time"
)

// FailKind says what went wrong with an attempt and so what may be done about it.
type FailKind uint8

const (
	Shed     FailKind = iota // a live process refused for load (429, 503, loading): try another, no strike
	Refused                  // no connection: nobody listens there
	Broken                   // reset, end of the stream without a finish, error frame, 5xx, an answer that makes no sense
	Stalled                  // no progress within the deadline
	Operator                 // 401, 403, 404, 405, 501, 3xx: of this request alone, or of all (a wrong key, a missing model): one answer does not tell
	Client                   // the engine refuses this request (400, 413, 422): passed on, never retried, never a strike
	Local                    // nothing was sent for want of something of ours (open files, ports, memory): it says nothing of the engine

	NumFailKinds
)

// String returns the label used in logs and metrics.
func (k FailKind) String() string {
	switch k {
	case Shed:
		return "shed"
	case Refused:
		return "refused"
	case Broken:
		return "broken"
	case Stalled:
		return "stalled"
	case Operator:
		return "operator"
	case Client:
		return "client"
	case Local:
		return "local"
	case NumFailKinds:
	}
	return "unknown"
}

// Failure is why an attempt or a probe did not succeed.
type Failure struct {
	Kind FailKind
	// FromEngine: the engine said so in words; else the adapter inferred it from the connection.
	FromEngine bool
	Status     int           // HTTP status the engine sent, 0 if none
	Message    string        // the engine's words for Client; never an address or a key
	Param      string        // the request's parameter the engine complains of, "" if it names none
	RetryAfter time.Duration // what a shedding engine asks for, 0 if nothing
	// Missing: the engine says that it has no model or adapter of the name that the request asks for. Of Operator only.
	Missing bool
	// Unfinished: the engine ended the answer in good order, but without a finish. Nothing shows that it failed. Of Broken only.
	Unfinished bool
	Err        error // cause, may be nil
}

// Error implements error.
func (f *Failure) Error() string {
	msg := f.Message
	if msg == "" && f.Err != nil {
		msg = f.Err.Error()
	}
	return fmt.Sprintf("engine %s: %s", f.Kind, msg)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// KindOf returns the kind of a failure anywhere in err's chain; an error that is none is Broken.
func KindOf(err error) FailKind {
	var f *Failure
	if errors.As(err, &f) {
		return f.Kind
	}
	return Broken
}

// ErrNoKVEvents is what [KVSource.Subscribe] returns, maybe wrapped, where the engine lives and publishes no cache events:
// asking again soon would change nothing.
var ErrNoKVEvents = errors.New("the engine publishes no cache events")
