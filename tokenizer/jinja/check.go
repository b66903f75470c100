package jinja

// checker goes over a parsed template once: it refuses expressions nested too deeply for the stack (the parser bounds
// brackets, but a chain a+b+c… nests to the left without one) and unknown filters and tests where jinja2 refuses them while
// compiling. Under an inline if or an if block ("soft" below) jinja2 lets these pass until they are met.
type checker struct{ maxDepth int }

func (c checker) expr(e expr, line int, soft bool) {
	if e != nil {
		c.exprAt(e, line, soft, 1)
	}
}

func (c checker) exprAt(e expr, line int, soft bool, depth int) {
	if depth > c.maxDepth {
		syntaxFail(line, "an expression nested deeper than %d levels", c.maxDepth)
	}
	switch x := e.(type) {
	case *condExpr:
		soft = true
	case *filterExpr:
		if x.filter == nil && !soft {
			syntaxFail(x.line, "No filter named '%s'.", x.name)
		}
	case *testExpr:
		if x.test == nil && !soft {
			syntaxFail(x.line, "No test named '%s'.", x.name)
		}
	}
	children(e, func(child expr) { c.exprAt(child, line, soft, depth+1) })
}

// block checks the statements of a block; an inner scope is never soft at its start.
func (c checker) block(b block, soft bool) {
	for _, n := range b {
		inner := false
		switch x := n.stmt.(type) {
		case *printStmt:
			c.all(x.values, n.line, soft)
		case *ifStmt:
			c.all(x.conditions, n.line, true)
			inner = true
		case *forStmt:
			c.expr(x.source, n.line, soft)
			c.expr(x.condition, n.line, false)
		case *setStmt:
			c.expr(x.value, n.line, soft)
		case *setBlockStmt:
			c.expr(filterOrNil(x.filter), n.line, false)
		case *filterStmt:
			c.expr(filterOrNil(x.filter), n.line, false)
		case *withStmt:
			c.all(x.values, n.line, soft)
		case *macroStmt:
			c.all(x.def.defaults, n.line, false)
		case *callStmt:
			c.expr(x.call, n.line, soft)
			c.all(x.body.defaults, n.line, false)
		}
		for _, body := range bodies(n.stmt) {
			c.block(body, inner)
		}
	}
}

func (c checker) all(es []expr, line int, soft bool) {
	for _, e := range es {
		c.expr(e, line, soft)
	}
}

// shadowFinder finds the names that the top level assigns before it ever reads them: jinja2 starts these as undefined for
// every inner scope, even when the caller passes a value (VAR_LOAD_UNDEFINED of jinja2.idtracking).
type shadowFinder struct {
	seen    map[symbol]bool
	symbols []symbol
}

func shadowed(b block) []symbol {
	f := &shadowFinder{seen: map[symbol]bool{}}
	f.block(b, true)
	return f.symbols
}

// load notes the names that an expression reads.
func (f *shadowFinder) load(e expr) {
	if e == nil {
		return
	}
	if n, ok := e.(*nameExpr); ok {
		f.seen[n.symbol] = true
	}
	children(e, f.load)
}

// store notes the names that are assigned; shadow is unset in a branch, where a name is resolved from the caller's variables.
func (f *shadowFinder) store(t *target, shadow bool) {
	if t.parts != nil {
		for _, x := range t.parts {
			f.store(x, shadow)
		}
		return
	}
	if t.attr == "" && shadow && !f.seen[t.symbol] {
		f.symbols = append(f.symbols, t.symbol)
	}
	f.seen[t.symbol] = true
}

func (f *shadowFinder) block(b block, shadow bool) {
	for _, n := range b {
		switch x := n.stmt.(type) {
		case *printStmt:
			for _, e := range x.values {
				f.load(e)
			}
		case *ifStmt:
			for i := range x.conditions {
				f.load(x.conditions[i])
				f.block(x.bodies[i], false)
			}
			f.block(x.otherwise, false)
		case *forStmt:
			f.load(x.source)
		case *setStmt:
			f.load(x.value)
			f.store(x.target, shadow)
		case *setBlockStmt:
			f.store(x.target, shadow)
		case *filterStmt:
			f.load(x.filter)
		case *withStmt:
			for _, e := range x.values {
				f.load(e)
			}
		case *macroStmt:
			f.store(&target{symbol: x.def.symbol}, shadow)
		case *callStmt:
			f.load(x.call)
		}
	}
}
