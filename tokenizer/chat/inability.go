package chat

import (
	"errors"

	"plimsoll/tokenizer/jinja"
)

// Inability is why a request cannot be rendered here though nothing shows that it is the client's to change: an engine
// that renders by itself may well answer it.
type Inability uint8

const (
	// Media is a message that holds something else than text (images, audio, files).
	Media Inability = iota
	// TemplateFault is a template that does not compile here, or that broke off in the midst of a render, other than by
	// raise_exception. It may be our fault or the request's; the engine's own rendering tells.
	TemplateFault
	// Limit is a render that passed a limit of our template engine. The engine may not have it.
	Limit
	// NoTemplate is a model whose folder holds no chat template.
	NoTemplate

	NumInabilities
)

// String is the word used in logs and metrics.
func (i Inability) String() string {
	switch i {
	case Media:
		return "media"
	case TemplateFault:
		return "template"
	case Limit:
		return "limit"
	case NoTemplate:
		return "no_template"
	case NumInabilities:
	}
	return "unknown"
}

// errMedia is the cause of what is refused because of a part that is no text.
var errMedia = errors.New("a part that is no text")

// CannotRender says whether an error of [Renderer.Render] or [Load] means that the request cannot be rendered here, and why.
// Everything else is the client's to change (malformed messages, what the template refuses with raise_exception), or a
// fault of the machine.
func CannotRender(err error) (why Inability, ok bool) {
	var failed *jinja.Error
	var syntax *jinja.SyntaxError
	switch {
	case errors.Is(err, errMedia):
		return Media, true
	case errors.Is(err, ErrNoTemplate):
		return NoTemplate, true
	case errors.Is(err, jinja.ErrLimit):
		return Limit, true
	case errors.As(err, &syntax), errors.As(err, &failed) && failed.Kind != jinja.KindTemplate:
		return TemplateFault, true
	}
	return 0, false
}
