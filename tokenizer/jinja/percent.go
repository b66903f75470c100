package jinja

import (
	"strings"
	"unicode/utf8"
)

// percentFormat is one run of Python's "format % values".
type percentFormat struct {
	s       *state
	format  string
	pos     int
	out     text
	mapping *Dict // nil: the values are no mapping
	values  []Value
	used    int
}

// directive is one %… of a format.
type directive struct {
	flags     string
	width     int
	precision int // -1: absent
	verb      byte
}

// percent is format % v.
func (s *state) percent(format string, v Value) Value {
	p := &percentFormat{s: s, format: format, out: text{s: s}, values: []Value{v}}
	p.mapping, _ = v.(*Dict)
	if t, ok := v.(*tuple); ok {
		p.values = t.items
	}
	for p.pos < len(format) {
		next := strings.IndexByte(format[p.pos:], '%')
		if next < 0 {
			p.out.add(format[p.pos:])
			break
		}
		p.out.add(format[p.pos : p.pos+next])
		p.pos += next + 1
		p.directive()
	}
	takesAny := p.mapping != nil
	switch v.(type) {
	case *List, *intRange, *undefined: // Python takes anything that can be subscripted for a mapping here
		takesAny = true
	}
	if p.used < len(p.values) && !takesAny {
		throw(KindType, "not all arguments converted during string formatting")
	}
	return p.out.String()
}

// directive formats the directive after the % at hand.
func (p *percentFormat) directive() {
	p.s.work(1)
	key, keyed := p.key()
	d := directive{precision: -1}
	begin := p.pos
	for p.pos < len(p.format) && strings.IndexByte("#0- +", p.format[p.pos]) >= 0 {
		p.pos++
	}
	d.flags = p.format[begin:p.pos]
	d.width = p.size()
	if d.width < 0 {
		d.flags, d.width = d.flags+"-", -d.width
	}
	if p.pos < len(p.format) && p.format[p.pos] == '.' {
		p.pos++
		d.precision = max(0, p.size())
	}
	for p.pos < len(p.format) && strings.IndexByte("hlL", p.format[p.pos]) >= 0 {
		p.pos++
	}
	if p.pos >= len(p.format) {
		throw(KindValue, "incomplete format")
	}
	d.verb = p.format[p.pos]
	p.pos++
	if d.verb == '%' {
		p.out.addByte('%')
		return
	}
	if !keyed {
		key = p.next()
	}
	p.out.add(p.s.padField(p.convert(d, key), d.width, strings.Contains(d.flags, "-")))
}

// key reads a mapping key "(name)" and returns its value.
func (p *percentFormat) key() (Value, bool) {
	if !strings.HasPrefix(p.format[p.pos:], "(") {
		return nil, false
	}
	end := strings.IndexByte(p.format[p.pos:], ')')
	if end < 0 {
		throw(KindValue, "incomplete format key")
	}
	if p.mapping == nil {
		throw(KindType, "format requires a mapping")
	}
	name := p.format[p.pos+1 : p.pos+end]
	v, ok := p.mapping.Get(name)
	if !ok {
		throw(KindKey, "'%s'", name)
	}
	p.used = 1
	p.pos += end + 1
	return v, true
}

// next returns the next value.
func (p *percentFormat) next() Value {
	if p.used >= len(p.values) {
		throw(KindType, "not enough arguments for format string")
	}
	p.used++
	return p.values[p.used-1]
}

// size reads a width or precision, which may be a value of its own (*).
func (p *percentFormat) size() int {
	if strings.HasPrefix(p.format[p.pos:], "*") {
		p.pos++
		n := needInt(p.next())
		p.s.room(n, 1)
		p.s.room(-n, 1)
		return int(n)
	}
	n, end := readSize(p.s, p.format, p.pos)
	p.pos = end
	return n
}

// readSize reads digits at i and returns their number and the position after them.
func readSize(s *state, format string, i int) (int, int) {
	n := 0
	for i < len(format) && isDigit(format[i]) {
		n = n*10 + int(format[i]-'0')
		s.room(int64(n), 1)
		i++
	}
	return n, i
}

// convert formats a value without its padding.
func (p *percentFormat) convert(d directive, v Value) string {
	switch d.verb {
	case 's':
		return truncateRunes(p.s.str(v), d.precision)
	case 'r', 'a':
		return truncateRunes(p.s.repr(v), d.precision)
	case 'c':
		if t, ok := asString(v); ok {
			return t
		}
		return string(rune(needInt(v)))
	case 'd', 'i', 'u', 'x', 'X', 'o', 'e', 'E', 'f', 'F', 'g', 'G':
		return p.s.formatNumber(d, v)
	}
	throw(KindValue, "unsupported format character '%c'", d.verb)
	return ""
}

// truncateRunes cuts t after n characters if n is not negative.
func truncateRunes(t string, n int) string {
	if n < 0 || len(t) <= n {
		return t
	}
	return t[:runeOffset(t, n)]
}

// padField fills t with blanks up to a width.
func (s *state) padField(t string, width int, left bool) string {
	blanks := s.repeat(" ", int64(width-utf8.RuneCountInString(t)))
	if left {
		return t + blanks
	}
	return blanks + t
}
