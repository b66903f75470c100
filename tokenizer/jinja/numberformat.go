package jinja

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// formatNumber formats a number for % and str.format, with sign and zero padding.
func (s *state) formatNumber(d directive, v Value) string {
	n := asNumber(v)
	var t string
	switch d.verb {
	case 'd', 'i', 'u':
		t = s.formatInteger(n, v, d.precision)
	case 'x', 'X', 'o', 'b':
		t = formatBase(n, v, d)
	default:
		t = s.formatFloat(n, v, d)
	}
	if t[0] != '-' {
		if strings.Contains(d.flags, "+") {
			t = "+" + t
		} else if strings.Contains(d.flags, " ") {
			t = " " + t
		}
	}
	if len(t) < d.width && strings.Contains(d.flags, "0") && !strings.Contains(d.flags, "-") {
		sign := ""
		if t[0] == '-' || t[0] == '+' || t[0] == ' ' {
			sign, t = t[:1], t[1:]
		}
		t = sign + s.repeat("0", int64(d.width-len(sign)-len(t))) + t
	}
	return t
}

// formatInteger formats in decimal with at least digits digits.
func (s *state) formatInteger(n number, v Value, digits int) string {
	var t string
	switch n.kind {
	case smallInt:
		t = strconv.FormatInt(n.small, 10)
	case bigInt:
		t = integerText(n.big)
	case floating:
		b, _ := big.NewFloat(finite(n.float)).Int(nil)
		t = b.String()
	case notNumber:
		throw(KindType, "%%d format: a real number is required, not %s", typeName(v))
	}
	if digits < 0 {
		return t
	}
	t, negative := strings.CutPrefix(t, "-")
	t = s.repeat("0", int64(digits-len(t))) + t
	if negative {
		t = "-" + t
	}
	return t
}

// formatBase formats in base 2, 8 or 16.
func formatBase(n number, v Value, d directive) string {
	if !n.isInteger() {
		throw(KindType, "%%%c format: an integer is required, not %s", d.verb, typeName(v))
	}
	base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[d.verb]
	t := n.toBig().Text(base)
	if d.verb == 'X' {
		t = strings.ToUpper(t)
	}
	if strings.Contains(d.flags, "#") {
		prefix := "0" + string(d.verb)
		if t[0] == '-' {
			return "-" + prefix + t[1:]
		}
		return prefix + t
	}
	return t
}

// formatFloat formats with e, f or g.
func (s *state) formatFloat(n number, v Value, d directive) string {
	if n.kind == notNumber {
		throw(KindType, "must be real number, not %s", typeName(v))
	}
	precision := d.precision
	if precision < 0 {
		precision = 6
	}
	s.room(int64(precision), 1)
	s.alloc(precision)
	f, verb := n.toFloat(), d.verb
	switch verb {
	case 'g', 'G':
		return fmt.Sprintf("%."+strconv.Itoa(max(1, precision))+string(verb), f)
	case 'F':
		verb = 'f'
	case 'e', 'E', 'f':
	default:
		throw(KindValue, "Unknown format code '%c' for object of type '%s'", verb, typeName(v))
	}
	return strconv.FormatFloat(f, verb, precision, 64)
}
