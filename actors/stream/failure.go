package stream

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/engine"
)

// failureOf returns why Generate ended; an error that is no failure of an engine's is Broken.
func failureOf(err error) *engine.Failure {
	var f *engine.Failure
	if errors.As(err, &f) {
		return f
	}
	return &engine.Failure{Kind: engine.Broken, Err: err}
}

// retryAfterMost bounds when a client is told to come back: what one engine asks for is not what the fleet needs.
const retryAfterMost = time.Minute

// faultOf says what a client hears of an engine's failure of a request to a LoRA adapter, or to the model, if nobody else can take
// over.
func faultOf(f *engine.Failure, lora string) *fault.Fault {
	switch f.Kind {
	case engine.Client:
		return &fault.Fault{Kind: fault.EngineRefused, Status: f.Status, Message: f.Message, Param: f.Param, Err: f}
	case engine.Shed:
		wait := min(f.RetryAfter, retryAfterMost)
		if wait == 0 {
			wait = time.Second
		}
		return &fault.Fault{
			Kind: fault.Contended, Message: "all replicas are busy; try again later", RetryAfter: wait, Err: f,
		}
	case engine.Stalled:
		return &fault.Fault{Kind: fault.Deadline, Message: "the engine made no progress in time", Err: f}
	case engine.Local:
		return &fault.Fault{
			Kind: fault.NoReplica, Message: "this node is short of connections to its engines; try again later", RetryAfter: time.Second, Err: f,
		}
	case engine.Operator:
		if lora != "" && f.Status == http.StatusNotFound {
			return &fault.Fault{
				Kind: fault.ModelNotFound, Param: "model", Err: f,
				Message: fmt.Sprintf("the model %q does not exist: no engine that lists it knows it", lora),
			}
		}
		return &fault.Fault{
			Kind: fault.EngineFailed, Err: f,
			Message: fmt.Sprintf("the engine refused this request (status %d), and nobody else could take it", f.Status),
		}
	case engine.Refused, engine.Broken, engine.NumFailKinds:
	}
	return &fault.Fault{
		Kind: fault.EngineFailed, Message: fmt.Sprintf("the engine failed (%s) and nobody else could take over", f.Kind), Err: f,
	}
}
