package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

// stringMethod is a method of str.
type stringMethod func(s *state, t string, a args) Value

// callMethod calls a method of str and reckons what it costs.
func (s *state) callMethod(m stringMethod, t string, a args) Value {
	s.scan(len(t))
	return s.charge(m(s, t, a))
}

// boundMethod is v.name without a call, v being a str or Markup; methods of Markup return Markup.
func boundMethod(v Value, name string, m stringMethod) Value {
	t, _ := asString(v)
	_, safe := v.(markup)
	return &function{name, func(s *state, a args) Value {
		r := s.callMethod(m, t, a)
		if x, ok := r.(string); ok && safe {
			return markup(x)
		}
		return r
	}}
}

// mapping makes a method of a mapping of letters.
func mapping(f func(string) string) stringMethod {
	return func(s *state, t string, _ args) Value { return s.mapCase(t, f) }
}

// allOf makes a method that tells whether a predicate holds for every character.
func allOf(f func(rune) bool) stringMethod {
	return func(_ *state, t string, _ args) Value { return every(t, f) }
}

func newStringMethods() map[string]stringMethod {
	methods := stringMethods()
	for name, m := range methods {
		methods[name] = withMethodSignature(name, m)
	}
	return methods
}

// withMethodSignature makes a method fail for arguments that Python's method of that name does not take.
func withMethodSignature(name string, m stringMethod) stringMethod {
	most, names := 0, []string(nil)
	switch name {
	case "format":
		return m
	case "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "partition", "rpartition", "join", "zfill":
		most = 1
	case "splitlines":
		most, names = 1, []string{"keepends"}
	case "expandtabs":
		most, names = 1, []string{"tabsize"}
	case "ljust", "rjust", "center":
		most = 2
	case "split", "rsplit":
		most, names = 2, []string{"sep", "maxsplit"}
	case "startswith", "endswith", "find", "rfind", "index", "rindex", "count", "replace":
		most = 3
	}
	return func(s *state, t string, a args) Value {
		if len(a.positional) > most || len(a.names) > 0 {
			a.atMost("str."+name+"()", most, names...)
		}
		return m(s, t, a)
	}
}

func stringMethods() map[string]stringMethod {
	return map[string]stringMethod{
		"strip":        func(_ *state, t string, a args) Value { return strings.TrimFunc(t, strippable(a, "strip")) },
		"lstrip":       func(_ *state, t string, a args) Value { return strings.TrimLeftFunc(t, strippable(a, "lstrip")) },
		"rstrip":       func(_ *state, t string, a args) Value { return strings.TrimRightFunc(t, strippable(a, "rstrip")) },
		"upper":        mapping(upper),
		"lower":        mapping(lower),
		"casefold":     mapping(func(t string) string { return cases.Fold().String(t) }),
		"capitalize":   mapping(capitalize),
		"title":        mapping(title),
		"swapcase":     mapping(swapCase),
		"isascii":      func(_ *state, t string, _ args) Value { return isASCII(t) },
		"isupper":      func(s *state, t string, _ args) Value { return s.textIs(t, isUpper) },
		"islower":      func(s *state, t string, _ args) Value { return s.textIs(t, isLower) },
		"isdigit":      allOf(unicode.IsDigit),
		"isdecimal":    allOf(unicode.IsDigit),
		"isnumeric":    allOf(unicode.IsNumber),
		"isalpha":      allOf(unicode.IsLetter),
		"isalnum":      allOf(isAlphanumeric),
		"isspace":      allOf(isSpace),
		"startswith":   func(s *state, t string, a args) Value { return s.affix(t, a, strings.HasPrefix, "startswith") },
		"endswith":     func(s *state, t string, a args) Value { return s.affix(t, a, strings.HasSuffix, "endswith") },
		"removeprefix": func(_ *state, t string, a args) Value { return strings.TrimPrefix(t, operand(a, "removeprefix()")) },
		"removesuffix": func(_ *state, t string, a args) Value { return strings.TrimSuffix(t, operand(a, "removesuffix()")) },
		"split":        methodSplit,
		"rsplit":       methodRsplit,
		"splitlines":   methodSplitlines,
		"partition":    methodPartition,
		"rpartition":   methodRpartition,
		"replace":      methodReplace,
		"find":         func(s *state, t string, a args) Value { return s.search(t, a, strings.Index, "find()") },
		"rfind":        func(s *state, t string, a args) Value { return s.search(t, a, strings.LastIndex, "rfind()") },
		"index":        func(s *state, t string, a args) Value { return found(s.search(t, a, strings.Index, "index()")) },
		"rindex":       func(s *state, t string, a args) Value { return found(s.search(t, a, strings.LastIndex, "rindex()")) },
		"count":        methodCount,
		"join":         methodJoin,
		"expandtabs":   methodExpandtabs,
		"zfill":        methodZfill,
		"ljust":        func(s *state, t string, a args) Value { return s.pad(t, a, padRight) },
		"rjust":        func(s *state, t string, a args) Value { return s.pad(t, a, padLeft) },
		"center":       func(s *state, t string, a args) Value { return s.pad(t, a, padBoth) },
		"format":       func(s *state, t string, a args) Value { return s.format(t, a) },
	}
}

// operand returns the one str argument of a method.
func operand(a args, method string) string { return needString(a.arg(0, "", nil), method+" argument") }

