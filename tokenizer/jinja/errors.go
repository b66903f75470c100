package jinja

import "fmt"

// Kind says what went wrong in a render: the Python exception that the same template raises in jinja2, or one of ours.
type Kind uint8

// The kinds. Those after KindInternal have no counterpart in jinja2.
const (
	// KindTemplate is raise_exception: the template itself refuses the conversation, with a message for its author.
	KindTemplate Kind = iota
	// KindUndefined is the use of a name, attribute or element that is not there.
	KindUndefined
	// KindRuntime is jinja2's TemplateRuntimeError: an unknown filter or test that was only met while rendering.
	KindRuntime
	// KindSecurity is what jinja2's immutable sandbox forbids, such as messages.append().
	KindSecurity
	// KindType is a value of the wrong type.
	KindType
	// KindValue is a value of the right type that cannot be used.
	KindValue
	// KindArgument is jinja2's FilterArgumentError.
	KindArgument
	// KindKey is a key that a format string names and nobody gave.
	KindKey
	// KindIndex is a position that a format string names and nobody gave.
	KindIndex
	// KindAssertion is a failed assertion inside a filter.
	KindAssertion
	// KindOverflow is a range longer than the sandbox allows, or a number too large for its use.
	KindOverflow
	// KindZeroDivision is a division by zero.
	KindZeroDivision
	// KindRecursion is a recursion without end, in the template or in the data.
	KindRecursion
	// KindInternal is a fault of this package.
	KindInternal
	// KindLimit is a limit of [Limits].
	KindLimit
	// NumKinds is how many kinds there are.
	NumKinds
)

// String returns the name of the Python exception, or a name in the same style for kinds of ours.
func (k Kind) String() string {
	names := [NumKinds]string{
		KindTemplate:     "TemplateError",
		KindUndefined:    "UndefinedError",
		KindRuntime:      "TemplateRuntimeError",
		KindSecurity:     "SecurityError",
		KindType:         "TypeError",
		KindValue:        "ValueError",
		KindArgument:     "FilterArgumentError",
		KindKey:          "KeyError",
		KindIndex:        "IndexError",
		KindAssertion:    "AssertionError",
		KindOverflow:     "OverflowError",
		KindZeroDivision: "ZeroDivisionError",
		KindRecursion:    "RecursionError",
		KindInternal:     "InternalError",
		KindLimit:        "LimitError",
	}
	if k >= NumKinds {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return names[k]
}

// Error is a render that failed.
type Error struct {
	Kind    Kind
	Name    string // the template's name, as given to Compile
	Line    int    // the line of the statement that failed, from 1
	Message string // for KindTemplate exactly what the template passed to raise_exception
}

// Error returns "name:line: Kind: message".
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d: %s: %s", e.Name, e.Line, e.Kind, e.Message)
}

// Is reports whether target is [ErrLimit] and the error is of [KindLimit].
func (e *Error) Is(target error) bool { return target == ErrLimit && e.Kind == KindLimit }

// SyntaxError is a template that does not compile.
type SyntaxError struct {
	Name    string // the template's name, as given to Compile
	Line    int    // from 1
	Message string
}

// Error returns "name:line: message".
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Message) }

// throw ends the render with an error. It is caught in [Template.Render], which fills in the name and the line.
func throw(kind Kind, format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	panic(&Error{Kind: kind, Message: format})
}

// syntaxFail ends the compilation with an error. It is caught in [Compile], which fills in the name.
func syntaxFail(line int, format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	panic(&SyntaxError{Line: line, Message: format})
}
