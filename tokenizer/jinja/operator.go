package jinja

import (
	"math"
	"math/big"
	"strings"
)

// operator is an arithmetic operator.
type operator string

const (
	opAdd      operator = "+"
	opSubtract operator = "-"
	opMultiply operator = "*"
	opDivide   operator = "/"
	opFloor    operator = "//"
	opModulo   operator = "%"
	opPower    operator = "**"
)

// binaryExpr is "left op right".
type binaryExpr struct {
	op          operator
	left, right expr
}

func (e *binaryExpr) eval(s *state) Value { return s.binary(e.op, e.left.eval(s), e.right.eval(s)) }

// binary is a op b.
func (s *state) binary(op operator, a, b Value) Value {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok && op == opAdd {
			s.room(int64(len(x))+int64(len(y)), 1)
			s.alloc(len(x) + len(y))
			return x + y
		}
	}
	failIfUndefined(a)
	if format, ok := asString(a); ok && op == opModulo {
		return s.percent(format, b)
	}
	failIfUndefined(b)
	x, y := asNumber(a), asNumber(b)
	if x.kind != notNumber && y.kind != notNumber {
		return s.arithmetic(op, x, y)
	}
	var v Value
	switch op {
	case opAdd:
		v = s.addSequences(a, b)
	case opMultiply:
		v = s.multiplySequence(a, b, x, y)
	case opSubtract, opDivide, opFloor, opModulo, opPower:
	}
	if v == nil {
		name := string(op)
		if op == opPower {
			name = "** or pow()"
		}
		throw(KindType, "unsupported operand type(s) for %s: '%s' and '%s'", name, typeName(a), typeName(b))
	}
	return v
}

// addSequences is a + b for text, lists and tuples; nil for others.
func (s *state) addSequences(a, b Value) Value {
	if x, ok := asString(a); ok {
		y, ok := asString(b)
		if !ok {
			throw(KindType, "can only concatenate str (not \"%s\") to str", typeName(b))
		}
		return s.addMarkup(a, b, x, y)
	}
	x, y, ok := sequences(a, b)
	if !ok {
		if _, isList := a.(*List); isList {
			throw(KindType, "can only concatenate list (not \"%s\") to list", typeName(b))
		}
		return nil
	}
	s.room(int64(len(x)+len(y)), valueBytes)
	s.alloc(valueBytes * (len(x) + len(y)))
	s.work((len(x) + len(y)) / 4)
	items := append(append(make([]Value, 0, len(x)+len(y)), x...), y...)
	if _, isList := a.(*List); isList {
		return &List{items}
	}
	return &tuple{items}
}

// addMarkup is a + b where one of them is Markup: the other is escaped.
func (s *state) addMarkup(a, b Value, x, y string) Value {
	if _, safe := a.(markup); !safe {
		x = s.escapeHTML(x)
	}
	if _, safe := b.(markup); !safe {
		y = s.escapeHTML(y)
	}
	s.room(int64(len(x))+int64(len(y)), 1)
	s.alloc(len(x) + len(y))
	return markup(x + y)
}

// multiplySequence is text, list or tuple times an integer; nil for others.
func (s *state) multiplySequence(a, b Value, x, y number) Value {
	seq, times := a, y
	if x.kind == smallInt {
		seq, times = b, x
	}
	if times.kind != smallInt {
		return nil
	}
	n := max(times.small, 0)
	switch v := seq.(type) {
	case string:
		return s.repeat(v, n)
	case markup:
		return markup(s.repeat(string(v), n))
	case *List:
		return &List{s.repeatItems(v.Items, n)}
	case *tuple:
		return &tuple{s.repeatItems(v.items, n)}
	}
	return nil
}

// repeat is t * n.
func (s *state) repeat(t string, n int64) string {
	if t == "" || n <= 0 {
		return ""
	}
	s.room(n, int64(len(t)))
	s.alloc(len(t) * int(n))
	return strings.Repeat(t, int(n))
}

func (s *state) repeatItems(items []Value, n int64) []Value {
	if len(items) == 0 || n <= 0 {
		return nil
	}
	s.room(n, valueBytes*int64(len(items)))
	s.alloc(valueBytes * len(items) * int(n))
	s.work(len(items) * int(n) / 4)
	out := make([]Value, 0, len(items)*int(n))
	for range n {
		out = append(out, items...)
	}
	return out
}

// negExpr is "-operand".
type negExpr struct{ operand expr }

func (e *negExpr) eval(s *state) Value {
	v := e.operand.eval(s)
	n := asNumber(v)
	switch n.kind {
	case smallInt:
		if n.small == math.MinInt64 {
			return new(big.Int).Neg(big.NewInt(n.small))
		}
		return -n.small
	case bigInt:
		return fromBig(new(big.Int).Neg(n.big))
	case floating:
		return -n.float
	case notNumber:
	}
	failIfUndefined(v)
	throw(KindType, "bad operand type for unary -: '%s'", typeName(v))
	return nil
}

// posExpr is "+operand".
type posExpr struct{ operand expr }

func (e *posExpr) eval(s *state) Value {
	v := e.operand.eval(s)
	n := asNumber(v)
	switch n.kind {
	case smallInt:
		return n.small // +True is 1
	case bigInt, floating:
		return v
	case notNumber:
	}
	failIfUndefined(v)
	throw(KindType, "bad operand type for unary +: '%s'", typeName(v))
	return nil
}
