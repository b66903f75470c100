package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind is a reason for which a request is answered with an error. Each maps to one HTTP status.
type Kind uint8

const (
	BadInput         Kind = iota // 400: the request makes no sense or asks for what can't be done; Param names where
	ContextLength                // 400: prompt plus answer exceed what any configured replica can hold; Message has the numbers
	Unauthorized                 // 401
	Forbidden                    // 403
	ModelNotFound                // 404: no such model
	NotFound                     // 404: no such route
	MethodNotAllowed             // 405
	BodyTooLarge                 // 413
	MediaType                    // 415
	EngineRefused                // the engine's own 400, 413 or 422, passed on with its words; Status says which
	Contended                    // 429: all is busy; RetryAfter is set
	OverQuota                    // 429: the tenant has had its share; RetryAfter is set
	ClientGone                   // 499: the client left; nobody reads the answer
	SlowReader                   // the client takes its answer so slowly that too much of it waits, or takes nothing for too long
	Internal                     // 500: a fault of ours
	EngineFailed                 // 502: the engine broke and nobody else could take over
	NoReplica                    // 503: no replica of the model serves now
	ShuttingDown                 // 503: this node is going down
	Deadline                     // 504: the engine made no progress in time

	NumKinds
)

// String returns the label used in logs and metrics.
func (k Kind) String() string {
	switch k {
	case BadInput:
		return "bad_input"
	case ContextLength:
		return "context_length"
	case Unauthorized:
		return "unauthorized"
	case Forbidden:
		return "forbidden"
	case ModelNotFound:
		return "model_not_found"
	case NotFound:
		return "not_found"
	case MethodNotAllowed:
		return "method_not_allowed"
	case BodyTooLarge:
		return "body_too_large"
	case MediaType:
		return "media_type"
	case EngineRefused:
		return "engine_refused"
	case Contended:
		return "contended"
	case OverQuota:
		return "over_quota"
	case ClientGone:
		return "client_gone"
	case SlowReader:
		return "slow_reader"
	case Internal:
		return "internal"
	case EngineFailed:
		return "engine_failed"
	case NoReplica:
		return "no_replica"
	case ShuttingDown:
		return "shutting_down"
	case Deadline:
		return "deadline"
	case NumKinds:
	}
	return "unknown"
}

// Fault is an error with a kind. Message is for the client: it says what to do and holds no address and no key.
type Fault struct {
	Kind       Kind
	Message    string
	Param      string        // the request's parameter at fault, "" if none
	Code       string        // a finer code for the error body, "" for the kind's own
	Status     int           // HTTP status of EngineRefused; 0 elsewhere
	RetryAfter time.Duration // for Contended, OverQuota, NoReplica and ShuttingDown; 0 if it can't be said
	Err        error         // cause, for the log only; may be nil
}

// New returns a fault with a formatted message.
func New(kind Kind, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns a BadInput that names the parameter at fault.
func Invalid(param, format string, args ...any) *Fault {
	return &Fault{Kind: BadInput, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (f *Fault) Error() string {
	if f.Err != nil {
		return fmt.Sprintf("%s: %s: %v", f.Kind, f.Message, f.Err)
	}
	return fmt.Sprintf("%s: %s", f.Kind, f.Message)
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Of returns the fault in err's chain; an error without one is Internal, with a message that tells the client nothing
// of our inside.
func Of(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return &Fault{Kind: Internal, Message: "internal error", Err: err}
}
