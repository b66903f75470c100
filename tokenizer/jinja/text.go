package jinja

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text builds a string under the limits of a render.
type text struct {
	s *state
	b strings.Builder
}

// grow spends what n more bytes take.
func (t *text) grow(n int) {
	if t.b.Len()+n > t.s.limits.OutputBytes {
		t.s.room(int64(t.b.Len())+int64(n), 1)
	}
	t.s.alloc(n)
}

func (t *text) add(x string) {
	t.grow(len(x))
	t.b.WriteString(x)
}

func (t *text) addByte(c byte) {
	t.grow(1)
	t.b.WriteByte(c)
}

func (t *text) addRune(r rune) {
	t.grow(utf8.UTFMax)
	t.b.WriteRune(r)
}

// Write lets a strings.Replacer write into the text.
func (t *text) Write(p []byte) (int, error) {
	t.grow(len(p))
	return t.b.Write(p)
}

// WriteString lets a strings.Replacer write into the text.
func (t *text) WriteString(x string) (int, error) {
	t.add(x)
	return len(x), nil
}

func (t *text) String() string { return t.b.String() }

// str is str(v).
func (s *state) str(v Value) string {
	switch x := v.(type) {
	case string:
		return x
	case markup:
		return string(x)
	case nil:
		return "None"
	case bool:
		if x {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(x, 10)
	case *undefined:
		failIfUnsafe(x)
		return ""
	case float64:
		return floatText(x)
	}
	return s.repr(v)
}

// repr is repr(v).
func (s *state) repr(v Value) string {
	t := text{s: s}
	t.repr(v, 0)
	return t.String()
}

func (t *text) repr(v Value, depth int) {
	t.s.descend(depth)
	t.s.work(1)
	switch x := v.(type) {
	case string:
		t.quote(x)
	case markup:
		t.add("Markup(")
		t.quote(string(x))
		t.addByte(')')
	case *List:
		t.reprItems("[", x.Items, "]", depth)
	case *tuple:
		end := ")"
		if len(x.items) == 1 {
			end = ",)"
		}
		t.reprItems("(", x.items, end, depth)
	case *Dict:
		t.reprDict(x, depth)
	case *view:
		t.reprItems(x.kind+"([", x.items, "])", depth)
	case *intRange:
		t.add(fmt.Sprintf("range(%d, %d", x.start, x.stop))
		if x.step != 1 {
			t.add(fmt.Sprintf(", %d", x.step))
		}
		t.addByte(')')
	case *big.Int:
		t.add(integerText(x))
	case *undefined:
		t.add("Undefined")
	case *namespace:
		t.add("<Namespace ")
		t.repr(x.vars, depth+1)
		t.addByte('>')
	case *macro:
		t.add("<Macro '" + x.def.name + "'>")
	case *generator, *function, *loopContext, *cycler:
		// Python prints an address here, so no two runs agree and the text can't equal the engine's.
		throw(KindType, "cannot print a %s", typeName(v))
	default:
		t.add(t.s.str(v))
	}
}

func (t *text) reprItems(begin string, items []Value, end string, depth int) {
	t.add(begin)
	for i, x := range items {
		if i > 0 {
			t.add(", ")
		}
		t.repr(x, depth+1)
	}
	t.add(end)
}

func (t *text) reprDict(d *Dict, depth int) {
	t.addByte('{')
	for i, k := range d.keys {
		if i > 0 {
			t.add(", ")
		}
		t.repr(k, depth+1)
		t.add(": ")
		t.repr(d.values[i], depth+1)
	}
	t.addByte('}')
}

// quote writes the repr of a string.
func (t *text) quote(x string) {
	q := '\''
	if strings.Contains(x, "'") && !strings.Contains(x, `"`) {
		q = '"'
	}
	t.addRune(q)
	for _, r := range x {
		switch {
		case r == q || r == '\\':
			t.addByte('\\')
			t.addRune(r)
		case r == '\n':
			t.add(`\n`)
		case r == '\r':
			t.add(`\r`)
		case r == '\t':
			t.add(`\t`)
		case r < ' ' || r == 0x7f:
			t.add(fmt.Sprintf(`\x%02x`, r))
		case r < 0x7f || unicode.IsPrint(r):
			t.addRune(r)
		case r <= 0xff:
			t.add(fmt.Sprintf(`\x%02x`, r))
		case r <= 0xffff:
			t.add(fmt.Sprintf(`\u%04x`, r))
		default:
			t.add(fmt.Sprintf(`\U%08x`, r))
		}
	}
	t.addRune(q)
}

// isSpace is str.isspace of one character: what strip() and split() take for white space.
func isSpace(r rune) bool {
	switch {
	case r >= 9 && r <= 13, r >= 0x1c && r <= 0x20, r == 0x85, r == 0xa0, r == 0x1680,
		r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// skipSpace returns the first position from i on that holds no white space.
func skipSpace(s string, i int) int {
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !isSpace(r) {
			break
		}
		i += n
	}
	return i
}

// isASCII reports whether every byte of s is a character of its own.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
