package jinja

import (
	"iter"
	"math"
	"math/big"
)

// Dict is a Python dict: a mapping that keeps the order of insertion. Use [NewDict].
type Dict struct {
	keys   []Value
	values []Value
	// index finds the position of a scalar key; it exists only for dicts of more than smallDict keys.
	index map[any]int
}

// smallDict is up to how many keys a scan is faster than a hash table.
const smallDict = 12

// NewDict returns an empty dict with room for n keys.
func NewDict(n int) *Dict { return &Dict{keys: make([]Value, 0, n), values: make([]Value, 0, n)} }

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// Get returns the value of a string key.
func (d *Dict) Get(key string) (Value, bool) {
	if i := d.find(key); i >= 0 {
		return d.values[i], true
	}
	return nil, false
}

// Set gives a string key a value; a new key comes last.
func (d *Dict) Set(key string, v Value) {
	if i := d.find(key); i >= 0 {
		d.values[i] = v
		return
	}
	d.add(key, v)
}

// All walks over the keys that are strings and their values, in order.
func (d *Dict) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for i, k := range d.keys {
			if name, ok := k.(string); ok && !yield(name, d.values[i]) {
				return
			}
		}
	}
}

// find returns the position of a string key, or -1.
func (d *Dict) find(key string) int {
	if d.index != nil {
		if i, ok := d.index[key]; ok {
			return i
		}
		return -1
	}
	for i, k := range d.keys {
		if t, ok := k.(string); ok && t == key {
			return i
		}
	}
	return -1
}

// bigKey is the index key of an integer beyond int64.
type bigKey string

// scalarKey returns what an index knows a scalar key by, so that keys which are equal in Python (1, 1.0, True) fall together.
func scalarKey(k Value) (any, bool) {
	switch x := k.(type) {
	case nil:
		return missing{}, true
	case string, int64:
		return x, true
	case markup:
		return string(x), true
	case bool:
		if x {
			return int64(1), true
		}
		return int64(0), true
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<62 {
			return int64(x), true
		}
		if x == math.Trunc(x) && !math.IsInf(x, 0) {
			b, _ := big.NewFloat(x).Int(nil)
			return bigKey(b.String()), true
		}
		return x, true
	case *big.Int:
		return bigKey(x.String()), true
	}
	return nil, false
}

// lookup returns the position of any hashable key, or -1.
func (s *state) lookup(d *Dict, key Value) int {
	if name, ok := asString(key); ok {
		return d.find(name)
	}
	if d.index != nil {
		if sk, ok := scalarKey(key); ok {
			if i, ok := d.index[sk]; ok {
				return i
			}
			return -1
		}
	}
	s.work(1 + len(d.keys)/8)
	for i, k := range d.keys {
		if _, ok := k.(string); !ok && s.equal(k, key) {
			return i
		}
	}
	return -1
}

// item returns the value of any hashable key.
func (s *state) item(d *Dict, key Value) (Value, bool) {
	if i := s.lookup(d, key); i >= 0 {
		return d.values[i], true
	}
	return nil, false
}

// put gives any hashable key a value.
func (s *state) put(d *Dict, key, v Value) {
	if name, ok := asString(key); ok {
		key = name
	}
	if i := s.lookup(d, key); i >= 0 {
		d.values[i] = v
		return
	}
	d.add(key, v)
}

// add appends a key that is not there yet.
func (d *Dict) add(key, v Value) {
	d.keys = append(d.keys, key)
	d.values = append(d.values, v)
	switch {
	case d.index != nil:
		if sk, ok := scalarKey(key); ok {
			d.index[sk] = len(d.keys) - 1
		}
	case len(d.keys) > smallDict:
		d.index = make(map[any]int, 2*len(d.keys))
		for i, k := range d.keys {
			if sk, ok := scalarKey(k); ok {
				d.index[sk] = i
			}
		}
	}
}

// pairs returns the (key, value) tuples.
func (d *Dict) pairs() []Value {
	out := make([]Value, len(d.keys))
	for i, k := range d.keys {
		out[i] = &tuple{[]Value{k, d.values[i]}}
	}
	return out
}
