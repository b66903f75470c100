package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/hf"
	"plimsoll/tokenizer/jinja"
)

// ErrNoTemplate is what Render returns for a model whose folder holds no chat template. It matches [chat.ErrNoTemplate].
var ErrNoTemplate error = noTemplateError{}

type noTemplateError struct{}

func (noTemplateError) Error() string { return "this model has no chat template: use /v1/completions" }

func (noTemplateError) Unwrap() error { return chat.ErrNoTemplate }

// Model is one model's tokenizer and chat template.
type Model struct {
	*hf.Tokenizer

	renderer *chat.Renderer // nil: no chat template, or a broken one
	broken   error          // of a template that does not compile
	ends     []uint32
	now      func() time.Time
}

// Load reads a model's folder. A chat template that does not compile is no error of Load's, since text can be completed
// without: [Model.TemplateError] tells of it. dir names it in errors, which say the file and the place; now is the clock that templates
// may ask for the date.
func Load(fsys fs.FS, dir string, now func() time.Time) (*Model, error) {
	tok, err := hf.LoadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	m := &Model{Tokenizer: tok, now: now}
	if err := m.load(fsys, dir); err != nil {
		return nil, errors.Join(err, tok.Close())
	}
	return m, nil
}

func (m *Model) load(fsys fs.FS, dir string) error {
	var err error
	if m.ends, err = m.Tokenizer.EndTokens(fsys, dir); err != nil {
		return err
	}
	var syntax *jinja.SyntaxError
	source, err := chat.Load(fsys, jinja.DefaultLimits())
	switch {
	case errors.Is(err, chat.ErrNoTemplate):
		return nil
	case errors.As(err, &syntax):
		m.broken = fmt.Errorf("%s: %w", dir, err)
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", dir, err)
	}
	if m.renderer, err = chat.New(source.Template, source.Config()); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// Ends are the IDs that end an answer, sorted.
func (m *Model) Ends() []uint32 { return slices.Clone(m.ends) }

// TemplateError says why the chat template does not compile: the file, the line and what is wrong. nil if it does, or if
// there is none.
func (m *Model) TemplateError() error { return m.broken }

// Render turns a chat request into the prompt's text. It fails with ErrNoTemplate, the TemplateError, or a [*chat.BadInput].
func (m *Model) Render(req chat.Request) (string, error) {
	switch {
	case m.broken != nil:
		return "", m.broken
	case m.renderer == nil:
		return "", ErrNoTemplate
	}
	return m.renderer.Render(req, m.now)
}

// Chat renders a chat request and encodes the prompt. A template writes all special tokens itself, so the encoder adds none.
func (m *Model) Chat(req chat.Request) (text string, ids []uint32, err error) {
	if text, err = m.Render(req); err != nil {
		return "", nil, err
	}
	ids, err = m.Encode(text, false)
	return text, ids, err
}
