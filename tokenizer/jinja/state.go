package jinja

import "time"

// state is one render.
type state struct {
	template *Template
	limits   Limits
	root     []Value // the variables of the top level, by symbol
	scope    *scope  // the innermost scope; nil at the top level
	out      *text   // where text goes
	now      func() time.Time

	depth int // of macro calls
	steps int // of work done
	bytes int // of values made
	line  int // of the statement at work
}

// scope holds the variables that one loop turn, macro call or block has set. Names are looked for from the innermost
// scope outwards, the last assignment first.
type scope struct {
	outer  *scope
	names  []symbol
	values []Value
}

// scopeBytes is what a scope is reckoned to take: closures keep scopes alive.
const scopeBytes = 96

// nest returns a new scope inside outer.
func (s *state) nest(outer *scope) *scope {
	s.alloc(scopeBytes)
	return &scope{outer: outer}
}

// declare adds a variable that sc does not have yet.
func (sc *scope) declare(id symbol, v Value) {
	sc.names = append(sc.names, id)
	sc.values = append(sc.values, v)
}

// find returns the value of a symbol, missing if it has none.
func (s *state) find(id symbol) Value {
	for sc := s.scope; sc != nil; sc = sc.outer {
		if n := len(sc.names); n > 16 {
			s.work(n / 16)
		}
		for i := len(sc.names) - 1; i >= 0; i-- {
			if sc.names[i] == id {
				return sc.values[i]
			}
		}
	}
	return s.root[id]
}

// set gives a symbol a value in the innermost scope.
func (s *state) set(id symbol, v Value) {
	sc := s.scope
	if sc == nil {
		s.root[id] = v
		return
	}
	if n := len(sc.names); n > 16 {
		s.work(n / 16)
	}
	for i, x := range sc.names {
		if x == id {
			sc.values[i] = v
			return
		}
	}
	s.alloc(2 * valueBytes)
	sc.declare(id, v)
}

// variable returns the value of a name, undefined if it has none.
func (s *state) variable(id symbol, name string) Value {
	v := s.find(id)
	if isMissing(v) {
		return &undefined{message: "'" + name + "' is undefined"}
	}
	return v
}

// capture runs b in a new scope and returns the text it writes.
func (s *state) capture(b block) (string, control) {
	out, sc := s.out, s.scope
	t := &text{s: s}
	s.out, s.scope = t, s.nest(sc)
	c := s.run(b)
	s.out, s.scope = out, sc
	return t.String(), c
}

func isMissing(v Value) bool {
	_, ok := v.(missing)
	return ok
}
