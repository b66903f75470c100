package jinja

import (
	"errors"
	"fmt"
)

// Limits bounds what one template may cost. Every field must be positive; see [DefaultLimits].
// A render that meets a limit fails with an [Error] that matches [ErrLimit].
type Limits struct {
	// TemplateBytes is the longest template source, in bytes.
	TemplateBytes int
	// ExpressionDepth is how deep an expression or a statement may nest, in nodes of the syntax tree. The length of a
	// chain (a + b + c, x|f|g) counts, because such a chain leans to the left.
	ExpressionDepth int
	// Steps is how many units of work a render may do: a statement, a turn of a loop, a call, an element looked at,
	// 64 bytes of text scanned. A unit takes some 20 to 100 nanoseconds.
	Steps int
	// OutputBytes is the longest text a render may produce, and the longest string that any expression may build.
	OutputBytes int
	// AllocBytes is an upper estimate of the bytes of all values that a render makes, freed or not, so that it bounds
	// what can be alive at any moment.
	AllocBytes int
	// MacroDepth is how deep calls of macros and recursive loops may nest. At the depth the render fails as Python's does
	// at its recursion limit: with [KindRecursion], which is no limit of ours.
	MacroDepth int
	// Range is the longest range(), in elements (MAX_RANGE of jinja2's sandbox).
	Range int
	// IntegerBits is the size of the largest integer that arithmetic may give.
	IntegerBits int
	// ValueDepth is how deep a value may nest that is compared, printed or written as JSON.
	ValueDepth int
}

// DefaultLimits returns limits that no template met in practice comes near, under which the worst template ends within
// a few seconds and a quarter of a gigabyte.
func DefaultLimits() Limits {
	return Limits{
		TemplateBytes:   1 << 20,
		ExpressionDepth: 200,
		Steps:           10_000_000,
		OutputBytes:     32 << 20,
		AllocBytes:      256 << 20,
		MacroDepth:      120,
		Range:           100_000,
		IntegerBits:     1 << 16,
		ValueDepth:      900,
	}
}

// Validate reports the first field that is not positive, or too large for the Go stack to be safe.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name  string
		value int
		most  int
	}{
		{"TemplateBytes", l.TemplateBytes, 64 << 20},
		{"ExpressionDepth", l.ExpressionDepth, 1000},
		{"Steps", l.Steps, 1 << 40},
		{"OutputBytes", l.OutputBytes, 1 << 31},
		{"AllocBytes", l.AllocBytes, 1 << 40},
		{"MacroDepth", l.MacroDepth, 1000},
		{"Range", l.Range, 1 << 24},
		{"IntegerBits", l.IntegerBits, 1 << 24},
		{"ValueDepth", l.ValueDepth, 10_000},
	} {
		if f.value < 1 || f.value > f.most {
			return fmt.Errorf("jinja: limit %s is %d, not in 1..%d", f.name, f.value, f.most)
		}
	}
	return nil
}

// ErrLimit is what errors.Is finds in an [Error] of [KindLimit]: the render met one of the [Limits]. The engine, which
// has other limits or none, might have rendered the same template.
var ErrLimit = errors.New("jinja: limit exceeded")

// bytesPerStep is how much text a step of work scans.
const bytesPerStep = 64

// valueBytes is what one element of a sequence is reckoned to take.
const valueBytes = 16

// work spends n steps.
func (s *state) work(n int) {
	s.steps += n
	if s.steps > s.limits.Steps {
		throw(KindLimit, "the template did more than %d steps of work", s.limits.Steps)
	}
}

// scan spends the steps of reading n bytes of text.
func (s *state) scan(n int) { s.work(1 + n/bytesPerStep) }

// alloc spends n bytes of memory.
func (s *state) alloc(n int) {
	s.bytes += n
	if s.bytes > s.limits.AllocBytes {
		throw(KindLimit, "the template made values of more than %d bytes", s.limits.AllocBytes)
	}
}

// room fails if a single value of count times size bytes would be too large; it spends nothing.
func (s *state) room(count, size int64) {
	if count > 0 && size > 0 && count > int64(s.limits.OutputBytes)/size {
		throw(KindLimit, "a value would be larger than %d bytes", s.limits.OutputBytes)
	}
}

// charge spends what v takes, a value that a filter or a method has just made, and returns it.
func (s *state) charge(v Value) Value {
	switch x := v.(type) {
	case string:
		s.alloc(len(x))
	case markup:
		s.alloc(len(x))
	case *List:
		s.alloc(valueBytes * len(x.Items))
	case *tuple:
		s.alloc(valueBytes * len(x.items))
	case *view:
		s.alloc(valueBytes * len(x.items))
	case *generator:
		s.alloc(valueBytes * len(x.items))
	case *Dict:
		s.alloc(4 * valueBytes * x.Len())
	}
	return v
}

// inspect spends the steps of a filter or method that reads v once.
func (s *state) inspect(v Value) {
	switch x := v.(type) {
	case string:
		s.scan(len(x))
	case markup:
		s.scan(len(x))
	case *List:
		s.work(1 + len(x.Items))
	case *tuple:
		s.work(1 + len(x.items))
	case *Dict:
		s.work(1 + x.Len())
	case *view:
		s.work(1 + len(x.items))
	case *generator:
		s.work(1 + len(x.items) - x.next)
	default:
		s.work(1)
	}
}
