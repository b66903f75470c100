package jinja

import "slices"

// argList is the arguments of a call as the template writes them.
type argList struct {
	positional       []expr
	names            []string
	named            []expr
	star, doubleStar expr // nil: none
}

// args is evaluated arguments.
type args struct {
	positional []Value
	names      []string
	named      []Value
}

func (l *argList) eval(s *state) (a args) {
	if len(l.positional) > 0 {
		a.positional = evalAll(s, l.positional)
	}
	if l.star != nil {
		more := s.iterate(l.star.eval(s))
		s.alloc(valueBytes * len(more))
		a.positional = append(a.positional, more...)
	}
	if len(l.names) > 0 {
		a.names = l.names
		a.named = evalAll(s, l.named)
	}
	if l.doubleStar != nil {
		l.spread(s, &a)
	}
	return a
}

// spread adds the entries of the ** argument.
func (l *argList) spread(s *state, a *args) {
	d, ok := l.doubleStar.eval(s).(*Dict)
	if !ok {
		throw(KindType, "argument after ** must be a mapping")
	}
	s.alloc(3 * valueBytes * d.Len())
	s.work(d.Len())
	a.names = slices.Clone(a.names)
	for i, k := range d.keys {
		name, ok := asString(k)
		if !ok {
			throw(KindType, "keywords must be strings")
		}
		a.names = append(a.names, name)
		a.named = append(a.named, d.values[i])
	}
}

// keyword returns a named argument.
func (a args) keyword(name string) (Value, bool) {
	for i, n := range a.names {
		if n == name {
			return a.named[i], true
		}
	}
	return nil, false
}

// arg returns the positional argument i, else the named one, else absent. A function without names passes name "".
func (a args) arg(i int, name string, absent Value) Value {
	if i < len(a.positional) {
		return a.positional[i]
	}
	if v, ok := a.keyword(name); ok {
		return v
	}
	return absent
}

// atMost fails if there are more than n positional arguments, or a named one that is not in names.
func (a args) atMost(function string, n int, names ...string) {
	if len(a.positional) > n {
		throw(KindType, "%s takes at most %d arguments (%d given)", function, n, len(a.positional))
	}
	for _, name := range a.names {
		if !slices.Contains(names, name) {
			throw(KindType, "%s got an unexpected keyword argument '%s'", function, name)
		}
	}
}

// needString returns the text of a str or fails; what names the argument in the message.
func needString(v Value, what string) string {
	t, ok := asString(v)
	if !ok {
		failIfUnsafe(v)
		throw(KindType, "%s must be str, not %s", what, typeName(v))
	}
	return t
}
