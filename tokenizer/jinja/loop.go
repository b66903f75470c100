package jinja

// forStmt is {% for target in source if condition recursive %}.
type forStmt struct {
	target     *target
	source     expr
	condition  expr // nil: every item
	recursive  bool
	usesLoop   bool // the body names "loop"
	keepsScope bool // the body defines a macro or caller, which keeps the scope of its turn
	loop       symbol
	body       block
	otherwise  block // {% else %}: nothing was walked over
}

// loopContext is the variable "loop" of one walk over a source.
type loopContext struct {
	def   *forStmt
	outer *scope
	s     *state

	source  []Value // not yet looked at
	fetched []Value // accepted by the condition, not yet walked over
	prev    Value   // missing before the second turn
	current Value   // missing before the first
	index0  int64   // of the current turn, from 0
	total   int64   // -1: not known
	depth   int64   // of recursion, from 1

	watched  []Value // the arguments of the last loop.changed()
	watching bool
}

func (n *forStmt) exec(s *state) control { return n.walk(s, n.source.eval(s), 1, s.scope) }

// walk runs the loop over a source, inside the scope outer.
func (n *forStmt) walk(s *state, source Value, depth int64, outer *scope) control {
	l := &loopContext{
		def: n, outer: outer, s: s, source: s.iterate(source),
		prev: missing{}, current: missing{}, index0: -1, total: -1, depth: depth,
	}
	if n.condition == nil {
		l.total = int64(len(l.source))
	}
	saved := s.scope
	sc := l.turnScope()
	own := len(sc.names)
	for {
		v, ok := l.peek()
		if !ok {
			break
		}
		s.work(1)
		l.fetched = l.fetched[1:]
		l.prev, l.current = l.current, v
		l.index0++
		if n.keepsScope && l.index0 > 0 {
			sc = l.turnScope()
		} else {
			sc.names, sc.values = sc.names[:own], sc.values[:own]
		}
		s.scope = sc
		n.target.assign(s, v)
		if s.run(n.body) == controlBreak {
			break
		}
	}
	s.scope = saved
	if l.index0 >= 0 || n.otherwise == nil {
		return controlNone
	}
	s.scope = s.nest(outer)
	c := s.run(n.otherwise)
	s.scope = saved
	return c
}

// turnScope returns the scope of one turn, with "loop" in it if the body uses that.
func (l *loopContext) turnScope() *scope {
	sc := l.s.nest(l.outer)
	sc.names, sc.values = make([]symbol, 0, 4), make([]Value, 0, 4)
	if l.def.usesLoop {
		sc.declare(l.def.loop, l)
	}
	return sc
}

// fetch moves the next item that passes the condition to the fetched ones.
func (l *loopContext) fetch() bool {
	for len(l.source) > 0 {
		v := l.source[0]
		l.source = l.source[1:]
		if l.def.condition == nil || l.accepts(v) {
			l.fetched = append(l.fetched, v)
			return true
		}
	}
	return false
}

// accepts evaluates the loop's condition for an item.
func (l *loopContext) accepts(v Value) bool {
	s := l.s
	s.work(1)
	saved := s.scope
	s.scope = s.nest(l.outer)
	l.def.target.assign(s, v)
	ok := truthy(l.def.condition.eval(s))
	s.scope = saved
	return ok
}

// peek returns the item of the next turn.
func (l *loopContext) peek() (Value, bool) {
	if len(l.fetched) == 0 && !l.fetch() {
		return missing{}, false
	}
	return l.fetched[0], true
}

// length is loop.length: it looks at every item.
func (l *loopContext) length() int64 {
	if l.total < 0 {
		for l.fetch() {
			l.s.alloc(valueBytes)
		}
		l.total = l.index0 + 1 + int64(len(l.fetched))
	}
	return l.total
}

// attr returns an attribute of "loop".
func (l *loopContext) attr(name string) (Value, bool) {
	switch name {
	case "index":
		return l.index0 + 1, true
	case "index0":
		return l.index0, true
	case "first":
		return l.index0 == 0, true
	case "last":
		_, more := l.peek()
		return !more, true
	case "length":
		return l.length(), true
	case "revindex":
		return l.length() - l.index0, true
	case "revindex0":
		return l.length() - l.index0 - 1, true
	case "depth":
		return l.depth, true
	case "depth0":
		return l.depth - 1, true
	case "previtem":
		if l.index0 == 0 {
			return &undefined{message: "there is no previous item"}, true
		}
		return l.prev, true
	case "nextitem":
		if v, ok := l.peek(); ok {
			return v, true
		}
		return &undefined{message: "there is no next item"}, true
	case "cycle":
		return &function{name, l.cycle}, true
	case "changed":
		return &function{name, l.changed}, true
	}
	return nil, false
}

func (l *loopContext) cycle(_ *state, a args) Value {
	if len(a.positional) == 0 {
		throw(KindType, "no items for cycling given")
	}
	return a.positional[int(l.index0)%len(a.positional)]
}

func (l *loopContext) changed(s *state, a args) Value {
	if l.watching && s.equalItems(l.watched, a.positional, 0) {
		return false
	}
	l.watching, l.watched = true, a.positional
	return true
}

// call is loop(items) in a recursive loop: the loop's text over other items.
func (l *loopContext) call(s *state, a args) Value {
	if !l.def.recursive {
		throw(KindType, "The loop must have the 'recursive' marker to be called recursively.")
	}
	s.enterCall()
	out, sc, line := s.out, s.scope, s.line
	t := &text{s: s}
	s.out = t
	l.def.walk(s, a.arg(0, "iterable", nil), l.depth+1, l.outer)
	s.out, s.scope, s.line = out, sc, line
	s.depth--
	return t.String()
}
