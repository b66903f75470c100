package jinja

import (
	"fmt"
	"math/big"
)

// Value is a value of the template language, with Python's meaning. A caller passes nil (None), bool, int64, *big.Int
// (only beyond int64), float64, string, *[List] and *[Dict]. A render never changes a value it was given, so values may be
// shared between renders that run at the same time.
type Value = any

// List is a Python list.
type List struct{ Items []Value }

// markup is a string that is marked as safe (markupsafe.Markup).
type markup string

// tuple is a Python tuple.
type tuple struct{ items []Value }

// view is what dict.items(), keys() and values() return; kind is Python's type name.
type view struct {
	kind  string
	items []Value
}

// generator is an iterator that can be walked once: what map, select and reverse return. kind is Python's type name.
type generator struct {
	kind  string
	items []Value
	next  int
}

// intRange is range(start, stop, step).
type intRange struct{ start, stop, step int64 }

// namespace is the one mutable object of the language: namespace(a=1), written by {% set ns.a = 2 %}.
type namespace struct{ vars *Dict }

// function is a builtin or a bound method.
type function struct {
	name string
	call func(s *state, a args) Value
}

// undefined is a name, attribute or element that is not there. Most uses fail with its message; as text it is empty.
type undefined struct {
	message string
	unsafe  bool // it is there, but the sandbox denies it: every use fails
}

// missing marks a symbol without a value. It never leaves the symbol tables.
type missing struct{}

// fail ends the render because u was used.
func (u *undefined) fail() {
	if u.unsafe {
		throw(KindSecurity, "%s", u.message)
	}
	throw(KindUndefined, "%s", u.message)
}

// failIfUndefined ends the render if v is undefined.
func failIfUndefined(v Value) {
	if u, ok := v.(*undefined); ok {
		u.fail()
	}
}

// failIfUnsafe ends the render if v is denied by the sandbox.
func failIfUnsafe(v Value) {
	if u, ok := v.(*undefined); ok && u.unsafe {
		u.fail()
	}
}

// typeName is type(v).__name__.
func typeName(v Value) string {
	switch x := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case *List:
		return "list"
	case *tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case *intRange:
		return "range"
	case *view:
		return x.kind
	case *generator:
		return x.kind
	case *namespace:
		return "Namespace"
	case *macro:
		return "Macro"
	case *function:
		return "function"
	case *cycler:
		return "Cycler"
	case *undefined:
		return "Undefined"
	case *loopContext:
		return "LoopContext"
	}
	return fmt.Sprintf("%T", v)
}

// describe is how jinja2's messages name an object (jinja2.utils.object_type_repr).
func describe(v Value) string {
	switch v.(type) {
	case nil:
		return "None"
	case *namespace, *macro, *loopContext, *undefined:
		return "jinja2." + typeName(v) + " object"
	}
	return typeName(v) + " object"
}

// truthy is bool(v).
func truthy(v Value) bool {
	switch x := v.(type) {
	case nil:
		return false
	case bool:
		return x
	case int64:
		return x != 0
	case *big.Int:
		return x.Sign() != 0
	case float64:
		return x != 0
	case string:
		return x != ""
	case markup:
		return x != ""
	case *List:
		return len(x.Items) > 0
	case *tuple:
		return len(x.items) > 0
	case *Dict:
		return len(x.keys) > 0
	case *view:
		return len(x.items) > 0
	case *intRange:
		return x.len() > 0
	case *undefined:
		failIfUnsafe(x)
		return false
	}
	return true
}

// asString returns the text of a str or Markup.
func asString(v Value) (string, bool) {
	switch x := v.(type) {
	case string:
		return x, true
	case markup:
		return string(x), true
	}
	return "", false
}

// isIterator reports whether v can be walked once only.
func isIterator(v Value) bool {
	_, ok := v.(*generator)
	return ok
}

// hashable fails for a value that Python can't put into a dict or set.
func (s *state) hashable(v Value) { s.hashableAt(v, 0) }

func (s *state) hashableAt(v Value, depth int) {
	switch x := v.(type) {
	case *List, *Dict:
		throw(KindType, "unhashable type: '%s'", typeName(v))
	case *tuple:
		s.descend(depth)
		for _, e := range x.items {
			s.work(1)
			s.hashableAt(e, depth+1)
		}
	}
}

// descend fails where a walk over a value has come too deep.
func (s *state) descend(depth int) {
	if depth >= s.limits.ValueDepth {
		throw(KindRecursion, "maximum recursion depth exceeded")
	}
}
