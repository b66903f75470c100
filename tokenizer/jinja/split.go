package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// stringList makes a list of strings.
func (s *state) stringList(parts []string) *List {
	s.alloc(2 * valueBytes * len(parts))
	s.work(len(parts) / 4)
	out := make([]Value, len(parts))
	for i, x := range parts {
		out[i] = x
	}
	return &List{out}
}

func methodSplit(s *state, t string, a args) Value {
	sep := a.arg(0, "sep", nil)
	limit := needInt(a.arg(1, "maxsplit", int64(-1)))
	if sep == nil {
		return s.stringList(fields(t, limit))
	}
	p := separator(sep)
	switch {
	case limit < 0 || limit >= int64(len(t)):
		return s.stringList(strings.Split(t, p))
	default:
		return s.stringList(strings.SplitN(t, p, int(limit)+1))
	}
}

// separator returns the text of a separator, which can't be empty.
func separator(v Value) string {
	p := needString(v, "separator")
	if p == "" {
		throw(KindValue, "empty separator")
	}
	return p
}

// fields splits at white space, at most limit times if that is not negative; the rest keeps its trailing white space.
func fields(t string, limit int64) []string {
	var out []string
	i := skipSpace(t, 0)
	for i < len(t) {
		j := strings.IndexFunc(t[i:], isSpace)
		if limit == 0 || j < 0 {
			return append(out, t[i:])
		}
		out = append(out, t[i:i+j])
		i = skipSpace(t, i+j)
		limit--
	}
	return out
}

func methodRsplit(s *state, t string, a args) Value {
	sep := a.arg(0, "sep", nil)
	limit := needInt(a.arg(1, "maxsplit", int64(-1)))
	if sep == nil {
		return s.stringList(fieldsFromRight(t, limit))
	}
	p := separator(sep)
	if limit < 0 {
		return s.stringList(strings.Split(t, p))
	}
	var out []string
	for ; limit > 0; limit-- {
		i := strings.LastIndex(t, p)
		if i < 0 {
			break
		}
		out = append(out, t[i+len(p):])
		t = t[:i]
	}
	out = append(out, t)
	slices.Reverse(out)
	return s.stringList(out)
}

// fieldsFromRight is fields that counts its splits from the end.
func fieldsFromRight(t string, limit int64) []string {
	if limit < 0 {
		return fields(t, -1)
	}
	var out []string
	t = strings.TrimRightFunc(t, isSpace)
	for ; limit > 0; limit-- {
		i := strings.LastIndexFunc(t, isSpace)
		if i < 0 {
			break
		}
		_, n := utf8.DecodeRuneInString(t[i:])
		out = append(out, t[i+n:])
		t = strings.TrimRightFunc(t[:i], isSpace)
	}
	if strings.TrimFunc(t, isSpace) != "" {
		if limit > 0 {
			t = strings.TrimLeftFunc(t, isSpace)
		}
		out = append(out, t)
	}
	slices.Reverse(out)
	return out
}

func methodSplitlines(s *state, t string, a args) Value {
	return s.stringList(splitLines(t, truthy(a.arg(0, "keepends", false))))
}

// splitLines splits at all of Python's line ends, which it keeps if asked to.
func splitLines(t string, keepEnds bool) []string {
	var out []string
	begin := 0
	for i := 0; i < len(t); {
		r, n := utf8.DecodeRuneInString(t[i:])
		switch r {
		case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
			if r == '\r' && strings.HasPrefix(t[i+1:], "\n") {
				n = 2
			}
			end := i
			if keepEnds {
				end += n
			}
			out = append(out, t[begin:end])
			begin = i + n
		}
		i += n
	}
	if begin < len(t) {
		out = append(out, t[begin:])
	}
	return out
}

func methodPartition(_ *state, t string, a args) Value {
	p := separator(a.arg(0, "", nil))
	before, after, found := strings.Cut(t, p)
	if !found {
		return &tuple{[]Value{t, "", ""}}
	}
	return &tuple{[]Value{before, p, after}}
}

func methodRpartition(_ *state, t string, a args) Value {
	p := separator(a.arg(0, "", nil))
	i := strings.LastIndex(t, p)
	if i < 0 {
		return &tuple{[]Value{"", "", t}}
	}
	return &tuple{[]Value{t[:i], p, t[i+len(p):]}}
}
