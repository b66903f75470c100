package tokenize

import (
	"errors"

	"plimsoll/actors/fault"
	"plimsoll/actors/supervise"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/hf"
)

// Fault says what a client did wrong with its prompt; everything else is a fault of ours. param is what it sent.
func Fault(err error, param string) *fault.Fault {
	var inChat *chat.BadInput
	var inText *hf.BadInput
	switch {
	case errors.As(err, &inChat):
		return &fault.Fault{Kind: fault.BadInput, Param: inChat.Param, Message: inChat.Message, Err: err}
	case errors.As(err, &inText):
		return &fault.Fault{Kind: fault.BadInput, Param: param, Message: inText.Message, Err: err}
	case errors.Is(err, tokenizer.ErrNoTemplate):
		return &fault.Fault{Kind: fault.BadInput, Param: param, Message: err.Error(), Err: err}
	}
	return fault.Of(err)
}

// internal is a fault of ours, of which a panic's value tells.
func internal(value any) *fault.Fault {
	return &fault.Fault{Kind: fault.Internal, Message: "internal error", Err: &supervise.PanicError{Value: value}}
}
