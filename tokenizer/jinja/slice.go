package jinja

import "unicode/utf8"

// sliceExpr is value[start:stop:step].
type sliceExpr struct {
	value             expr // nil where a slice stands in a tuple of keys, which no value understands
	start, stop, step expr // nil: absent
}

// bounds is the evaluated bounds of a slice; nil is absent.
type bounds struct {
	start, stop *int64
	step        int64
}

func (e *sliceExpr) eval(s *state) Value {
	if e.value == nil {
		throw(KindType, "slice outside of subscript")
	}
	v := e.value.eval(s)
	b := bounds{start: sliceBound(s, e.start), stop: sliceBound(s, e.stop), step: 1}
	if step := sliceBound(s, e.step); step != nil {
		b.step = *step
	}
	if b.step == 0 {
		throw(KindValue, "slice step cannot be zero")
	}
	switch x := v.(type) {
	case *List:
		return &List{s.pick(x.Items, b)}
	case *tuple:
		return &tuple{s.pick(x.items, b)}
	case *intRange:
		return x.slice(b)
	case string:
		return s.substring(x, b)
	case markup:
		return markup(s.substring(string(x), b))
	case *undefined:
		x.fail()
	case *Dict:
		throw(KindType, "unhashable type: 'slice'")
	}
	throw(KindType, "'%s' object is not subscriptable", typeName(v))
	return nil
}

func sliceBound(s *state, e expr) *int64 {
	if e == nil {
		return nil
	}
	v := e.eval(s)
	if v == nil {
		return nil
	}
	n := asNumber(v)
	if n.kind != smallInt {
		failIfUndefined(v)
		throw(KindType, "slice indices must be integers or None or have an __index__ method")
	}
	return &n.small
}

// resolve returns the first index, the one that is not reached any more, and the step, for n items (PySlice_AdjustIndices).
func (b bounds) resolve(n int64) (start, stop, step int64) {
	low, high := int64(0), n
	if b.step < 0 {
		low, high = -1, n-1
	}
	clamp := func(i *int64, absent int64) int64 {
		if i == nil {
			return absent
		}
		at := *i
		if at < 0 {
			at += n
		}
		return max(low, min(at, high))
	}
	// a step beyond the length takes one item, whatever it is
	step = max(-n-1, min(b.step, n+1))
	if b.step < 0 {
		return clamp(b.start, high), clamp(b.stop, low), step
	}
	return clamp(b.start, low), clamp(b.stop, high), step
}

// indices walks over the chosen indices.
func indices(start, stop, step int64, visit func(i int64)) {
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		visit(i)
	}
}

// slice returns the chosen integers, which are a range again.
func (r *intRange) slice(b bounds) *intRange {
	start, stop, step := b.resolve(r.len())
	return &intRange{r.start + start*r.step, r.start + stop*r.step, r.step * step}
}

// pick returns the chosen items.
func (s *state) pick(items []Value, b bounds) []Value {
	start, stop, step := b.resolve(int64(len(items)))
	if step == 1 {
		if start >= stop {
			return nil
		}
		return items[start:stop:stop]
	}
	s.work(len(items))
	s.alloc(valueBytes * len(items))
	var out []Value
	indices(start, stop, step, func(i int64) { out = append(out, items[i]) })
	return out
}

// substring returns the chosen characters.
func (s *state) substring(t string, b bounds) string {
	s.scan(len(t))
	ascii := isASCII(t)
	n := len(t)
	if !ascii {
		s.work(len(t) / 8)
		n = utf8.RuneCountInString(t)
	}
	start, stop, step := b.resolve(int64(n))
	if step == 1 {
		switch {
		case start >= stop:
			return ""
		case ascii:
			return t[start:stop]
		}
		from := runeOffset(t, int(start))
		return t[from : from+runeOffset(t[from:], int(stop-start))]
	}
	s.alloc(5 * len(t))
	if ascii {
		var out []byte
		indices(start, stop, step, func(i int64) { out = append(out, t[i]) })
		return string(out)
	}
	all := []rune(t)
	var out []rune
	indices(start, stop, step, func(i int64) { out = append(out, all[i]) })
	return string(out)
}
