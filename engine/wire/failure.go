package wire

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
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
	case errors.As(err, &dial) && lacking(err):
		kind = engine.Local
	case errors.As(err, &dial):
		kind = engine.Refused
	case errors.As(err, &certificate):
		kind = engine.Operator
	}
	return &engine.Failure{Kind: kind, Err: err}
}

// lacking says whether a connection could not even be asked for: this process has no more open files, this machine no more of them,
// no port, no memory for another socket. The engine has no part in it.
func lacking(err error) bool {
	var lookUp *net.DNSError
	if errors.As(err, &lookUp) { // it keeps its cause to itself
		file, opened := os.Open(os.DevNull)
		_ = file.Close()
		err = opened
	}
	for _, lack := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOMEM, syscall.ENOBUFS} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}

// Broken is an answer that makes no sense.
func Broken(format string, args ...any) *engine.Failure {
	return &engine.Failure{Kind: engine.Broken, Err: fmt.Errorf(format, args...)}
}

// SaysNothing tells data that is no frame of an answer at all, by the error of reading it: nothing, null, a number, a list. Servers
// send such to keep a connection open.
func SaysNothing(data []byte, err error) bool {
	var other *json.UnmarshalTypeError
	return len(bytes.TrimSpace(data)) == 0 || errors.As(err, &other) && other.Field == ""
}

// Unfinished is an answer that ends in good order, but without a finish.
func Unfinished() *engine.Failure {
	return &engine.Failure{Kind: engine.Broken, Unfinished: true, Err: errors.New("the stream ended without a finish")}
}

// Refuse is a request that the engine cannot serve, refused before it is sent.
func Refuse(param, message string) *engine.Failure {
	return &engine.Failure{Kind: engine.Client, Param: param, Message: message}
}

// statusFailure classifies an answer whose status is not 200, with the start of its body.
func statusFailure(resp *http.Response, body []byte) *engine.Failure {
	said := ReadAnswer(body)
	said.Code = resp.StatusCode
	f := said.Failure()
	if f.Kind == engine.Shed {
		f.RetryAfter = retryAfter(resp.Header)
	}
	return f
}

// Said is what an engine says of an error. Code is a status, 0 if it gives none.
type Said struct {
	Code    int
	Message string
	Param   string
}

// Failure is the one table from status to kind, for answers and for error frames, whose code is a status too.
func (s Said) Failure() *engine.Failure {
	f := &engine.Failure{Kind: engine.Broken, FromEngine: true, Status: s.Code, Param: s.Param}
	switch {
	case s.Code == http.StatusTooManyRequests, s.Code == http.StatusServiceUnavailable:
		f.Kind = engine.Shed
	case s.Code == http.StatusUnauthorized, s.Code == http.StatusForbidden, s.Code == http.StatusNotFound,
		s.Code == http.StatusMethodNotAllowed, s.Code == http.StatusNotImplemented, // something that is no such server
		s.Code >= 300 && s.Code < 400:
		f.Kind = engine.Operator
		f.Missing = s.Code == http.StatusNotFound && s.Param == "model"
	case s.Code == http.StatusRequestTimeout:
	case s.Code >= 400 && s.Code < 500:
		f.Kind, f.Message = engine.Client, s.Message
		if s.Message == "" {
			f.Message = "the engine refused the request"
		}
		return f
	}
	words := s.Message
	if words == "" {
		words = "no message"
	}
	f.Err = fmt.Errorf("status %d: %s", s.Code, words)
	return f
}

// FrameFailure classifies an error frame. An engine that has begun to answer does not shed any more.
func FrameFailure(raw json.RawMessage, begun bool) *engine.Failure {
	f := ReadError(raw).Failure()
	if f.Kind == engine.Shed && begun {
		f.Kind = engine.Broken
	}
	return f
}

// IsError tells an error member that says something from one that is absent or null.
func IsError(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// ReadAnswer reads the body of an answer that is an error, in any of the forms that servers have: {"error":{..}},
// {"error":"words"}, {"detail":"words"}, or the error's members at the top. What it cannot read is empty.
func ReadAnswer(body []byte) Said {
	var answer struct {
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return Said{}
	}
	switch {
	case IsError(answer.Error):
		return ReadError(answer.Error)
	case IsError(answer.Detail):
		return ReadError(answer.Detail)
	}
	return ReadError(body)
}

// MessageBytesMax bounds what an engine can put into our errors and logs.
const MessageBytesMax = 1024

// ReadError reads {"code":..,"message":..,"param":..} or plain words. What it cannot read is empty.
func ReadError(raw json.RawMessage) Said {
	var fields struct {
		Code    json.RawMessage `json:"code"`
		Message json.RawMessage `json:"message"`
		Param   json.RawMessage `json:"param"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		fields.Message = raw
	}
	word := strings.Trim(string(fields.Code), `"`)
	code, err := strconv.Atoi(word)
	if err != nil {
		code = 0
	}
	said := Said{Code: code, Message: text(fields.Message), Param: text(fields.Param)}
	if said.Param == "" && word == "model_not_found" { // as OpenAI says it
		said.Param = "model"
	}
	return said
}

// text reads a JSON string, bounded; anything else is "".
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	if len(s) > MessageBytesMax {
		s = strings.ToValidUTF8(s[:MessageBytesMax], "")
	}
	return s
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
