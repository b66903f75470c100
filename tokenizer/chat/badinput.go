package chat

import (
	"errors"
	"fmt"
	"strings"

	"plimsoll/tokenizer/jinja"
)

// BadInput is a request that the client must change: HTTP 400.
//
//nolint:errname // a kind of answer more than a failure: the tokenizer room calls it so everywhere
type BadInput struct {
	Param   string // the parameter at fault, such as "tools" or "messages[2].content"
	Message string // for the client: a sentence that begins with the parameter, or the template's own
	Err     error  // the cause, nil if there is none but the message
}

// Error returns the message, which names the parameter.
func (e *BadInput) Error() string {
	if strings.HasPrefix(e.Message, e.Param+" ") {
		return e.Message
	}
	return e.Param + ": " + e.Message
}

// Unwrap returns the cause.
func (e *BadInput) Unwrap() error { return e.Err }

// badInput says what a parameter must be or can't be; the sentence begins with its name.
func badInput(param, format string, args ...any) error {
	return &BadInput{Param: param, Message: param + " " + fmt.Sprintf(format, args...)}
}

// decode decodes a JSON parameter; present is false for an absent or null one.
func decode(param string, raw []byte) (v jinja.Value, present bool, err error) {
	if len(raw) == 0 {
		return nil, false, nil
	}
	v, err = jinja.FromJSON(raw)
	if err != nil {
		return nil, false, &BadInput{Param: param, Message: param + " is not valid JSON: " + err.Error(), Err: err}
	}
	return v, v != nil, nil
}

// renderFailure turns a failed render into a BadInput, unless the fault is ours.
func renderFailure(err error) error {
	var e *jinja.Error
	if !errors.As(err, &e) || e.Kind == jinja.KindInternal {
		return fmt.Errorf("rendering the chat template: %w", err)
	}
	return &BadInput{Param: "messages", Message: e.Message, Err: err}
}
