package jinja

import "math/big"

// is makes a test of a predicate on the value alone.
func is(f func(Value) bool) test {
	return unary(func(_ *state, v Value) bool { return f(v) })
}

// unary makes a test that takes no argument.
func unary(f func(s *state, v Value) bool) test {
	return func(s *state, v Value, a args) bool {
		if n := len(a.positional) + len(a.names); n > 0 {
			throw(KindType, "the test takes 1 argument but %d were given", n+1)
		}
		return f(s, v)
	}
}

// binary makes a test that takes one argument.
func binary(f func(s *state, v, operand Value) bool) test {
	return func(s *state, v Value, a args) bool {
		if n := len(a.positional) + len(a.names); n != 1 || len(a.positional) != 1 {
			throw(KindType, "the test takes 2 arguments but %d were given", n+1)
		}
		return f(s, v, a.positional[0])
	}
}

// isA makes a test of a Go type.
func isA[T any](v Value) bool {
	_, ok := v.(T)
	return ok
}

// ordered makes a test of a comparison.
func ordered(op string) test {
	return binary(func(s *state, v, operand Value) bool { return s.holds(op, v, operand) })
}

// remainder makes a test of v % n == rest.
func remainder(n, rest int64) test {
	return unary(func(s *state, v Value) bool { return s.equal(s.binary(opModulo, v, n), rest) })
}

func newTests() map[string]test {
	tests := map[string]test{
		"defined":   is(func(v Value) bool { return !isA[*undefined](v) }),
		"undefined": is(isA[*undefined]),
		"none":      is(func(v Value) bool { return v == nil }),
		"boolean":   is(isA[bool]),
		"true":      is(func(v Value) bool { return v == true }),
		"false":     is(func(v Value) bool { return v == false }),
		"integer":   is(func(v Value) bool { return isA[int64](v) || isA[*big.Int](v) }),
		"float":     is(isA[float64]),
		"number":    is(func(v Value) bool { return asNumber(v).kind != notNumber }),
		"string":    is(func(v Value) bool { return isA[string](v) || isA[markup](v) }),
		"escaped":   is(isA[markup]),
		"mapping":   is(isA[*Dict]),
		"sequence":  is(isSequence),
		"iterable": is(func(v Value) bool {
			return isSequence(v) || isA[*view](v) || isA[*generator](v) || isA[*loopContext](v)
		}),
		"callable": is(func(v Value) bool {
			return isA[*function](v) || isA[*macro](v) || isA[*undefined](v) || isA[*loopContext](v)
		}),
		"odd":  remainder(2, 1),
		"even": remainder(2, 0),
		"divisibleby": binary(func(s *state, v, n Value) bool {
			return s.equal(s.binary(opModulo, v, n), int64(0))
		}),
		"in":     ordered("in"),
		"sameas": binary((*state).same),
		"lower":  unary(func(s *state, v Value) bool { return s.textIs(v, isLower) }),
		"upper":  unary(func(s *state, v Value) bool { return s.textIs(v, isUpper) }),
		"filter": unary(testFilter),
		"test":   unary(testTest),
		"eq":     ordered("=="),
		"ne":     ordered("!="),
		"lt":     ordered("<"),
		"le":     ordered("<="),
		"gt":     ordered(">"),
		"ge":     ordered(">="),
	}
	for alias, name := range map[string]string{
		"==": "eq", "equalto": "eq", "!=": "ne",
		"<": "lt", "lessthan": "lt", "<=": "le",
		">": "gt", "greaterthan": "gt", ">=": "ge",
	} {
		tests[alias] = tests[name]
	}
	return tests
}

func isSequence(v Value) bool {
	switch v.(type) {
	case string, markup, *List, *tuple, *Dict, *intRange, *undefined:
		return true
	}
	return false
}

// same is "a is b": equal scalars of one type count as the same object.
func (s *state) same(a, b Value) bool {
	switch a.(type) {
	case int64, string:
		return typeName(a) == typeName(b) && s.equal(a, b)
	}
	return a == b
}

func (s *state) textIs(v Value, f func(string) bool) bool {
	t := s.str(v)
	s.scan(len(t))
	if !isASCII(t) {
		s.work(2 * len(t) / caseBytesPerStep)
	}
	return f(t)
}

func testFilter(s *state, v Value) bool {
	s.hashable(v)
	name, ok := asString(v)
	return ok && s.template.builtins.filters[name] != nil
}

func testTest(s *state, v Value) bool {
	s.hashable(v)
	name, ok := asString(v)
	return ok && s.template.builtins.tests[name] != nil
}
