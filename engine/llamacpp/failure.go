package llamacpp

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine"
)

// dialError marks an error that came before a connection stood.
type dialError struct{ err error }

// Error implements error.
func (e *dialError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *dialError) Unwrap() error { return e.err }

// transportFailure classifies an error of the connection. A failure passes through.
func transportFailure(err error) *engine.Failure {
	var known *engine.Failure
	if errors.As(err, &known) {
		return known
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) { // it adds nothing but the address
		err = wrapped.Err
	}
	kind := engine.Broken
	var dial *dialError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &dial):
		kind = engine.Refused
	case errors.As(err, &certificate):
		kind = engine.Operator
	}
	return &engine.Failure{Kind: kind, Err: err}
}

// broken is an answer that makes no sense.
func broken(format string, args ...any) *engine.Failure {
	return &engine.Failure{Kind: engine.Broken, Err: fmt.Errorf(format, args...)}
}

// statusFailure classifies an answer whose status is not 200, with the start of its body.
func statusFailure(resp *http.Response, body []byte) *engine.Failure {
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	words := ""
	if json.Unmarshal(body, &answer) == nil {
		_, words = readError(answer.Error)
	}
	f := failureOf(resp.StatusCode, words)
	if f.Kind == engine.Shed {
		f.RetryAfter = retryAfter(resp.Header)
	}
	return f
}

// failureOf is the one table from status to kind, for answers and for error frames, whose code is a status too.
func failureOf(status int, words string) *engine.Failure {
	f := &engine.Failure{Kind: engine.Broken, FromEngine: true, Status: status}
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		f.Kind = engine.Shed
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound,
		status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented, // something that is no such server
		status >= 300 && status < 400:
		f.Kind = engine.Operator
	case status == http.StatusRequestTimeout:
	case status >= 400 && status < 500:
		f.Kind, f.Message = engine.Client, words
		if words == "" {
			f.Message = "the engine refused the request"
		}
		return f
	}
	if words == "" {
		words = "no message"
	}
	f.Err = fmt.Errorf("status %d: %s", status, words)
	return f
}

// messageBytesMax bounds what an engine can put into our errors and logs.
const messageBytesMax = 1024

// readError reads {"code":..,"message":..}. What it cannot read is code 0 and an empty message.
func readError(raw json.RawMessage) (code int, message string) {
	var fields struct {
		Code    json.RawMessage `json:"code"`
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		fields.Message = raw // older servers send a plain string
	}
	code, err := strconv.Atoi(strings.Trim(string(fields.Code), `"`))
	if err != nil {
		code = 0
	}
	if json.Unmarshal(fields.Message, &message) != nil {
		message = ""
	}
	if len(message) > messageBytesMax {
		message = strings.ToValidUTF8(message[:messageBytesMax], "")
	}
	return code, message
}

// retryAfterMax bounds what a server may ask for.
const retryAfterMax = time.Hour

// retryAfter reads the form in seconds; a date or nonsense is nothing.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, retryAfterMax)
}
