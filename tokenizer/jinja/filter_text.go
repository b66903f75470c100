package jinja

import (
	"strings"
	"unicode/utf8"
)

// mapText makes a filter of a mapping of letters.
func mapText(f func(string) string) filter {
	return func(s *state, v Value, _ args) Value { return s.mapCase(s.str(v), f) }
}

// textFilters are the filters that give text.
func textFilters() map[string]filter {
	return map[string]filter{
		"tojson":     filterToJSON,
		"string":     func(s *state, v Value, _ args) Value { return s.str(v) },
		"upper":      mapText(upper),
		"lower":      mapText(lower),
		"capitalize": mapText(capitalize),
		"title":      mapText(filterTitle),
		"trim":       filterTrim,
		"replace":    filterReplace,
		"indent":     filterIndent,
		"truncate":   filterTruncate,
		"wordcount":  filterWordcount,
		"center": func(s *state, v Value, a args) Value {
			return s.pad(s.str(v), args{positional: []Value{a.arg(0, "width", int64(80))}}, padBoth)
		},
		"format": filterFormat,
		"join":   filterJoin,
	}
}

func filterTrim(s *state, v Value, a args) Value {
	t := s.str(v)
	chars := a.arg(0, "chars", nil)
	if chars == nil {
		return strings.TrimFunc(t, isSpace)
	}
	return strings.Trim(t, needString(chars, "strip arg"))
}

// filterTitle is jinja2's title, which also begins a word after a hyphen or a bracket.
func filterTitle(t string) string {
	var b strings.Builder
	begin := 0 // of the text that is not written yet, all of it in lower case
	flush := func(end int) { b.WriteString(lower(t[begin:end])) }
	begins := true
	for i, r := range t {
		switch {
		case r == '-' || isSpace(r) || strings.ContainsRune("({[<", r):
			begins = true
		case begins:
			flush(i)
			_, n := utf8.DecodeRuneInString(t[i:])
			end := i + n
			b.WriteString(upper(t[i:end]))
			begin, begins = end, false
		}
	}
	flush(len(t))
	return b.String()
}

func filterReplace(s *state, v Value, a args) Value {
	if len(a.positional)+len(a.names) < 2 {
		throw(KindType, "do_replace() missing required positional arguments")
	}
	count := int64(-1)
	if c := a.arg(2, "count", nil); c != nil {
		count = needInt(c)
	}
	return s.replace(s.str(v), s.str(a.arg(0, "old", nil)), s.str(a.arg(1, "new", nil)), count)
}

func filterIndent(s *state, v Value, a args) Value {
	width := a.arg(0, "width", int64(4))
	indent, ok := asString(width)
	if !ok {
		indent = s.repeat(" ", needInt(width))
	}
	first, blank := truthy(a.arg(1, "first", false)), truthy(a.arg(2, "blank", false))
	t, ok := asString(v)
	if !ok {
		s.binary(opAdd, v, "\n") // fails as Python does, or is no text
		throw(KindType, "unsupported operand type(s) for +=: '%s' and 'str'", typeName(v))
	}
	out := text{s: s}
	for i, line := range splitLines(t+"\n", false) {
		if i > 0 {
			out.addByte('\n')
		}
		if i == 0 && first || i > 0 && (blank || line != "") {
			out.add(indent)
		}
		out.add(line)
	}
	return out.String()
}

func filterTruncate(s *state, v Value, a args) Value {
	length := needInt(a.arg(0, "length", int64(255)))
	leeway := int64(5)
	if l := a.arg(3, "leeway", nil); l != nil {
		leeway = needInt(l)
	}
	t, ok := asString(v)
	if !ok {
		if s.length(v) <= length+leeway {
			return v
		}
		throw(KindType, "can only concatenate %s", typeName(v))
	}
	end := s.str(a.arg(2, "end", "..."))
	endLength := int64(utf8.RuneCountInString(end))
	if length < endLength {
		throw(KindAssertion, "expected length >= %d, got %d", endLength, length)
	}
	if int64(utf8.RuneCountInString(t)) <= length+leeway {
		return t
	}
	t = t[:runeOffset(t, int(length-endLength))]
	if !truthy(a.arg(1, "killwords", false)) {
		if i := strings.LastIndexByte(t, ' '); i >= 0 {
			t = t[:i]
		}
	}
	return t + end
}

func filterWordcount(s *state, v Value, _ args) Value {
	n, inWord := int64(0), false
	for _, r := range s.str(v) {
		word := r == '_' || isAlphanumeric(r)
		if word && !inWord {
			n++
		}
		inWord = word
	}
	return n
}

func filterFormat(s *state, v Value, a args) Value {
	if len(a.names) == 0 {
		return s.percent(s.str(v), &tuple{a.positional})
	}
	d := NewDict(len(a.names))
	for i, name := range a.names {
		d.Set(name, a.named[i])
	}
	return s.percent(s.str(v), d)
}

func filterJoin(s *state, v Value, a args) Value {
	separator := s.str(a.arg(0, "d", ""))
	get := s.getter(a.arg(1, "attribute", nil), nil)
	out := text{s: s}
	for i, x := range s.iterate(v) {
		s.work(1)
		if i > 0 {
			out.add(separator)
		}
		out.add(s.str(get(x)))
	}
	return out.String()
}
