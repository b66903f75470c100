package jinja

import "strings"

// symbol numbers a name of a template; a render holds the variables of each scope by symbol.
type symbol int32

// parser builds the syntax tree, as jinja2's parser does, from the tokens of a template.
type parser struct {
	tokens   []token
	pos      int
	builtins *builtins
	symbols  map[string]symbol
	names    []string
	macros   []*macroDef // the macros around pos: told when their body uses caller, varargs or kwargs
	loops    []*forStmt  // the loops around pos: told when their body uses loop
	inLoop   int         // loops around pos that break and continue can reach
	depth    int         // of nesting, bounded so that neither this nor the walks over the tree run out of stack
	maxDepth int
}

// symbol returns the number of a name, a new one if need be.
func (p *parser) symbol(name string) symbol {
	if id, ok := p.symbols[name]; ok {
		return id
	}
	id := symbol(len(p.names))
	p.symbols[name] = id
	p.names = append(p.names, name)
	return id
}

// enter goes one level down; the caller defers leave.
func (p *parser) enter() {
	p.depth++
	if p.depth > p.maxDepth {
		p.fail("nested deeper than %d levels", p.maxDepth)
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) fail(format string, args ...any) { syntaxFail(p.peek().line, format, args...) }

// peek returns the token at hand.
func (p *parser) peek() token { return p.tokens[p.pos] }

// second returns the token after the one at hand.
func (p *parser) second() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

// next returns the token at hand and goes on; the end of the template stays at hand.
func (p *parser) next() token {
	t := p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return t
}

func (p *parser) atOperator(op string) bool {
	t := p.peek()
	return t.kind == tokenOperator && t.text == op
}

func (p *parser) atName(name string) bool {
	t := p.peek()
	return t.kind == tokenName && t.text == name
}

// skipOperator goes over op if it is at hand.
func (p *parser) skipOperator(op string) bool {
	if p.atOperator(op) {
		p.next()
		return true
	}
	return false
}

// skipName goes over a name if it is at hand.
func (p *parser) skipName(name string) bool {
	if p.atName(name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expectOperator(op string) {
	if !p.skipOperator(op) {
		p.fail("expected token '%s', got '%s'", op, p.peek())
	}
}

func (p *parser) expectName() string {
	if p.peek().kind != tokenName {
		p.fail("expected token 'name', got '%s'", p.peek())
	}
	return p.next().text
}

func (p *parser) expect(kind tokenKind) {
	if p.peek().kind != kind {
		p.fail("expected token '%s', got '%s'", token{kind: kind}, p.peek())
	}
	p.next()
}

// block parses text and tags up to a tag whose name is one of ends, which stays at hand, or to the end of the template.
func (p *parser) block(ends ...string) block {
	p.enter()
	defer p.leave()
	var body block
	for {
		t := p.peek()
		switch t.kind {
		case tokenEnd:
			if len(ends) > 0 {
				p.fail("Unexpected end of template. Jinja was looking for the following tags: '%s'", strings.Join(ends, "' or '"))
			}
			return body
		case tokenData:
			p.next()
			body = append(body, located{&dataStmt{t.text}, t.line})
		case tokenPrintBegin:
			p.next()
			body = append(body, located{&printStmt{[]expr{p.tuple(true)}}, t.line})
			p.expect(tokenPrintEnd)
		case tokenBlockBegin:
			p.next()
			if p.atOneOf(ends) {
				return body
			}
			body = append(body, located{p.statement(), t.line})
			p.expect(tokenBlockEnd)
		case tokenBlockEnd, tokenPrintEnd, tokenName, tokenString, tokenInt, tokenFloat, tokenOperator:
			p.fail("unexpected '%s'", t)
		}
	}
}

func (p *parser) atOneOf(names []string) bool {
	for _, n := range names {
		if p.atName(n) {
			return true
		}
	}
	return false
}

// body parses the block after a tag's head, up to the tag whose name is one of ends, which stays at hand.
func (p *parser) body(ends ...string) block {
	p.skipOperator(":")
	p.expect(tokenBlockEnd)
	return p.block(ends...)
}

// bodyTo is body and goes over the name of the end tag.
func (p *parser) bodyTo(end string) block {
	b := p.body(end)
	p.next()
	return b
}
