package jinja

import "strings"

// The precedence is jinja2's, which differs from Python's: ~ binds tighter than + and -, and a unary minus tighter than
// a filter.

// tuple parses one expression, or several with commas between them. inlineIf allows "a if b else c".
func (p *parser) tuple(inlineIf bool) expr { return p.tupleUntil(inlineIf, "") }

// tupleUntil is tuple that also ends at a name.
func (p *parser) tupleUntil(inlineIf bool, end string) expr {
	items, isTuple := p.tupleItems(inlineIf, end)
	if isTuple {
		return &tupleExpr{items}
	}
	if len(items) == 0 {
		p.fail("Expected an expression, got '%s'", p.peek())
	}
	return items[0]
}

func (p *parser) tupleItems(inlineIf bool, end string) (items []expr, isTuple bool) {
	for {
		if len(items) > 0 {
			p.expectOperator(",")
		}
		kind := p.peek().kind
		if kind == tokenPrintEnd || kind == tokenBlockEnd || p.atOperator(")") || end != "" && p.atName(end) {
			return items, isTuple
		}
		items = append(items, p.expr(inlineIf))
		if !p.atOperator(",") {
			return items, isTuple
		}
		isTuple = true
	}
}

func (p *parser) expr(inlineIf bool) expr {
	p.enter()
	defer p.leave()
	e := p.or()
	for inlineIf && p.skipName("if") {
		c := &condExpr{condition: p.or(), then: e}
		if p.skipName("else") {
			c.otherwise = p.expr(true)
		}
		e = c
	}
	return e
}

func (p *parser) or() expr {
	left := p.and()
	for p.skipName("or") {
		left = &orExpr{left, p.and()}
	}
	return left
}

func (p *parser) and() expr {
	left := p.not()
	for p.skipName("and") {
		left = &andExpr{left, p.not()}
	}
	return left
}

func (p *parser) not() expr {
	if !p.skipName("not") {
		return p.comparison()
	}
	p.enter()
	defer p.leave()
	return &notExpr{p.not()}
}

func (p *parser) comparison() expr {
	first := p.sum()
	var rest []comparison
	for {
		t := p.peek()
		switch {
		case t.kind == tokenOperator && (t.text == "==" || t.text == "!=" || t.text == "<" || t.text == "<=" || t.text == ">" || t.text == ">="):
			p.next()
			rest = append(rest, comparison{t.text, p.sum()})
		case p.skipName("in"):
			rest = append(rest, comparison{"in", p.sum()})
		case p.atName("not") && p.second().kind == tokenName && p.second().text == "in":
			p.next()
			p.next()
			rest = append(rest, comparison{"not in", p.sum()})
		case rest == nil:
			return first
		default:
			return &compareExpr{first, rest}
		}
	}
}

func (p *parser) sum() expr {
	left := p.concat()
	for p.atOperator("+") || p.atOperator("-") {
		op := operator(p.next().text)
		left = &binaryExpr{op, left, p.concat()}
	}
	return left
}

func (p *parser) concat() expr {
	first := p.product()
	if !p.atOperator("~") {
		return first
	}
	parts := []expr{first}
	for p.skipOperator("~") {
		parts = append(parts, p.product())
	}
	return &concatExpr{parts}
}

func (p *parser) product() expr {
	left := p.power()
	for p.atOperator("*") || p.atOperator("/") || p.atOperator("//") || p.atOperator("%") {
		op := operator(p.next().text)
		left = &binaryExpr{op, left, p.power()}
	}
	return left
}

func (p *parser) power() expr {
	left := p.unary(true)
	for p.skipOperator("**") {
		left = &binaryExpr{opPower, left, p.unary(true)}
	}
	return left
}

// unary parses a signed operand with its subscripts and calls, and its filters and tests if those are allowed here.
func (p *parser) unary(filters bool) expr {
	p.enter()
	defer p.leave()
	var e expr
	switch {
	case p.skipOperator("-"):
		e = &negExpr{p.unary(false)}
	case p.skipOperator("+"):
		e = &posExpr{p.unary(false)}
	default:
		e = p.primary()
	}
	e = p.postfix(e)
	for filters {
		switch {
		case p.atOperator("|"):
			e = p.filters(e, nil)
		case p.atName("is"):
			e = p.test(e)
		case p.atOperator("("):
			e = &callExpr{e, p.arguments()}
		default:
			return e
		}
	}
	return e
}

