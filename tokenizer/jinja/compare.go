package jinja

import (
	"math/big"
	"strings"
)

// equal is a == b.
func (s *state) equal(a, b Value) bool { return s.equalAt(a, b, 0) }

func (s *state) equalAt(a, b Value, depth int) bool {
	switch x := a.(type) {
	case string:
		t, ok := asString(b)
		return ok && len(t) == len(x) && t == x
	case markup:
		t, ok := asString(b)
		return ok && t == string(x)
	case nil:
		return b == nil
	case *undefined:
		_, ok := b.(*undefined)
		return ok
	case *List:
		y, ok := b.(*List)
		return ok && (x == y || s.equalItems(x.Items, y.Items, depth))
	case *tuple:
		y, ok := b.(*tuple)
		return ok && (x == y || s.equalItems(x.items, y.items, depth))
	case *Dict:
		y, ok := b.(*Dict)
		return ok && (x == y || s.equalDicts(x, y, depth))
	case *intRange:
		y, ok := b.(*intRange)
		return ok && *x == *y
	case bool, int64, *big.Int, float64:
		order, ok := compareNumbers(a, b)
		return ok && order == 0
	}
	return a == b
}

func (s *state) equalItems(a, b []Value, depth int) bool {
	if len(a) != len(b) {
		return false
	}
	s.descend(depth)
	for i := range a {
		s.work(1)
		if !s.equalAt(a[i], b[i], depth+1) {
			return false
		}
	}
	return true
}

func (s *state) equalDicts(a, b *Dict, depth int) bool {
	if len(a.keys) != len(b.keys) {
		return false
	}
	s.descend(depth)
	for i, k := range a.keys {
		s.work(1)
		v, ok := s.item(b, k)
		if !ok || !s.equalAt(a.values[i], v, depth+1) {
			return false
		}
	}
	return true
}

// compare orders a and b: negative, 0, positive, or unordered for a NaN. It fails for types without an order; op is
// the operator that the message names.
func (s *state) compare(op string, a, b Value) int { return s.compareAt(op, a, b, 0) }

func (s *state) compareAt(op string, a, b Value, depth int) int {
	failIfUndefined(a)
	failIfUndefined(b)
	s.work(1)
	if order, ok := compareNumbers(a, b); ok {
		return order
	}
	if x, ok := asString(a); ok {
		if y, ok := asString(b); ok {
			s.scan(min(len(x), len(y)))
			return strings.Compare(x, y) // the order of UTF-8 is the order of code points
		}
	}
	x, y, ok := sequences(a, b)
	if !ok {
		throw(KindType, "'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	}
	s.descend(depth)
	for i := 0; i < len(x) && i < len(y); i++ {
		if !s.equalAt(x[i], y[i], depth+1) {
			return s.compareAt(op, x[i], y[i], depth+1)
		}
	}
	return compareOrdered(int64(len(x)), int64(len(y)))
}

// sequences returns the items of two lists or two tuples.
func sequences(a, b Value) (x, y []Value, ok bool) {
	switch v := a.(type) {
	case *List:
		if w, ok := b.(*List); ok {
			return v.Items, w.Items, true
		}
	case *tuple:
		if w, ok := b.(*tuple); ok {
			return v.items, w.items, true
		}
	}
	return nil, nil, false
}

// contains is v in container.
func (s *state) contains(container, v Value) bool {
	switch x := container.(type) {
	case string, markup:
		text, _ := asString(container)
		part, ok := asString(v)
		if !ok {
			throw(KindType, "'in <string>' requires string as left operand, not %s", typeName(v))
		}
		s.scan(len(text))
		return strings.Contains(text, part)
	case *Dict:
		s.hashable(v)
		return s.lookup(x, v) >= 0
	case nil, bool, int64, float64, *big.Int, *macro, *function, *namespace:
		throw(KindType, "argument of type '%s' is not iterable", typeName(container))
	}
	for _, e := range s.iterate(container) {
		s.work(1)
		if s.equal(e, v) {
			return true
		}
	}
	return false
}