// strippable returns which characters strip() and its like take away.
func strippable(a args, method string) func(rune) bool {
	v := a.arg(0, "", nil)
	if v == nil {
		return isSpace
	}
	set, ok := asString(v)
	if !ok {
		throw(KindType, "%s arg must be None or str", method)
	}
	return func(r rune) bool { return strings.ContainsRune(set, r) }
}

// affix is t.startswith or t.endswith.
func (s *state) affix(t string, a args, has func(string, string) bool, name string) Value {
	if len(a.positional) == 0 {
		throw(KindType, "%s expected at least 1 argument, got 0", name)
	}
	t, _, inside := s.window(t, a)
	if !inside {
		return false
	}
	if x, ok := a.positional[0].(*tuple); ok {
		for _, e := range x.items {
			s.work(1)
			if has(t, needString(e, name+" arg")) {
				return true
			}
		}
		return false
	}
	p, ok := asString(a.positional[0])
	if !ok {
		throw(KindType, "%s first arg must be str or a tuple of str, not %s", name, typeName(a.positional[0]))
	}
	return has(t, p)
}

// window returns the part of t between the second and the third argument, if these are given, and the character it begins at.
// inside is false where the bounds cross, or begin behind the end.
func (s *state) window(t string, a args) (part string, begin int64, inside bool) {
	if len(a.positional) < 2 {
		return t, 0, true
	}
	b := bounds{step: 1}
	for i, v := range a.positional[1:] {
		if v == nil {
			continue
		}
		n := needInt(v)
		if i == 0 {
			b.start = &n
		} else {
			b.stop = &n
		}
	}
	length := int64(utf8.RuneCountInString(t))
	start, stop, _ := b.resolve(length)
	if start > stop || b.start != nil && *b.start > length {
		return "", 0, false
	}
	return s.substring(t, b), start, true
}

// search is t.find or t.rfind: the character that a text begins at, or -1.
func (s *state) search(t string, a args, index func(string, string) int, method string) int64 {
	what := operand(a, method)
	part, begin, inside := s.window(t, a)
	if !inside {
		return -1
	}
	i := index(part, what)
	if i < 0 {
		return -1
	}
	return begin + int64(utf8.RuneCountInString(part[:i]))
}

// found fails for the -1 of a search.
func found(i int64) Value {
	if i < 0 {
		throw(KindValue, "substring not found")
	}
	return i
}

func methodCount(s *state, t string, a args) Value {
	what := operand(a, "count()")
	part, _, inside := s.window(t, a)
	if !inside {
		return int64(0)
	}
	return int64(strings.Count(part, what))
}

func methodReplace(s *state, t string, a args) Value {
	if len(a.positional) < 2 {
		throw(KindType, "replace expected at least 2 arguments, got %d", len(a.positional))
	}
	return s.replace(t,
		needString(a.positional[0], "replace() argument 1"),
		needString(a.positional[1], "replace() argument 2"),
		needInt(a.arg(2, "count", int64(-1))))
}

// replace is t.replace(old, new, count); a negative count means all.
func (s *state) replace(t, from, to string, count int64) string {
	n := int64(strings.Count(t, from))
	if count >= 0 {
		n = min(n, count)
	}
	if grown := int64(len(to) - len(from)); grown > 0 && n > 0 {
		s.room(n, grown)
		s.room(int64(len(t))+n*grown, 1)
	}
	return strings.Replace(t, from, to, int(n))
}

func methodJoin(s *state, t string, a args) Value {
	out := text{s: s}
	for i, x := range s.iterate(a.arg(0, "", nil)) {
		part, ok := asString(x)
		if !ok {
			throw(KindType, "sequence item %d: expected str instance, %s found", i, typeName(x))
		}
		if i > 0 {
			out.add(t)
		}
		out.add(part)
	}
	return out.String()
}

func methodExpandtabs(s *state, t string, a args) Value {
	size := needInt(a.arg(0, "tabsize", int64(8)))
	out := text{s: s}
	column := int64(0)
	for _, r := range t {
		switch r {
		case '\t':
			if size > 0 {
				n := size - column%size
				out.add(s.repeat(" ", n))
				column += n
			}
		case '\n', '\r':
			out.addRune(r)
			column = 0
		default:
			out.addRune(r)
			column++
		}
	}
	return out.String()
}

func methodZfill(s *state, t string, a args) Value {
	zeros := s.repeat("0", needInt(a.arg(0, "", nil))-int64(utf8.RuneCountInString(t)))
	if t != "" && (t[0] == '-' || t[0] == '+') {
		return t[:1] + zeros + t[1:]
	}
	return zeros + t
}

// padding says where the fill of a padded text goes.
type padding uint8

const (
	padRight padding = iota
	padLeft
	padBoth
)

// pad is t.ljust, t.rjust or t.center.
func (s *state) pad(t string, a args, where padding) Value {
	width := needInt(a.arg(0, "width", int64(0)))
	fill := needString(a.arg(1, "fillchar", " "), "fill character")
	if utf8.RuneCountInString(fill) != 1 {
		throw(KindType, "The fill character must be exactly one character long")
	}
	n := width - int64(utf8.RuneCountInString(t))
	if n <= 0 {
		return t
	}
	left := int64(0)
	switch where {
	case padLeft:
		left = n
	case padBoth:
		left = n/2 + n&width&1
	case padRight:
	}
	s.room(n, int64(len(fill)))
	return s.repeat(fill, left) + t + s.repeat(fill, n-left)
}
