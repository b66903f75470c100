package ingress

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/engine/openai"
)

// answer is how a kind of fault looks to a client.
type answer struct {
	status int
	kind   string // the error object's type
	code   string // the error object's code, "" for null
	retry  time.Duration
}

// Types of the error object. SDKs choose their exception by the status; the type is for people and logs.
const (
	typeInvalid    = "invalid_request_error"
	typeAuth       = "authentication_error"
	typePermission = "permission_error"
	typeOverloaded = "overloaded_error"
	typeRateLimit  = "rate_limit_error"
	typeServer     = "server_error"
)

// statusClientGone is what the log says of a request whose client left; it is never sent.
const statusClientGone = 499

// answers is the one table from a fault's kind to what the client sees. retry is the Retry-After of a fault that says
// none; 0 sends no such header.
var answers = [fault.NumKinds]answer{
	fault.BadInput:         {http.StatusBadRequest, typeInvalid, "", 0},
	fault.ContextLength:    {http.StatusBadRequest, typeInvalid, "context_length_exceeded", 0},
	fault.Unauthorized:     {http.StatusUnauthorized, typeAuth, "invalid_api_key", 0},
	fault.Forbidden:        {http.StatusForbidden, typePermission, "forbidden", 0},
	fault.ModelNotFound:    {http.StatusNotFound, typeInvalid, "model_not_found", 0},
	fault.NotFound:         {http.StatusNotFound, typeInvalid, "unknown_url", 0},
	fault.MethodNotAllowed: {http.StatusMethodNotAllowed, typeInvalid, "method_not_allowed", 0},
	fault.BodyTooLarge:     {http.StatusRequestEntityTooLarge, typeInvalid, "request_too_large", 0},
	fault.MediaType:        {http.StatusUnsupportedMediaType, typeInvalid, "unsupported_media_type", 0},
	fault.EngineRefused:    {http.StatusBadRequest, typeInvalid, "", 0},
	fault.Contended:        {http.StatusTooManyRequests, typeOverloaded, "overloaded", time.Second},
	fault.OverQuota:        {http.StatusTooManyRequests, typeRateLimit, "rate_limit_exceeded", time.Second},
	fault.ClientGone:       {statusClientGone, typeInvalid, "client_gone", 0},
	fault.SlowReader:       {http.StatusRequestTimeout, typeInvalid, "slow_reader", 0},
	fault.Internal:         {http.StatusInternalServerError, typeServer, "internal_error", 0},
	fault.EngineFailed:     {http.StatusBadGateway, typeServer, "engine_failed", 0},
	fault.NoReplica:        {http.StatusServiceUnavailable, typeServer, "no_replica", 5 * time.Second},
	fault.ShuttingDown:     {http.StatusServiceUnavailable, typeServer, "shutting_down", 5 * time.Second},
	fault.Deadline:         {http.StatusGatewayTimeout, typeServer, "deadline_exceeded", 0},
}

// answerOf returns how f looks to a client, with the status an engine gave where it was the engine that refused.
func answerOf(f *fault.Fault) answer {
	kind := f.Kind
	if kind >= fault.NumKinds {
		kind = fault.Internal
	}
	a := answers[kind]
	if kind == fault.EngineRefused {
		switch f.Status {
		case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			a.status = f.Status
		}
	}
	if f.Code != "" {
		a.code = f.Code
	}
	if a.retry > 0 && f.RetryAfter > 0 {
		a.retry = f.RetryAfter
	}
	return a
}

// body returns the error object of f.
func (a answer) body(f *fault.Fault) openai.ErrorBody {
	e := openai.Error{Message: f.Message, Type: a.kind}
	if f.Param != "" {
		e.Param = &f.Param
	}
	if a.code != "" {
		e.Code = &a.code
	}
	return openai.ErrorBody{Error: e}
}

// retryAfter is the value of the Retry-After header: whole seconds, at least one.
func (a answer) retryAfter() string {
	return strconv.Itoa(max(1, int(math.Ceil(a.retry.Seconds()))))
}
