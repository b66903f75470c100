package fakeengine

import (
	"fmt"
	"net/http"
	"strings"

	"plimsoll/engine"
)

// fault is an error answer.
type fault struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"` // the HTTP status
}

// wireFault is a fault's body, and its frame in a stream.
type wireFault struct {
	Error *fault `json:"error"`
}

// detail is the body of what the web framework refuses before vLLM sees it.
type detail struct {
	Detail string `json:"detail"`
}

// schemaFault is a body that does not have the form of the route's: the place is dotted and begins with body.
func schemaFault(place, message string) *fault {
	return &fault{
		Message: fmt.Sprintf("1 validation error:\n  {'loc': '%s', 'msg': '%s'}", place, message),
		Type:    "Bad Request", Param: &place, Code: http.StatusBadRequest,
	}
}

// valueFault is a value out of its range; an empty param is null on the wire and not in the message.
func valueFault(param, format string, args ...any) *fault {
	f := &fault{Message: fmt.Sprintf(format, args...), Type: "BadRequestError", Code: http.StatusBadRequest}
	if param != "" {
		f.Param = &param
	}
	return f
}

// rangeFault is a valueFault whose message ends with the parameter and its value.
func rangeFault(param string, value any, format string, args ...any) *fault {
	text := fmt.Sprintf(format, args...)
	return valueFault(param, "%s (parameter=%s, value=%v)", text, param, value)
}

// unsupported says that a simulated model cannot do what is asked for.
func unsupported(param, what string) *fault {
	return valueFault(param, "the simulated engine has no %s", what)
}

func unknownModel(name, served string) *fault {
	param := "model"
	return &fault{
		Message: fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", name, served),
		Type:    "NotFoundError", Param: &param, Code: http.StatusNotFound,
	}
}

func generateOff() *fault {
	return &fault{
		Message: "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
		Type:    "PermissionDeniedError", Code: http.StatusForbidden,
	}
}

func queueFull() *fault {
	return &fault{
		Message: "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
		Type:    "Service Unavailable", Code: http.StatusServiceUnavailable,
	}
}

func engineDead() *fault {
	return &fault{
		Message: "EngineCore encountered an issue. See stack trace (above) for the root cause.",
		Type:    "InternalServerError", Code: http.StatusInternalServerError,
	}
}

// engineFault is what the engine's failure of a leg looks like on the wire. What the engine refuses is about a token ID or a
// length, and names no parameter.
func engineFault(f *engine.Failure) *fault {
	switch f.Kind {
	case engine.Client, engine.Operator:
		return valueFault("", "%s", strings.TrimSpace(f.Message))
	case engine.Shed:
		return queueFull()
	case engine.Refused, engine.Broken, engine.Stalled, engine.Local, engine.NumFailKinds:
	}
	return engineDead()
}
