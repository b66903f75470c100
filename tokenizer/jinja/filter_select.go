package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// selectFilters are the filters that choose, order or map by a key.
func selectFilters() map[string]filter {
	return map[string]filter{
		"map":        filterMap,
		"select":     func(s *state, v Value, a args) Value { return s.choose(v, a, choice{keep: true}) },
		"reject":     func(s *state, v Value, a args) Value { return s.choose(v, a, choice{}) },
		"selectattr": func(s *state, v Value, a args) Value { return s.choose(v, a, choice{keep: true, byAttr: true}) },
		"rejectattr": func(s *state, v Value, a args) Value { return s.choose(v, a, choice{byAttr: true}) },
		"sort":       filterSort,
		"dictsort":   filterDictsort,
		"unique":     filterUnique,
		"groupby":    filterGroupby,
		"max":        func(s *state, v Value, a args) Value { return s.extreme(v, a, 1) },
		"min":        func(s *state, v Value, a args) Value { return s.extreme(v, a, -1) },
		"attr":       filterAttr,
		"default":    filterDefault,
		"d":          filterDefault,
	}
}

// getter returns a function that follows an attribute path "a.0.b" (jinja2.filters.make_attrgetter). absent is what an
// undefined step gives; nil leaves it undefined.
func (s *state) getter(path, absent Value) func(Value) Value {
	var steps []Value
	switch x := path.(type) {
	case nil:
		return func(v Value) Value { return v }
	case int64:
		steps = []Value{x}
	default:
		for step := range strings.SplitSeq(s.str(path), ".") {
			if n, err := strconv.ParseInt(step, 10, 64); err == nil && isDigit(step[0]) {
				steps = append(steps, n)
			} else {
				steps = append(steps, step)
			}
		}
	}
	return func(v Value) Value {
		for _, step := range steps {
			s.work(1)
			v = s.subscript(v, step)
			if _, ok := v.(*undefined); ok && absent != nil {
				v = absent
			}
		}
		return v
	}
}

// keyGetter is getter whose text is compared in lower case unless caseSensitive is set.
func (s *state) keyGetter(path, absent Value, caseSensitive bool) func(Value) Value {
	get := s.getter(path, absent)
	if caseSensitive {
		return get
	}
	return func(v Value) Value { return s.foldCase(get(v)) }
}

func (s *state) foldCase(v Value) Value {
	if t, ok := asString(v); ok {
		s.scan(len(t))
		s.alloc(len(t))
		return s.mapCase(t, lower)
	}
	return v
}

// choice says what choose keeps.
type choice struct {
	keep   bool // items that pass the test, else those that fail it
	byAttr bool // test an attribute of the item
}

// choose is select, reject, selectattr and rejectattr.
func (s *state) choose(v Value, a args, c choice) Value {
	get, rest := s.getter(nil, nil), a.positional
	if c.byAttr {
		if len(rest) == 0 {
			throw(KindArgument, "Missing parameter for attribute name")
		}
		get, rest = s.getter(rest[0], nil), rest[1:]
	}
	passes := truthy
	if len(rest) > 0 {
		t := s.testNamed(s.str(rest[0]))
		testArgs := args{rest[1:], a.names, a.named}
		passes = func(x Value) bool { return t(s, x, testArgs) }
	}
	var out []Value
	for _, x := range s.mapped(v) {
		s.work(1)
		if passes(get(x)) == c.keep {
			out = append(out, x)
		}
	}
	return walkOnce(out)
}

// mapped is what map and select walk over: nothing for a false value, as these skip such a value unseen.
func (s *state) mapped(v Value) []Value {
	if !isIterator(v) && !truthy(v) {
		return nil
	}
	return s.iterate(v)
}

func filterMap(s *state, v Value, a args) Value {
	var apply func(Value) Value
	if len(a.positional) == 0 {
		path, ok := a.keyword("attribute")
		if !ok {
			throw(KindArgument, "map requires a filter argument")
		}
		absent, _ := a.keyword("default")
		apply = s.getter(path, absent)
	} else {
		f := s.filterNamed(s.str(a.positional[0]))
		rest := args{a.positional[1:], a.names, a.named}
		apply = func(x Value) Value { return s.filter(f, x, rest) }
	}
	items := s.mapped(v)
	out := make([]Value, 0, len(items))
	for _, x := range items {
		s.work(1)
		out = append(out, apply(x))
	}
	return walkOnce(out)
}

// sortOrder makes an order of a comparison; what has no order counts as equal.
func sortOrder(order int) int {
	if order == unordered {
		return 0
	}
	return order
}

