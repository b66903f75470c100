package jinja

// statement parses the tag at hand up to its end (of the end tag if it has a body).
func (p *parser) statement() stmt {
	if p.peek().kind != tokenName {
		p.fail("tag name expected")
	}
	tag := p.next().text
	switch tag {
	case "for":
		return p.forTag()
	case "if":
		return p.ifTag()
	case "set":
		return p.setTag()
	case "macro":
		return p.macroTag()
	case "call":
		return p.callTag()
	case "filter":
		f := p.filters(nil, p.filter(nil))
		return &filterStmt{f, p.bodyTo("endfilter")}
	case "with":
		return p.withTag()
	case "generation":
		return &scopeStmt{p.functionBody("endgeneration")}
	case "break":
		p.needLoop(tag)
		return jumpStmt(controlBreak)
	case "continue":
		p.needLoop(tag)
		return jumpStmt(controlContinue)
	case "print":
		return p.printTag()
	}
	p.fail("Encountered unknown tag '%s'.", tag)
	return nil
}

// needLoop refuses break and continue where no loop of the same function is around, as Python's compiler does.
func (p *parser) needLoop(tag string) {
	if p.inLoop == 0 {
		p.fail("'%s' outside loop", tag)
	}
}

func (p *parser) printTag() stmt {
	n := &printStmt{}
	for p.peek().kind != tokenBlockEnd {
		if len(n.values) > 0 {
			p.expectOperator(",")
		}
		n.values = append(n.values, p.expr(true))
	}
	return n
}

func (p *parser) ifTag() stmt {
	n := &ifStmt{}
	for {
		n.conditions = append(n.conditions, p.tuple(false))
		n.bodies = append(n.bodies, p.body("elif", "else", "endif"))
		switch p.next().text {
		case "else":
			n.otherwise = p.bodyTo("endif")
			return n
		case "endif":
			return n
		}
	}
}

func (p *parser) withTag() stmt {
	n := &withStmt{}
	for p.peek().kind != tokenBlockEnd {
		if len(n.targets) > 0 {
			p.expectOperator(",")
		}
		n.targets = append(n.targets, p.target(false))
		p.expectOperator("=")
		n.values = append(n.values, p.expr(true))
	}
	n.body = p.bodyTo("endwith")
	return n
}

func (p *parser) macroTag() stmt {
	m := &macroDef{name: p.expectName()}
	m.symbol = p.symbol(m.name)
	p.signature(m)
	p.macroBody(m, "endmacro")
	return &macroStmt{m}
}

func (p *parser) callTag() stmt {
	m := &macroDef{name: "caller"}
	if p.atOperator("(") {
		p.signature(m)
	}
	c, ok := p.expr(true).(*callExpr)
	if !ok {
		p.fail("expected call")
	}
	p.macroBody(m, "endcall")
	return &callStmt{c, m}
}

// macroBody parses what a macro prints.
func (p *parser) macroBody(m *macroDef, end string) {
	p.macros = append(p.macros, m)
	m.body = p.functionBody(end)
	p.macros = p.macros[:len(p.macros)-1]
}

// functionBody parses a body that jinja2 compiles to a function of its own, so that a jump can't leave it.
func (p *parser) functionBody(end string) block {
	outside := p.inLoop
	p.inLoop = 0
	b := p.bodyTo(end)
	p.inLoop = outside
	return b
}

// signature parses the parameters of a macro or call tag.
func (p *parser) signature(m *macroDef) {
	p.expectOperator("(")
	for !p.atOperator(")") {
		if len(m.params) > 0 {
			p.expectOperator(",")
		}
		name := p.expectName()
		m.params = append(m.params, parameter{p.symbol(name), name})
		if p.skipOperator("=") {
			m.defaults = append(m.defaults, p.expr(true))
		} else if len(m.defaults) > 0 {
			p.fail("non-default argument follows default argument")
		}
	}
	p.expectOperator(")")
}

func (p *parser) forTag() stmt {
	n := &forStmt{target: p.target(false)}
	if !p.skipName("in") {
		p.fail("expected token 'in', got '%s'", p.peek())
	}
	n.source = p.tupleUntil(false, "recursive")
	if p.skipName("if") {
		n.condition = p.expr(true)
	}
	n.recursive = p.skipName("recursive")
	n.loop = p.symbol("loop")
	p.loops = append(p.loops, n)
	p.inLoop++
	n.body = p.body("endfor", "else")
	p.inLoop--
	p.loops = p.loops[:len(p.loops)-1]
	if p.next().text == "else" {
		n.otherwise = p.bodyTo("endfor")
	}
	n.keepsScope = definesMacro(n.body)
	n.usesLoop = n.usesLoop || n.recursive
	return n
}

// definesMacro reports whether b makes a macro or caller that keeps the scope of b.
func definesMacro(b block) bool {
	for _, x := range b {
		switch y := x.stmt.(type) {
		case *macroStmt, *callStmt:
			return true
		case *ifStmt:
			for _, z := range y.bodies {
				if definesMacro(z) {
					return true
				}
			}
			if definesMacro(y.otherwise) {
				return true
			}
		}
	}
	return false
}

func (p *parser) setTag() stmt {
	t := p.target(true)
	if p.skipOperator("=") {
		return &setStmt{t, p.tuple(true)}
	}
	var f *filterExpr
	if p.atOperator("|") {
		f = p.filters(nil, nil)
	}
	return &setBlockStmt{t, f, p.bodyTo("endset")}
}

// target parses what is assigned to: a name, an attribute of a namespace if attrs is set, or a tuple of these.
func (p *parser) target(attrs bool) *target {
	first := p.singleTarget(attrs)
	if !p.atOperator(",") {
		return first
	}
	t := &target{parts: []*target{first}}
	for p.skipOperator(",") {
		if p.atOperator("=") || p.atName("in") || p.peek().kind == tokenBlockEnd {
			break
		}
		t.parts = append(t.parts, p.singleTarget(attrs))
	}
	return t
}

func (p *parser) singleTarget(attrs bool) *target {
	if p.atOperator("(") {
		p.enter()
		defer p.leave()
		p.next()
		t := p.target(attrs)
		p.expectOperator(")")
		return t
	}
	name := p.expectName()
	switch name {
	case "true", "false", "none", "True", "False", "None":
		p.fail("can't assign to '%s'", name)
	}
	t := &target{symbol: p.symbol(name), name: name}
	if attrs && p.skipOperator(".") {
		t.attr = p.expectName()
	}
	return t
}
