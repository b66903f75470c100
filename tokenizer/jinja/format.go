package jinja

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// format is t.format(…): {}, {0}, {name}, {name.attr}, {name[key]}, !r, !s and the common format specifications.
func (s *state) format(t string, a args) Value {
	out := text{s: s}
	auto := 0 // the position that the next {} takes
	for i := 0; i < len(t); i++ {
		c := t[i]
		switch {
		case c != '{' && c != '}':
			end := i
			for end < len(t) && t[end] != '{' && t[end] != '}' {
				end++
			}
			out.add(t[i:end])
			i = end - 1
			continue
		case i+1 < len(t) && t[i+1] == c:
			out.addByte(c)
			i++
			continue
		case c == '}':
			throw(KindValue, "Single '}' encountered in format string")
		}
		end := strings.IndexByte(t[i:], '}')
		if end < 0 {
			throw(KindValue, "expected '}' before end of string")
		}
		s.work(1)
		out.add(s.formatField(t[i+1:i+end], a, &auto))
		i += end
	}
	return out.String()
}

// formatField formats what stands between braces.
func (s *state) formatField(field string, a args, auto *int) string {
	field, spec, _ := strings.Cut(field, ":")
	conversion := byte(0)
	if k := strings.IndexByte(field, '!'); k >= 0 && k+1 < len(field) {
		field, conversion = field[:k], field[k+1]
	}
	v := s.formatValue(field, a, auto)
	switch conversion {
	case 'r':
		v = s.repr(v)
	case 's':
		v = s.str(v)
	}
	if spec == "" {
		return s.str(v)
	}
	return s.formatSpec(v, spec)
}

// formatValue finds the value that a field names.
func (s *state) formatValue(field string, a args, auto *int) Value {
	k := strings.IndexAny(field, ".[")
	if k < 0 {
		k = len(field)
	}
	head, rest := field[:k], field[k:]
	index, err := strconv.Atoi(head)
	var v Value
	switch {
	case head == "" || err == nil:
		if head == "" {
			index = *auto
			*auto++
		}
		if index < 0 || index >= len(a.positional) {
			throw(KindIndex, "Replacement index %d out of range for positional args tuple", index)
		}
		v = a.positional[index]
	default:
		named, ok := a.keyword(head)
		if !ok {
			throw(KindKey, "'%s'", head)
		}
		v = named
	}
	for rest != "" {
		v, rest = s.formatStep(v, rest)
	}
	return v
}

// formatStep follows one .name or [key] and returns what is left of the path.
func (s *state) formatStep(v Value, path string) (Value, string) {
	if path[0] == '.' {
		end := strings.IndexAny(path[1:], ".[") + 1
		if end == 0 {
			end = len(path)
		}
		return s.attribute(v, path[1:end]), path[end:]
	}
	end := strings.IndexByte(path, ']')
	if path[0] != '[' || end < 0 {
		throw(KindValue, "Missing ']' in format string")
	}
	key := path[1:end]
	if n, err := strconv.ParseInt(key, 10, 64); err == nil {
		return s.subscript(v, n), path[end+1:]
	}
	return s.subscript(v, key), path[end+1:]
}

// spec is a parsed format specification: [[fill]align][flags][0][width][,][.precision][verb].
type spec struct {
	fill      string
	align     byte // 0: absent
	flags     string
	width     int
	thousands string // empty: none
	precision int    // -1: absent
	verb      byte   // 0: absent
}

