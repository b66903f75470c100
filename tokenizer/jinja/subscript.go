package jinja

import (
	"math/big"
	"unicode/utf8"
)

// attribute is v.name as jinja2's sandbox finds it: Python's attribute first, then the item.
func (s *state) attribute(v Value, name string) Value {
	switch x := v.(type) {
	case *Dict:
		if m := dictMethod(x, name); m != nil {
			return m
		}
		if r, ok := x.Get(name); ok {
			return r
		}
		return &undefined{message: "'dict object' has no attribute '" + name + "'"}
	case *undefined:
		x.fail()
	case *loopContext:
		if r, ok := x.attr(name); ok {
			return r
		}
	case *namespace:
		if r, ok := x.vars.Get(name); ok {
			return r
		}
	default:
		if m := s.member(v, name); m != nil {
			return m
		}
	}
	return noAttribute(v, name)
}

func noAttribute(v Value, name string) Value {
	return &undefined{message: "'" + describe(v) + "' has no attribute '" + name + "'"}
}

// forbidden is an attribute that is there and that the immutable sandbox denies.
func forbidden(v Value, name string) Value {
	return &undefined{unsafe: true, message: "access to attribute '" + name + "' of '" + typeName(v) + "' object is unsafe."}
}

// member returns an attribute of a value that is no dict, or nil.
func (s *state) member(v Value, name string) Value {
	switch x := v.(type) {
	case string, markup:
		if m := s.template.builtins.stringMethods[name]; m != nil {
			return boundMethod(v, name, m)
		}
	case *List:
		return listMethod(x, name)
	case *tuple:
		return sequenceMethod(x.items, name)
	case *macro:
		return x.attr(name)
	case int64, *big.Int, bool:
		switch name {
		case "real", "numerator":
			return x
		case "imag":
			return int64(0)
		case "denominator":
			return int64(1)
		}
	case *cycler:
		return x.attr(name)
	}
	return nil
}

// subscript is v[key]: the item first, then the attribute.
func (s *state) subscript(v, key Value) Value {
	switch x := v.(type) {
	case *Dict:
		return s.dictItem(x, key)
	case *undefined:
		x.fail()
	case *List:
		if i, ok := position(key, len(x.Items)); ok {
			return x.Items[i]
		}
	case *tuple:
		if i, ok := position(key, len(x.items)); ok {
			return x.items[i]
		}
	case *intRange:
		if i, ok := position(key, int(x.len())); ok {
			return x.start + int64(i)*x.step
		}
	case string, markup:
		t, _ := asString(v)
		if c, ok := s.character(t, key); ok {
			return c
		}
	}
	if name, ok := asString(key); ok {
		return s.attribute(v, name)
	}
	if _, ok := key.(*undefined); ok {
		return &undefined{message: describe(v) + " has no element Undefined"}
	}
	return &undefined{message: describe(v) + " has no element " + s.str(key)}
}

func (s *state) dictItem(d *Dict, key Value) Value {
	switch key.(type) {
	case *List, *Dict:
		return &undefined{message: "'dict object' has no element"}
	}
	if r, ok := s.item(d, key); ok {
		return r
	}
	name, ok := asString(key)
	if !ok {
		return &undefined{message: "dict object has no element " + s.repr(key)}
	}
	if m := dictMethod(d, name); m != nil {
		return m
	}
	return &undefined{message: "'dict object' has no attribute '" + name + "'"}
}

// position returns the index into n items that a key names; negative ones count from the end.
func position(key Value, n int) (int, bool) {
	k := asNumber(key)
	if k.kind != smallInt {
		return 0, false
	}
	i := k.small
	if i < 0 {
		i += int64(n)
	}
	if i < 0 || i >= int64(n) {
		return 0, false
	}
	return int(i), true
}

// character is t[key] if key is the position of a character.
func (s *state) character(t string, key Value) (string, bool) {
	if asNumber(key).kind != smallInt {
		return "", false
	}
	s.scan(len(t))
	if isASCII(t) {
		i, ok := position(key, len(t))
		if !ok {
			return "", false
		}
		return t[i : i+1], true
	}
	i, ok := position(key, utf8.RuneCountInString(t))
	if !ok {
		return "", false
	}
	at := runeOffset(t, i)
	_, n := utf8.DecodeRuneInString(t[at:])
	return t[at : at+n], true
}

// runeOffset returns the byte at which character n of t begins.
func runeOffset(t string, n int) int {
	at := 0
	for ; n > 0 && at < len(t); n-- {
		_, size := utf8.DecodeRuneInString(t[at:])
		at += size
	}
	return at
}
