package jinja

// filter is the function of a filter: v|name(a).
type filter func(s *state, v Value, a args) Value

// test is the function of a test: v is name(a).
type test func(s *state, v Value, a args) bool

// builtins is all that a template can name. It is made once and never changes.
type builtins struct {
	filters       map[string]filter
	tests         map[string]test
	stringMethods map[string]stringMethod
	globals       map[string]Value
}

func newBuiltins() *builtins {
	b := &builtins{
		filters:       map[string]filter{},
		tests:         newTests(),
		stringMethods: newStringMethods(),
		globals:       newGlobals(),
	}
	for _, group := range []map[string]filter{textFilters(), markupFilters(), sequenceFilters(), selectFilters(), numberFilters()} {
		for name, f := range group {
			b.filters[name] = f
		}
	}
	return b
}

// filter applies a filter and reckons what it costs.
func (s *state) filter(f filter, v Value, a args) Value {
	s.inspect(v)
	return s.charge(f(s, v, a))
}

// filterNamed returns a filter that a template names in a string.
func (s *state) filterNamed(name string) filter {
	f := s.template.builtins.filters[name]
	if f == nil {
		throw(KindRuntime, "No filter named '%s' found.", name)
	}
	return f
}

// testNamed returns a test that a template names in a string.
func (s *state) testNamed(name string) test {
	t := s.template.builtins.tests[name]
	if t == nil {
		throw(KindRuntime, "No test named '%s' found.", name)
	}
	return t
}
