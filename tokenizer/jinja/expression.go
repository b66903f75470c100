package jinja

// expr is a node of the syntax tree that has a value.
type expr interface {
	eval(s *state) Value
}

// constExpr is a literal.
type constExpr struct{ value Value }

func (e *constExpr) eval(*state) Value { return e.value }

// nameExpr is a variable.
type nameExpr struct {
	symbol symbol
	name   string
}

func (e *nameExpr) eval(s *state) Value { return s.variable(e.symbol, e.name) }

// evalAll evaluates expressions in order.
func evalAll(s *state, es []expr) []Value {
	s.alloc(valueBytes * len(es))
	out := make([]Value, len(es))
	for i, e := range es {
		out[i] = e.eval(s)
	}
	return out
}

// listExpr is [items].
type listExpr struct{ items []expr }

func (e *listExpr) eval(s *state) Value { return &List{evalAll(s, e.items)} }

// tupleExpr is (items).
type tupleExpr struct{ items []expr }

func (e *tupleExpr) eval(s *state) Value { return &tuple{evalAll(s, e.items)} }

// dictExpr is {key: value}.
type dictExpr struct{ keys, values []expr }

func (e *dictExpr) eval(s *state) Value {
	s.alloc(4 * valueBytes * len(e.keys))
	d := NewDict(len(e.keys))
	for i := range e.keys {
		k := e.keys[i].eval(s)
		s.hashable(k)
		s.put(d, k, e.values[i].eval(s))
	}
	return d
}

// condExpr is "then if condition else otherwise".
type condExpr struct {
	condition, then expr
	otherwise       expr // nil: undefined
}

func (e *condExpr) eval(s *state) Value {
	if truthy(e.condition.eval(s)) {
		return e.then.eval(s)
	}
	if e.otherwise == nil {
		return &undefined{message: "the inline if-expression evaluated to false and no else section was defined."}
	}
	return e.otherwise.eval(s)
}

// orExpr is "left or right".
type orExpr struct{ left, right expr }

func (e *orExpr) eval(s *state) Value {
	if v := e.left.eval(s); truthy(v) {
		return v
	}
	return e.right.eval(s)
}

// andExpr is "left and right".
type andExpr struct{ left, right expr }

func (e *andExpr) eval(s *state) Value {
	if v := e.left.eval(s); !truthy(v) {
		return v
	}
	return e.right.eval(s)
}

// notExpr is "not operand".
type notExpr struct{ operand expr }

func (e *notExpr) eval(s *state) Value { return !truthy(e.operand.eval(s)) }

// comparison is one operator of a chain of comparisons and its right side.
type comparison struct {
	op    string
	right expr
}

// compareExpr is "first op right op right ...", as in Python true if each neighbouring pair holds.
type compareExpr struct {
	first expr
	rest  []comparison
}

func (e *compareExpr) eval(s *state) Value {
	left := e.first.eval(s)
	for _, c := range e.rest {
		right := c.right.eval(s)
		if !s.holds(c.op, left, right) {
			return false
		}
		left = right
	}
	return true
}

// holds evaluates one comparison.
func (s *state) holds(op string, a, b Value) bool {
	switch op {
	case "==":
		return s.equal(a, b)
	case "!=":
		return !s.equal(a, b)
	case "in":
		return s.contains(b, a)
	case "not in":
		return !s.contains(b, a)
	}
	order := s.compare(op, a, b)
	if order == unordered {
		return false
	}
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// concatExpr is "a ~ b ~ ...".
type concatExpr struct{ parts []expr }

func (e *concatExpr) eval(s *state) Value {
	t := text{s: s}
	for _, x := range e.parts {
		t.add(s.str(x.eval(s)))
	}
	return t.String()
}

// attrExpr is value.name.
type attrExpr struct {
	value expr
	name  string
}

func (e *attrExpr) eval(s *state) Value { return s.attribute(e.value.eval(s), e.name) }

// itemExpr is value[key].
type itemExpr struct{ value, key expr }

func (e *itemExpr) eval(s *state) Value { return s.subscript(e.value.eval(s), e.key.eval(s)) }

// callExpr is callee(args).
type callExpr struct {
	callee expr
	args   argList
}

func (e *callExpr) eval(s *state) Value {
	a, isAttr := e.callee.(*attrExpr)
	if !isAttr {
		f := e.callee.eval(s)
		return s.call(f, e.args.eval(s))
	}
	receiver := a.value.eval(s)
	if t, ok := receiver.(string); ok {
		if m := s.template.builtins.stringMethods[a.name]; m != nil { // without making a bound method
			return s.callMethod(m, t, e.args.eval(s))
		}
	}
	return s.call(s.attribute(receiver, a.name), e.args.eval(s))
}

// call is f(a).
func (s *state) call(f Value, a args) Value {
	switch x := f.(type) {
	case *macro:
		return x.call(s, a)
	case *function:
		s.work(1)
		return x.call(s, a)
	case *loopContext:
		return x.call(s, a)
	case *undefined:
		x.fail()
	}
	throw(KindType, "'%s' object is not callable", typeName(f))
	return nil
}

// filterExpr is value|name(args). The innermost filter of a block's chain has no value of its own.
type filterExpr struct {
	value  expr // nil in {% filter a|b %} and {% set x | a %}
	name   string
	filter filter // nil: there is none of that name
	args   argList
	line   int
}

func (e *filterExpr) eval(s *state) Value { return e.apply(s, e.value.eval(s)) }

func (e *filterExpr) apply(s *state, v Value) Value {
	if e.filter == nil {
		throw(KindRuntime, "No filter named '%s' found.", e.name)
	}
	return s.filter(e.filter, v, e.args.eval(s))
}

// chain runs a chain of filters that has no input of its own over v.
func (e *filterExpr) chain(s *state, v Value) Value {
	if inner, ok := e.value.(*filterExpr); ok {
		v = inner.chain(s, v)
	}
	return e.apply(s, v)
}

// testExpr is "value is name(args)".
type testExpr struct {
	value expr
	name  string
	test  test // nil: there is none of that name
	args  argList
	line  int
}

func (e *testExpr) eval(s *state) Value {
	if e.test == nil {
		throw(KindRuntime, "No test named '%s' found.", e.name)
	}
	v := e.value.eval(s)
	s.work(1)
	return e.test(s, v, e.args.eval(s))
}
