package jinja

import "slices"

// sequenceMethod returns a method that lists and tuples have, or nil.
func sequenceMethod(items []Value, name string) Value {
	switch name {
	case "index":
		return &function{name, func(s *state, a args) Value {
			for i, e := range items {
				s.work(1)
				if s.equal(e, a.arg(0, "", nil)) {
					return int64(i)
				}
			}
			throw(KindValue, "value is not in the sequence")
			return nil
		}}
	case "count":
		return &function{name, func(s *state, a args) Value {
			n := int64(0)
			for _, e := range items {
				s.work(1)
				if s.equal(e, a.arg(0, "", nil)) {
					n++
				}
			}
			return n
		}}
	}
	return nil
}

// listMethod returns a method of list, or nil. Those that would change the list are denied.
func listMethod(l *List, name string) Value {
	switch name {
	case "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort":
		return forbidden(l, name)
	case "copy":
		return &function{name, func(s *state, _ args) Value { return s.charge(&List{slices.Clone(l.Items)}) }}
	}
	return sequenceMethod(l.Items, name)
}

// dictMethod returns a method of dict, or nil. Those that would change the dict are denied.
func dictMethod(d *Dict, name string) Value {
	switch name {
	case "get":
		return &function{name, func(s *state, a args) Value { return s.dictGet(d, a) }}
	case "items":
		return &function{name, func(s *state, a args) Value {
			a.atMost("dict.items()", 0)
			return &view{"dict_items", s.pairs(d)}
		}}
	case "keys":
		return &function{name, func(*state, args) Value { return &view{"dict_keys", d.keys} }}
	case "values":
		return &function{name, func(*state, args) Value { return &view{"dict_values", d.values} }}
	case "copy":
		return &function{name, func(s *state, _ args) Value { return s.copyDict(d) }}
	case "clear", "pop", "popitem", "setdefault", "update":
		return forbidden(d, name)
	case "fromkeys":
		return &function{name, func(s *state, a args) Value {
			n := NewDict(0)
			for _, k := range s.iterate(a.arg(0, "", nil)) {
				s.hashable(k)
				s.alloc(4 * valueBytes)
				s.put(n, k, a.arg(1, "", nil))
			}
			return n
		}}
	}
	return nil
}

func (s *state) dictGet(d *Dict, a args) Value {
	if len(a.positional) == 0 {
		throw(KindType, "get expected at least 1 argument, got 0")
	}
	s.hashable(a.positional[0])
	if v, ok := s.item(d, a.positional[0]); ok {
		return v
	}
	if len(a.positional) > 1 {
		return a.positional[1]
	}
	return nil
}

// pairs returns the (key, value) tuples of d.
func (s *state) pairs(d *Dict) []Value {
	s.work(d.Len())
	s.alloc(4 * valueBytes * d.Len())
	return d.pairs()
}

func (s *state) copyDict(d *Dict) *Dict {
	n := NewDict(d.Len())
	s.merge(n, d)
	return n
}

// merge puts the entries of from into to.
func (s *state) merge(to, from *Dict) {
	s.work(from.Len())
	s.alloc(4 * valueBytes * from.Len())
	for i, k := range from.keys {
		s.put(to, k, from.values[i])
	}
}

// cycler is what cycler(a, b, ...) returns.
type cycler struct {
	items []Value
	at    int
}

// attr returns an attribute of a cycler.
func (c *cycler) attr(name string) Value {
	switch name {
	case "next":
		return &function{name, func(*state, args) Value {
			v := c.items[c.at]
			c.at = (c.at + 1) % len(c.items)
			return v
		}}
	case "reset":
		return &function{name, func(*state, args) Value {
			c.at = 0
			return nil
		}}
	case "current":
		return c.items[c.at]
	}
	return nil
}