func (p *parser) postfix(e expr) expr {
	for {
		switch {
		case p.skipOperator("."):
			e = p.attribute(e)
		case p.skipOperator("["):
			e = p.subscript(e)
		case p.atOperator("("):
			e = &callExpr{e, p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokenName:
		return p.name(t.text)
	case tokenString:
		var b strings.Builder
		b.WriteString(t.text)
		for p.peek().kind == tokenString {
			b.WriteString(p.next().text)
		}
		return &constExpr{b.String()}
	case tokenInt, tokenFloat:
		return &constExpr{t.value}
	case tokenOperator:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	case tokenEnd, tokenData, tokenBlockBegin, tokenBlockEnd, tokenPrintBegin, tokenPrintEnd:
	}
	syntaxFail(t.line, "unexpected '%s'", t)
	return nil
}

func (p *parser) name(name string) expr {
	switch name {
	case "true", "True":
		return &constExpr{true}
	case "false", "False":
		return &constExpr{false}
	case "none", "None":
		return &constExpr{nil}
	case "loop":
		for _, l := range p.loops {
			l.usesLoop = true
		}
	case "caller":
		for _, m := range p.macros {
			m.usesCaller = true
		}
	case "varargs":
		for _, m := range p.macros {
			m.usesVarargs = true
		}
	case "kwargs":
		for _, m := range p.macros {
			m.usesKwargs = true
		}
	}
	return &nameExpr{p.symbol(name), name}
}

func (p *parser) parenthesis() expr {
	items, isTuple := p.tupleItems(true, "")
	p.expectOperator(")")
	if isTuple || len(items) == 0 {
		return &tupleExpr{items}
	}
	return items[0]
}

func (p *parser) list() expr {
	l := &listExpr{}
	for !p.atOperator("]") {
		if len(l.items) > 0 {
			p.expectOperator(",")
			if p.atOperator("]") {
				break
			}
		}
		l.items = append(l.items, p.expr(true))
	}
	p.expectOperator("]")
	return l
}

func (p *parser) dict() expr {
	d := &dictExpr{}
	for !p.atOperator("}") {
		if len(d.keys) > 0 {
			p.expectOperator(",")
			if p.atOperator("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expr(true))
		p.expectOperator(":")
		d.values = append(d.values, p.expr(true))
	}
	p.expectOperator("}")
	return d
}

// attribute parses what follows a dot: a name, or a position.
func (p *parser) attribute(e expr) expr {
	t := p.next()
	switch t.kind {
	case tokenName:
		return &attrExpr{e, t.text}
	case tokenInt:
		return &itemExpr{e, &constExpr{t.value}}
	case tokenEnd, tokenData, tokenBlockBegin, tokenBlockEnd, tokenPrintBegin, tokenPrintEnd, tokenString, tokenFloat, tokenOperator:
	}
	syntaxFail(t.line, "expected name or number")
	return nil
}

// subscript parses what follows an opening bracket.
func (p *parser) subscript(e expr) expr {
	var keys []expr
	for !p.atOperator("]") {
		if len(keys) > 0 {
			p.expectOperator(",")
		}
		keys = append(keys, p.subscriptKey())
	}
	p.expectOperator("]")
	if len(keys) != 1 {
		return &itemExpr{e, &tupleExpr{keys}}
	}
	if s, ok := keys[0].(*sliceExpr); ok {
		s.value = e
		return s
	}
	return &itemExpr{e, keys[0]}
}

func (p *parser) subscriptKey() expr {
	s := &sliceExpr{}
	if !p.atOperator(":") {
		e := p.expr(true)
		if !p.atOperator(":") {
			return e
		}
		s.start = e
	}
	p.expectOperator(":")
	if !p.atOperator(":") && !p.atOperator("]") && !p.atOperator(",") {
		s.stop = p.expr(true)
	}
	if p.skipOperator(":") && !p.atOperator("]") && !p.atOperator(",") {
		s.step = p.expr(true)
	}
	return s
}

// arguments parses the arguments of a call, filter or test with their parentheses.
func (p *parser) arguments() (a argList) {
	p.expectOperator("(")
	for first := true; !p.atOperator(")"); first = false {
		if !first {
			p.expectOperator(",")
			if p.atOperator(")") {
				break
			}
		}
		switch {
		case p.skipOperator("*"):
			a.star = p.expr(true)
		case p.skipOperator("**"):
			a.doubleStar = p.expr(true)
		case p.peek().kind == tokenName && p.second().kind == tokenOperator && p.second().text == "=":
			a.names = append(a.names, p.next().text)
			p.next()
			a.named = append(a.named, p.expr(true))
		default:
			if len(a.names) > 0 || a.doubleStar != nil || a.star != nil {
				p.fail("invalid syntax for function call expression")
			}
			a.positional = append(a.positional, p.expr(true))
		}
	}
	p.expectOperator(")")
	return a
}

// filters parses a chain of filters ("|a|b") that is put to e, after the filter already read, if one was.
func (p *parser) filters(e expr, read *filterExpr) *filterExpr {
	for p.skipOperator("|") {
		if read != nil {
			e = read
		}
		read = p.filter(e)
	}
	return read
}

// filter parses the name and arguments of one filter.
func (p *parser) filter(e expr) *filterExpr {
	line := p.peek().line
	name := p.dottedName()
	f := &filterExpr{value: e, name: name, filter: p.builtins.filters[name], line: line}
	if p.atOperator("(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) dottedName() string {
	parts := []string{p.expectName()}
	for p.skipOperator(".") {
		parts = append(parts, p.expectName())
	}
	return strings.Join(parts, ".")
}

// test parses "is name", "is not name", each with an argument in parentheses or without.
func (p *parser) test(e expr) expr {
	line := p.next().line
	negated := p.skipName("not")
	name := p.dottedName()
	t := &testExpr{value: e, name: name, test: p.builtins.tests[name], line: line}
	switch {
	case p.atOperator("("):
		t.args = p.arguments()
	case p.atName("is"):
		p.fail("You cannot chain multiple tests with is")
	case p.atTestArgument():
		t.args.positional = []expr{p.postfix(p.primary())}
	}
	if negated {
		return &notExpr{t}
	}
	return t
}

// atTestArgument reports whether the token at hand begins an argument that stands without parentheses.
func (p *parser) atTestArgument() bool {
	switch t := p.peek(); t.kind {
	case tokenName:
		return t.text != "else" && t.text != "or" && t.text != "and"
	case tokenString, tokenInt, tokenFloat:
		return true
	case tokenOperator:
		return t.text == "[" || t.text == "{"
	case tokenEnd, tokenData, tokenBlockBegin, tokenBlockEnd, tokenPrintBegin, tokenPrintEnd:
	}
	return false
}
