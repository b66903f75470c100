package jinja

import "math/big"

// is makes a test of a predicate on the value alone.
func is(f func(Value) bool) test {
	return func(_ *state, v Value, _ args) bool { return f(v) }
}

// isA makes a test of a Go type.
func isA[T any](v Value) bool {
	_, ok := v.(T)
	return ok
}

// ordered makes a test of an order.
func ordered(op string) test {
	return func(s *state, v Value, a args) bool { return s.holds(op, v, a.arg(0, "", nil)) }
}

// testOperand returns the argument that a test needs.
func testOperand(a args) Value {
	if len(a.positional) == 0 {
		throw(KindType, "test is missing its argument")
	}
	return a.positional[0]
}

// remainder makes a test of v % n == rest.
func remainder(n, rest int64) test {
	return func(s *state, v Value, _ args) bool { return s.equal(s.binary(opModulo, v, n), rest) }
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
		"divisibleby": func(s *state, v Value, a args) bool {
			return s.equal(s.binary(opModulo, v, testOperand(a)), int64(0))
		},
		"in":     func(s *state, v Value, a args) bool { return s.contains(testOperand(a), v) },
		"sameas": func(s *state, v Value, a args) bool { return s.same(v, testOperand(a)) },
		"lower":  func(s *state, v Value, _ args) bool { return s.textIs(v, isLower) },
		"upper":  func(s *state, v Value, _ args) bool { return s.textIs(v, isUpper) },
		"filter": testFilter,
		"test":   testTest,
		"eq":     func(s *state, v Value, a args) bool { return s.equal(v, testOperand(a)) },
		"ne":     func(s *state, v Value, a args) bool { return !s.equal(v, testOperand(a)) },
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
	return f(t)
}

func testFilter(s *state, v Value, _ args) bool {
	s.hashable(v)
	name, ok := asString(v)
	return ok && s.template.builtins.filters[name] != nil
}

func testTest(s *state, v Value, _ args) bool {
	s.hashable(v)
	name, ok := asString(v)
	return ok && s.template.builtins.tests[name] != nil
}
