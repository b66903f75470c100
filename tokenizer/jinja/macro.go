package jinja

// parameter is a parameter of a macro.
type parameter struct {
	symbol symbol
	name   string
}

// macroDef is the definition of a macro, or of the body of a call tag.
type macroDef struct {
	symbol   symbol
	name     string
	params   []parameter
	defaults []expr // of the last parameters
	body     block

	usesCaller, usesVarargs, usesKwargs bool // the body names caller, varargs, kwargs
}

// macro is a macro that can be called: its definition and the scope it was defined in.
type macro struct {
	def   *macroDef
	scope *scope
}

// macroStmt is {% macro name(params) %}.
type macroStmt struct{ def *macroDef }

func (n *macroStmt) exec(s *state) control {
	s.set(n.def.symbol, &macro{n.def, s.scope})
	return controlNone
}

// callStmt is {% call(params) callee(args) %}: the body is handed to the callee as "caller".
type callStmt struct {
	call *callExpr
	body *macroDef
}

func (n *callStmt) exec(s *state) control {
	callee := n.call.callee.eval(s)
	a := n.call.args.eval(s)
	a.names = append(append([]string(nil), a.names...), "caller")
	a.named = append(append([]Value(nil), a.named...), &macro{n.body, s.scope})
	s.out.add(s.str(s.call(callee, a)))
	return controlNone
}

// enterCall goes one level down in calls; the caller takes it off s.depth again.
func (s *state) enterCall() {
	s.depth++
	if s.depth > s.limits.MacroDepth {
		throw(KindRecursion, "maximum recursion depth exceeded")
	}
	s.work(1)
}

// param returns the position of a parameter, or -1.
func (d *macroDef) param(name string) int {
	for i, p := range d.params {
		if p.name == name {
			return i
		}
	}
	return -1
}

// takes reports whether the macro has a place of its own for a named argument.
func (d *macroDef) takes(name string) bool {
	return d.param(name) >= 0 || d.usesCaller && name == "caller"
}

// call runs the macro and returns the text it writes.
func (m *macro) call(s *state, a args) Value {
	d := m.def
	s.enterCall()
	s.work(len(d.params) * (1 + len(a.names)) / 8)
	out, outer, line := s.out, s.scope, s.line
	sc := s.nest(m.scope)
	s.alloc(2 * valueBytes * len(d.params))
	m.bind(sc, a)
	s.scope = sc
	if d.usesCaller {
		v, ok := a.keyword("caller")
		if !ok {
			v = &undefined{message: "No caller defined"}
		}
		sc.declare(s.template.symbols["caller"], v)
	}
	m.bindRest(s, sc, a)
	m.bindDefaults(s, sc)
	t := &text{s: s}
	s.out = t
	s.run(d.body)
	s.scope, s.out, s.line = outer, out, line
	s.depth--
	return t.String()
}

// bind gives the parameters their arguments, missing to those without.
func (m *macro) bind(sc *scope, a args) {
	d := m.def
	sc.names = make([]symbol, 0, len(d.params)+2)
	sc.values = make([]Value, 0, len(d.params)+2)
	for i, p := range d.params {
		v, named := a.keyword(p.name)
		switch {
		case i < len(a.positional) && named:
			throw(KindType, "macro '%s' got multiple values for argument '%s'", d.name, p.name)
		case i < len(a.positional):
			v = a.positional[i]
		case !named:
			v = missing{}
		}
		sc.declare(p.symbol, v)
	}
}

// bindRest puts the arguments without a parameter into kwargs and varargs, or fails if the macro does not use these.
func (m *macro) bindRest(s *state, sc *scope, a args) {
	d := m.def
	var rest *Dict
	if d.usesKwargs {
		rest = NewDict(len(a.names))
	}
	for i, name := range a.names {
		if d.takes(name) {
			continue
		}
		if !d.usesKwargs {
			throw(KindType, "macro '%s' takes no keyword argument '%s'", d.name, name)
		}
		rest.Set(name, a.named[i])
	}
	if d.usesKwargs {
		sc.declare(s.template.symbols["kwargs"], rest)
	}
	extra := a.positional[min(len(d.params), len(a.positional)):]
	if d.usesVarargs {
		sc.declare(s.template.symbols["varargs"], &tuple{append([]Value(nil), extra...)})
	} else if len(extra) > 0 {
		throw(KindType, "macro '%s' takes not more than %d argument(s)", d.name, len(d.params))
	}
}

// bindDefaults evaluates the defaults of the parameters without an argument, in the macro's own scope.
func (m *macro) bindDefaults(s *state, sc *scope) {
	d := m.def
	for i, p := range d.params {
		if !isMissing(sc.values[i]) {
			continue
		}
		if j := i - (len(d.params) - len(d.defaults)); j >= 0 {
			sc.values[i] = d.defaults[j].eval(s)
		} else {
			sc.values[i] = &undefined{message: "parameter '" + p.name + "' was not provided"}
		}
	}
}

// attr returns an attribute of a macro.
func (m *macro) attr(name string) Value {
	switch name {
	case "name":
		return m.def.name
	case "arguments":
		t := &tuple{}
		for _, p := range m.def.params {
			t.items = append(t.items, p.name)
		}
		return t
	case "caller":
		return m.def.usesCaller
	case "catch_kwargs":
		return m.def.usesKwargs
	case "catch_varargs":
		return m.def.usesVarargs
	}
	return nil
}