// sortBy returns the items in the order of their keys, equal ones as they were.
func (s *state) sortBy(items []Value, key func(Value) Value, reverse bool) []Value {
	type keyed struct{ key, item Value }
	s.alloc(3 * valueBytes * len(items))
	all := make([]keyed, len(items))
	for i, x := range items {
		all[i] = keyed{key(x), x}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		if reverse {
			a, b = b, a
		}
		return sortOrder(s.compare("<", a.key, b.key))
	})
	out := make([]Value, len(items))
	for i, k := range all {
		out[i] = k.item
	}
	return out
}

func filterSort(s *state, v Value, a args) Value {
	reverse := truthy(a.arg(0, "reverse", false))
	caseSensitive := truthy(a.arg(1, "case_sensitive", false))
	path := a.arg(2, "attribute", nil)
	paths := []Value{path}
	if t, ok := asString(path); ok {
		paths = nil
		for p := range strings.SplitSeq(t, ",") {
			paths = append(paths, p)
		}
	}
	getters := make([]func(Value) Value, len(paths))
	for i, p := range paths {
		getters[i] = s.keyGetter(p, nil, caseSensitive)
	}
	key := func(v Value) Value { // always a list, as in jinja2's make_multi_attrgetter
		s.alloc(2 * valueBytes * len(getters))
		l := &List{Items: make([]Value, len(getters))}
		for i, get := range getters {
			l.Items[i] = get(v)
		}
		return l
	}
	return &List{s.sortBy(s.iterate(v), key, reverse)}
}

func filterDictsort(s *state, v Value, a args) Value {
	d, ok := v.(*Dict)
	if !ok {
		failIfUndefined(v)
		throw(KindType, "'%s' object has no attribute 'items'", typeName(v))
	}
	at := 0
	switch s.str(a.arg(1, "by", "key")) {
	case "key":
	case "value":
		at = 1
	default:
		throw(KindArgument, "You can only sort by either \"key\" or \"value\"")
	}
	key := s.keyGetter(int64(at), nil, truthy(a.arg(0, "case_sensitive", false)))
	return &List{s.sortBy(s.pairs(d), key, truthy(a.arg(2, "reverse", false)))}
}

func filterUnique(s *state, v Value, a args) Value {
	key := s.keyGetter(a.arg(1, "attribute", nil), nil, truthy(a.arg(0, "case_sensitive", false)))
	seen := NewDict(0)
	var out []Value
	for _, x := range s.iterate(v) {
		s.work(1)
		k := key(x)
		s.hashable(k)
		if _, ok := s.item(seen, k); ok {
			continue
		}
		s.alloc(5 * valueBytes)
		s.put(seen, k, true)
		out = append(out, x)
	}
	return walkOnce(out)
}

func filterGroupby(s *state, v Value, a args) Value {
	path, absent := a.arg(0, "attribute", nil), a.arg(1, "default", nil)
	key := s.keyGetter(path, absent, truthy(a.arg(2, "case_sensitive", false)))
	raw := s.getter(path, absent)
	out := &List{}
	var group *List
	var last Value
	for _, x := range s.sortBy(s.iterate(v), key, false) {
		s.alloc(4 * valueBytes)
		if k := key(x); group == nil || !s.equal(last, k) {
			group, last = &List{}, k
			out.Items = append(out.Items, &tuple{[]Value{raw(x), group}})
		}
		group.Items = append(group.Items, x)
	}
	return out
}

// extreme is max for sign 1 and min for -1.
func (s *state) extreme(v Value, a args, sign int) Value {
	key := s.keyGetter(a.arg(1, "attribute", nil), nil, truthy(a.arg(0, "case_sensitive", false)))
	items := s.iterate(v)
	if len(items) == 0 {
		return &undefined{message: "No aggregated item, sequence was empty."}
	}
	best, bestKey := items[0], key(items[0])
	for _, x := range items[1:] {
		if k := key(x); sortOrder(s.compare("<", k, bestKey))*sign > 0 {
			best, bestKey = x, k
		}
	}
	return best
}

// filterAttr finds attributes only, never items.
func filterAttr(s *state, v Value, a args) Value {
	failIfUndefined(v)
	name := s.str(a.arg(0, "name", nil))
	if d, ok := v.(*Dict); ok {
		if m := dictMethod(d, name); m != nil {
			return m
		}
	} else if m := s.member(v, name); m != nil {
		return m
	}
	return noAttribute(v, name)
}

func filterDefault(_ *state, v Value, a args) Value {
	if _, ok := v.(*undefined); ok || truthy(a.arg(1, "boolean", false)) && !truthy(v) {
		return a.arg(0, "default_value", "")
	}
	return v
}
