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
			b.filters[name] = withSignature(name, f)
		}
	}
	return b
}

// withSignature makes a filter fail for arguments that jinja2's filter of that name does not take.
func withSignature(name string, f filter) filter {
	switch name {
	case "map", "select", "reject", "selectattr", "rejectattr", "format": // these hand their arguments on
		return f
	}
	params := filterParams(name)
	return func(s *state, v Value, a args) Value {
		if len(a.positional) > len(params) || len(a.names) > 0 {
			a.atMost("the filter "+name, len(params), params...)
		}
		return f(s, v, a)
	}
}

// filterParams returns the names of a filter's parameters.
func filterParams(name string) []string {
	return map[string][]string{
		"attr":           {"name"},
		"batch":          {"linecount", "fill_with"},
		"center":         {"width"},
		"d":              {"default_value", "boolean"},
		"default":        {"default_value", "boolean"},
		"dictsort":       {"case_sensitive", "by", "reverse"},
		"filesizeformat": {"binary"},
		"float":          {"default"},
		"groupby":        {"attribute", "default", "case_sensitive"},
		"indent":         {"width", "first", "blank"},
		"int":            {"default", "base"},
		"join":           {"d", "attribute"},
		"max":            {"case_sensitive", "attribute"},
		"min":            {"case_sensitive", "attribute"},
		"replace":        {"old", "new", "count"},
		"round":          {"precision", "method"},
		"slice":          {"slices", "fill_with"},
		"sort":           {"reverse", "case_sensitive", "attribute"},
		"sum":            {"attribute", "start"},
		"tojson":         {"ensure_ascii", "indent", "separators", "sort_keys"},
		"trim":           {"chars"},
		"truncate":       {"length", "killwords", "end", "leeway"},
		"unique":         {"case_sensitive", "attribute"},
	}[name]
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
