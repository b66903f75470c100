package jinja

import (
	"slices"
)

// sequenceFilters are the filters that take a sequence apart or put one together.
func sequenceFilters() map[string]filter {
	length := func(s *state, v Value, _ args) Value { return s.length(v) }
	return map[string]filter{
		"length":  length,
		"count":   length,
		"first":   filterFirst,
		"last":    filterLast,
		"list":    func(s *state, v Value, _ args) Value { return &List{slices.Clone(s.iterate(v))} },
		"items":   filterItems,
		"reverse": filterReverse,
		"batch":   filterBatch,
		"slice":   filterSlice,
	}
}

// walkOnce makes a generator.
func walkOnce(items []Value) *generator { return &generator{kind: "generator", items: items} }

func filterFirst(s *state, v Value, _ args) Value {
	if g, ok := v.(*generator); ok {
		if g.next < len(g.items) {
			g.next++
			return g.items[g.next-1]
		}
	} else if items := s.iterate(v); len(items) > 0 {
		return items[0]
	}
	return &undefined{message: "No first item, sequence was empty."}
}

func filterLast(s *state, v Value, _ args) Value {
	if isIterator(v) {
		throw(KindType, "'%s' object is not reversible", typeName(v))
	}
	if items := s.iterate(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return &undefined{message: "No last item, sequence was empty."}
}

func filterItems(s *state, v Value, _ args) Value {
	switch x := v.(type) {
	case *undefined:
		return walkOnce(nil)
	case *Dict:
		return walkOnce(s.pairs(x))
	}
	throw(KindType, "Can only get item pairs from a mapping.")
	return nil
}

func filterReverse(s *state, v Value, _ args) Value {
	if t, ok := asString(v); ok {
		s.alloc(4 * len(t))
		runes := []rune(t)
		slices.Reverse(runes)
		return string(runes)
	}
	items := slices.Clone(s.iterate(v))
	slices.Reverse(items)
	return &generator{kind: "list_reverseiterator", items: items}
}

func filterBatch(s *state, v Value, a args) Value {
	size := needInt(a.arg(0, "linecount", nil))
	fill := a.arg(1, "fill_with", nil)
	var out, current []Value
	for _, x := range s.iterate(v) {
		s.alloc(valueBytes)
		if int64(len(current)) == size {
			out = append(out, &List{current})
			current = nil
		}
		current = append(current, x)
	}
	if len(current) == 0 {
		return walkOnce(out)
	}
	if lacking := size - int64(len(current)); fill != nil && lacking > 0 {
		current = append(current, s.repeatItems([]Value{fill}, lacking)...)
	}
	return walkOnce(append(out, &List{current}))
}

func filterSlice(s *state, v Value, a args) Value {
	items := s.iterate(v)
	n := needInt(a.arg(0, "slices", nil))
	if n <= 0 {
		throw(KindZeroDivision, "integer division or modulo by zero")
	}
	s.room(n, 4*valueBytes)
	s.alloc(4*valueBytes*int(n) + valueBytes*len(items))
	s.work(int(n))
	fill := a.arg(1, "fill_with", nil)
	each, longer := len(items)/int(n), len(items)%int(n)
	out := make([]Value, 0, n)
	end := 0
	for i := range int(n) {
		begin := end
		end = begin + each
		if i < longer {
			end++
		}
		part := slices.Clone(items[begin:end])
		if fill != nil && i >= longer && longer > 0 {
			part = append(part, fill)
		}
		out = append(out, &List{part})
	}
	return walkOnce(out)
}
