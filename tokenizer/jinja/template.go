package jinja

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Template is a compiled template. It never changes, so that any number of goroutines may render it at the same time.
type Template struct {
	name     string
	source   string
	limits   Limits
	builtins *builtins
	body     block
	symbols  map[string]symbol
	initial  []Value  // the globals by symbol, missing elsewhere
	shadowed []symbol // see shadowFinder
}

// standard is what every template can name. Nothing writes to it.
var standard = newBuiltins()

// Compile compiles the source of a template. name is what errors call it, usually a file's name. An error is a *[SyntaxError],
// or about the limits themselves.
func Compile(name, src string, limits Limits) (t *Template, err error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	if len(src) > limits.TemplateBytes {
		return nil, &SyntaxError{name, 1, fmt.Sprintf("the template has %d bytes, more than %d", len(src), limits.TemplateBytes)}
	}
	if !utf8.ValidString(src) {
		return nil, &SyntaxError{name, 1, "the template is not valid UTF-8"}
	}
	defer func() {
		if r := recover(); r != nil {
			t, err = nil, compileError(name, r)
		}
	}()
	p := &parser{tokens: lex(src), builtins: standard, symbols: map[string]symbol{}, maxDepth: limits.ExpressionDepth}
	for _, n := range []string{"caller", "varargs", "kwargs"} {
		p.symbol(n)
	}
	t = &Template{name: name, source: src, limits: limits, builtins: standard, body: p.block()}
	checker{limits.ExpressionDepth}.block(t.body, false)
	t.symbols, t.shadowed = p.symbols, shadowed(t.body)
	t.initial = make([]Value, len(p.names))
	for i, n := range p.names {
		if g, ok := standard.globals[n]; ok {
			t.initial[i] = g
		} else {
			t.initial[i] = missing{}
		}
	}
	return t, nil
}

// compileError turns what a panic of the compiler carried into an error.
func compileError(name string, r any) error {
	if e, ok := r.(*SyntaxError); ok {
		e.Name = name
		return e
	}
	return &Error{Kind: KindInternal, Name: name, Line: 1, Message: fmt.Sprintf("internal error while compiling: %v", r)}
}

// Name returns the name given to [Compile].
func (t *Template) Name() string { return t.name }

// Source returns what was compiled.
func (t *Template) Source() string { return t.source }

// Render renders the template with the given variables; now is the clock of strftime_now, whose zone should be the engine's. The
// variables are not changed. An error is an *[Error]; it matches [ErrLimit] if a limit was met.
func (t *Template) Render(vars map[string]Value, now func() time.Time) (out string, err error) {
	s := &state{template: t, limits: t.limits, root: append([]Value(nil), t.initial...), now: now, line: 1}
	for name, v := range vars {
		if id, ok := t.symbols[name]; ok {
			s.root[id] = v
		}
	}
	for _, id := range t.shadowed {
		s.root[id] = missing{}
	}
	s.out = &text{s: s}
	s.out.b.Grow(initialOutputBytes)
	defer func() {
		if r := recover(); r != nil {
			out, err = "", s.renderError(r)
		}
	}()
	s.run(t.body)
	return s.out.String(), nil
}

// initialOutputBytes is the room for text that a render begins with: that of a short conversation.
const initialOutputBytes = 4096

// renderError turns what a panic of the render carried into an error.
func (s *state) renderError(r any) error {
	e, ok := r.(*Error)
	if !ok {
		e = &Error{Kind: KindInternal, Message: fmt.Sprintf("internal error: %v", r)}
	}
	e.Name, e.Line = s.template.name, s.line
	return e
}