// parseSpec parses a format specification.
func (s *state) parseSpec(t string) spec {
	const aligns = "<>=^"
	sp := spec{fill: " ", precision: -1}
	_, n := utf8.DecodeRuneInString(t)
	switch {
	case len(t) > n && strings.IndexByte(aligns, t[n]) >= 0:
		sp.fill, sp.align, t = t[:n], t[n], t[n+1:]
	case strings.IndexByte(aligns, t[0]) >= 0:
		sp.align, t = t[0], t[1:]
	}
	i := 0
	for i < len(t) && strings.IndexByte("+- #", t[i]) >= 0 {
		i++
	}
	sp.flags = t[:i]
	if i < len(t) && t[i] == '0' {
		if sp.align == 0 {
			sp.fill, sp.align = "0", '='
		}
		i++
	}
	sp.width, i = readSize(s, t, i)
	if i < len(t) && (t[i] == ',' || t[i] == '_') {
		sp.thousands = t[i : i+1]
		i++
	}
	if i < len(t) && t[i] == '.' {
		sp.precision, i = readSize(s, t, i+1)
	}
	if i < len(t) {
		sp.verb = t[i]
		i++
	}
	if i < len(t) {
		throw(KindValue, "Invalid format specifier")
	}
	return sp
}

// formatSpec is format(v, spec).
func (s *state) formatSpec(v Value, text string) string {
	if v == nil {
		throw(KindType, "unsupported format string passed to NoneType.__format__")
	}
	sp := s.parseSpec(text)
	n := asNumber(v)
	if _, isBool := v.(bool); isBool && sp.verb == 0 {
		n.kind = notNumber
	}
	var t string
	if n.kind == notNumber {
		if sp.verb != 0 && sp.verb != 's' {
			throw(KindValue, "Unknown format code '%c' for object of type '%s'", sp.verb, typeName(v))
		}
		t = truncateRunes(s.str(v), sp.precision)
		if sp.align == 0 {
			sp.align = '<'
		}
	} else {
		t = s.groupThousands(s.specNumber(sp, n, v), sp.thousands)
	}
	return s.align(t, sp)
}

// specNumber formats a number without grouping and padding.
func (s *state) specNumber(sp spec, n number, v Value) string {
	d := directive{flags: strings.ReplaceAll(sp.flags, "-", ""), precision: sp.precision, verb: sp.verb}
	switch {
	case sp.verb == '%':
		d.verb = 'f'
		return s.formatNumber(d, n.toFloat()*100) + "%"
	case sp.verb == 0 && n.kind == floating && sp.precision < 0:
		return floatText(n.float)
	case sp.verb == 0 && n.kind == floating:
		d.verb = 'g'
	case sp.verb == 0 || sp.verb == 'n':
		d.verb, d.precision = 'd', -1
	}
	return s.formatNumber(d, v)
}

// groupThousands puts a separator between each three digits of the whole part.
func (s *state) groupThousands(t, sep string) string {
	if sep == "" {
		return t
	}
	begin := 0
	if t[0] == '-' || t[0] == '+' || t[0] == ' ' {
		begin = 1
	}
	end := strings.IndexAny(t, ".e%")
	if end < 0 {
		end = len(t)
	}
	out := text{s: s}
	out.add(t[:begin])
	for i := begin; i < end; i++ {
		if i > begin && (end-i)%3 == 0 {
			out.add(sep)
		}
		out.addByte(t[i])
	}
	out.add(t[end:])
	return out.String()
}

// align fills a formatted value up to its width.
func (s *state) align(t string, sp spec) string {
	n := int64(sp.width - utf8.RuneCountInString(t))
	if n <= 0 {
		return t
	}
	switch sp.align {
	case '<':
		return t + s.repeat(sp.fill, n)
	case '^':
		return s.repeat(sp.fill, n/2) + t + s.repeat(sp.fill, n-n/2)
	case '=':
		if t[0] == '-' || t[0] == '+' {
			return t[:1] + s.repeat(sp.fill, n) + t[1:]
		}
	}
	return s.repeat(sp.fill, n) + t
}

// finite returns f, or fails if it is infinite or no number: such a float has no integer value.
func finite(f float64) float64 {
	if f != f || f-f != 0 {
		throw(KindOverflow, "cannot convert float %s to integer", floatText(f))
	}
	return f
}
