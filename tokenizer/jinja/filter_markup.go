package jinja

import (
	"math"
	"strconv"
	"strings"
)

// htmlEscapes is what markupsafe escapes.
var htmlEscapes = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

// escapeHTML escapes the characters that mean something in HTML.
func (s *state) escapeHTML(t string) string {
	if !strings.ContainsAny(t, `&<>'"`) {
		return t
	}
	out := text{s: s}
	if _, err := htmlEscapes.WriteString(&out, t); err != nil {
		throw(KindInternal, "escaping: %v", err)
	}
	return out.String()
}

// markupFilters are the filters for HTML and URLs.
func markupFilters() map[string]filter {
	return map[string]filter{
		"safe":           func(s *state, v Value, _ args) Value { return markup(s.str(v)) },
		"escape":         filterEscape,
		"e":              filterEscape,
		"forceescape":    func(s *state, v Value, _ args) Value { return markup(s.escapeHTML(s.str(v))) },
		"urlencode":      filterURLEncode,
		"filesizeformat": filterFileSize,
	}
}

func filterEscape(s *state, v Value, _ args) Value {
	if m, ok := v.(markup); ok {
		return m
	}
	return markup(s.escapeHTML(s.str(v)))
}

// percentEncode is urllib.parse.quote; in a query a blank is a plus and a slash is encoded too.
func (s *state) percentEncode(t string, query bool) string {
	safe := "_.-~/"
	if query {
		safe = "_.-~"
	}
	out := text{s: s}
	for i := range len(t) {
		c := t[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || strings.IndexByte(safe, c) >= 0:
			out.addByte(c)
		case query && c == ' ':
			out.addByte('+')
		default:
			out.addByte('%')
			out.add(strings.ToUpper(string([]byte{hexDigits[c>>4], hexDigits[c&15]})))
		}
	}
	return out.String()
}

func filterURLEncode(s *state, v Value, _ args) Value {
	var entries []Value
	switch x := v.(type) {
	case *Dict:
		entries = s.pairs(x)
	case *List, *tuple, *view, *generator, *intRange, *undefined:
		entries = s.iterate(v)
	default:
		return s.percentEncode(s.str(v), false)
	}
	out := text{s: s}
	for i, e := range entries {
		kv := s.iterate(e)
		if len(kv) != 2 {
			throw(KindValue, "not enough values to unpack (expected 2, got %d)", len(kv))
		}
		if i > 0 {
			out.addByte('&')
		}
		out.add(s.percentEncode(s.str(kv[0]), true))
		out.addByte('=')
		out.add(s.percentEncode(s.str(kv[1]), true))
	}
	return out.String()
}

func filterFileSize(_ *state, v Value, a args) Value {
	n := asNumber(v)
	if t, ok := asString(v); ok {
		f, err := strconv.ParseFloat(strings.TrimFunc(t, isSpace), 64)
		if err != nil {
			throw(KindValue, "could not convert string to float: '%s'", t)
		}
		n = number{kind: floating, float: f}
	}
	if n.kind == notNumber {
		failIfUndefined(v)
		throw(KindType, "float() argument must be a string or a real number, not '%s'", typeName(v))
	}
	size := n.toFloat()
	base, units := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if truthy(a.arg(0, "binary", false)) {
		base, units = 1024.0, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	switch {
	case size == 1:
		return "1 Byte"
	case size < base:
		return strconv.FormatInt(int64(size), 10) + " Bytes"
	}
	i := 0
	for i < len(units)-1 && size >= math.Pow(base, float64(i+2)) {
		i++
	}
	return strconv.FormatFloat(base*size/math.Pow(base, float64(i+2)), 'f', 1, 64) + " " + units[i]
}
