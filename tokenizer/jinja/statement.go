package jinja

// control is how a statement ends: the loop around it goes on as usual, or is left, or takes its next item.
type control uint8

const (
	controlNone control = iota
	controlBreak
	controlContinue
)

// stmt is a node of the syntax tree that prints or sets something.
type stmt interface {
	exec(s *state) control
}

// located is a statement and the line it begins on.
type located struct {
	stmt
	line int
}

// block is a sequence of statements.
type block []located

// run executes a block up to a jump.
func (s *state) run(b block) control {
	for i := range b {
		s.line = b[i].line
		s.work(1)
		if c := b[i].exec(s); c != controlNone {
			return c
		}
	}
	return controlNone
}

// dataStmt is text between tags.
type dataStmt struct{ text string }

func (n *dataStmt) exec(s *state) control {
	s.out.add(n.text)
	return controlNone
}

// printStmt is {{ value }}, or {% print value, value %}.
type printStmt struct{ values []expr }

func (n *printStmt) exec(s *state) control {
	for _, e := range n.values {
		s.out.add(s.str(e.eval(s)))
	}
	return controlNone
}

// ifStmt is {% if %} with its {% elif %} and {% else %}.
type ifStmt struct {
	conditions []expr
	bodies     []block
	otherwise  block
}

func (n *ifStmt) exec(s *state) control {
	for i, c := range n.conditions {
		s.work(1)
		if truthy(c.eval(s)) {
			return s.run(n.bodies[i])
		}
	}
	return s.run(n.otherwise)
}

// scopeStmt is {% generation %}, which marks the model's own text for training and is a mere scope here.
type scopeStmt struct{ body block }

func (n *scopeStmt) exec(s *state) control {
	t, c := s.capture(n.body)
	s.out.add(t)
	return c
}

// jumpStmt is {% break %} or {% continue %}.
type jumpStmt control

func (n jumpStmt) exec(*state) control { return control(n) }

// target is what is assigned to: a name, an attribute of a namespace, or a tuple of targets.
type target struct {
	symbol symbol
	name   string
	attr   string    // empty: the name itself
	parts  []*target // not nil: a tuple
}

// isName reports whether the target is a plain name.
func (t *target) isName() bool { return t.parts == nil && t.attr == "" }

func (t *target) assign(s *state, v Value) {
	if t.parts != nil {
		t.unpack(s, s.iterate(v))
		return
	}
	if t.attr == "" {
		s.set(t.symbol, v)
		return
	}
	ns, ok := s.variable(t.symbol, t.name).(*namespace)
	if !ok {
		throw(KindRuntime, "cannot assign attribute on non-namespace object")
	}
	s.alloc(valueBytes)
	ns.vars.Set(t.attr, v)
}

func (t *target) unpack(s *state, values []Value) {
	if len(values) < len(t.parts) {
		throw(KindValue, "not enough values to unpack (expected %d, got %d)", len(t.parts), len(values))
	}
	if len(values) > len(t.parts) {
		throw(KindValue, "too many values to unpack (expected %d)", len(t.parts))
	}
	for i, x := range t.parts {
		x.assign(s, values[i])
	}
}

// setStmt is {% set target = value %}.
type setStmt struct {
	target *target
	value  expr
}

func (n *setStmt) exec(s *state) control {
	n.target.assign(s, n.value.eval(s))
	return controlNone
}

// setBlockStmt is {% set target | filter %}text{% endset %}.
type setBlockStmt struct {
	target *target
	filter *filterExpr // nil: none
	body   block
}

func (n *setBlockStmt) exec(s *state) control {
	t, c := s.capture(n.body)
	if c != controlNone {
		return c
	}
	var v Value = t
	if n.filter != nil {
		v = n.filter.chain(s, v)
	}
	n.target.assign(s, v)
	return controlNone
}

// filterStmt is {% filter name %}text{% endfilter %}.
type filterStmt struct {
	filter *filterExpr
	body   block
}

func (n *filterStmt) exec(s *state) control {
	t, c := s.capture(n.body)
	if c != controlNone {
		return c
	}
	s.out.add(s.str(n.filter.chain(s, t)))
	return controlNone
}

// withStmt is {% with target = value, ... %}.
type withStmt struct {
	targets []*target
	values  []expr
	body    block
}

func (n *withStmt) exec(s *state) control {
	values := evalAll(s, n.values)
	outer := s.scope
	s.scope = s.nest(outer)
	for i, t := range n.targets {
		t.assign(s, values[i])
	}
	c := s.run(n.body)
	s.scope = outer
	return c
}
