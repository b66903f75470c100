package jinja

import "fmt"

// newGlobals returns the functions that every template can call, unless the caller passes a variable of that name.
func newGlobals() map[string]Value {
	globals := map[string]func(s *state, a args) Value{
		"range":     globalRange,
		"dict":      func(s *state, a args) Value { return globalDict(s, a) },
		"namespace": func(s *state, a args) Value { return &namespace{globalDict(s, a)} },
		"joiner":    globalJoiner,
		"cycler":    globalCycler,
		"raise_exception": func(s *state, a args) Value {
			throw(KindTemplate, "%s", s.str(a.arg(0, "message", nil)))
			return nil
		},
		"strftime_now": globalStrftimeNow,
	}
	out := make(map[string]Value, len(globals))
	for name, f := range globals {
		out[name] = &function{name, f}
	}
	return out
}

func globalRange(s *state, a args) Value {
	r := &intRange{step: 1}
	switch p := a.positional; len(p) {
	case 1:
		r.stop = needInt(p[0])
	case 3:
		r.step = needInt(p[2])
		fallthrough
	case 2:
		r.start, r.stop = needInt(p[0]), needInt(p[1])
	default:
		throw(KindType, "range expected 1 to 3 arguments, got %d", len(p))
	}
	if r.step == 0 {
		throw(KindValue, "range() arg 3 must not be zero")
	}
	if n := r.len(); n < 0 || n > int64(s.limits.Range) {
		throw(KindOverflow, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", s.limits.Range)
	}
	return r
}

func globalDict(s *state, a args) *Dict {
	d := NewDict(len(a.names))
	for _, p := range a.positional {
		if from, ok := p.(*Dict); ok {
			s.merge(d, from)
			continue
		}
		for _, pair := range s.iterate(p) {
			kv := s.iterate(pair)
			if len(kv) != 2 {
				throw(KindValue, "dictionary update sequence element has length %d; 2 is required", len(kv))
			}
			s.hashable(kv[0])
			s.alloc(4 * valueBytes)
			s.put(d, kv[0], kv[1])
		}
	}
	for i, name := range a.names {
		s.alloc(4 * valueBytes)
		d.Set(name, a.named[i])
	}
	return d
}

func globalJoiner(_ *state, a args) Value {
	sep := a.arg(0, "sep", ", ")
	used := false
	return &function{"joiner", func(*state, args) Value {
		if !used {
			used = true
			return ""
		}
		return sep
	}}
}

func globalCycler(_ *state, a args) Value {
	if len(a.positional) == 0 {
		throw(KindValue, "at least one item has to be provided")
	}
	return &cycler{items: a.positional}
}

// globalStrftimeNow is transformers' strftime_now(format): the engine's local time.
func globalStrftimeNow(s *state, a args) Value {
	format := needString(a.arg(0, "format", nil), "format")
	if s.now == nil {
		throw(KindRuntime, "strftime_now needs a clock and none was given")
	}
	t := text{s: s}
	now := s.now()
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			t.addByte(format[i])
			continue
		}
		i++
		padded := true
		if format[i] == '-' && i+1 < len(format) {
			padded = false
			i++
		}
		t.add(timeField(now, format[i], padded))
	}
	return t.String()
}

// padInt writes n with at least width digits if padded is set.
func padInt(n, width int, padded bool) string {
	if !padded {
		width = 0
	}
	return fmt.Sprintf("%0*d", width, n)
}
