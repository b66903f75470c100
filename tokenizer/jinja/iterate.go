package jinja

import "unicode/utf8"

// len is the number of integers in the range.
func (r *intRange) len() int64 {
	switch {
	case r.step > 0 && r.stop > r.start:
		return int64((uint64(r.stop)-uint64(r.start)-1)/uint64(r.step)) + 1
	case r.step < 0 && r.stop < r.start:
		return int64((uint64(r.start)-uint64(r.stop)-1)/(-uint64(r.step))) + 1
	}
	return 0
}

// items returns the integers of the range; its length is bounded when it is made.
func (r *intRange) items() []Value {
	out := make([]Value, r.len())
	for i := range out {
		out[i] = r.start + int64(i)*r.step
	}
	return out
}

// iterate returns the items of an iterable (and uses up an iterator). The result must not be written to.
func (s *state) iterate(v Value) []Value {
	switch x := v.(type) {
	case *List:
		return x.Items
	case *tuple:
		return x.items
	case *Dict:
		return x.keys
	case *view:
		return x.items
	case *intRange:
		n := int(x.len())
		s.work(n)
		s.alloc(2 * valueBytes * n)
		return x.items()
	case *generator:
		rest := x.items[x.next:]
		x.next = len(x.items)
		return rest
	case string:
		return s.characters(x)
	case markup:
		return s.characters(string(x))
	case *undefined:
		failIfUnsafe(x)
		return nil
	}
	throw(KindType, "'%s' object is not iterable", typeName(v))
	return nil
}

// characters returns the characters of a string as strings.
func (s *state) characters(x string) []Value {
	s.work(len(x))
	s.alloc(2 * valueBytes * len(x))
	out := make([]Value, 0, len(x))
	for i := 0; i < len(x); {
		_, n := utf8.DecodeRuneInString(x[i:])
		out = append(out, x[i:i+n])
		i += n
	}
	return out
}

// length is len(v).
func (s *state) length(v Value) int64 {
	switch x := v.(type) {
	case *List:
		return int64(len(x.Items))
	case *tuple:
		return int64(len(x.items))
	case *Dict:
		return int64(len(x.keys))
	case *view:
		return int64(len(x.items))
	case *intRange:
		return x.len()
	case string:
		s.scan(len(x))
		return int64(utf8.RuneCountInString(x))
	case markup:
		s.scan(len(x))
		return int64(utf8.RuneCountInString(string(x)))
	case *undefined:
		failIfUnsafe(x)
		return 0
	case *loopContext:
		return x.length()
	}
	throw(KindType, "object of type '%s' has no len()", typeName(v))
	return 0
}
