package jinja

import (
	"math/big"
	"strconv"
	"strings"
)

// tokenKind is what a token is.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenData
	tokenBlockBegin
	tokenBlockEnd
	tokenPrintBegin
	tokenPrintEnd
	tokenName
	tokenString
	tokenInt
	tokenFloat
	tokenOperator
)

// token is one piece of a template's source.
type token struct {
	kind  tokenKind
	text  string // the source, or a string's value
	value Value  // a number's value
	line  int
}

// String is how messages name the token.
func (t token) String() string {
	switch t.kind {
	case tokenEnd:
		return "end of template"
	case tokenBlockEnd:
		return "end of statement block"
	case tokenPrintEnd:
		return "end of print statement"
	case tokenData, tokenBlockBegin, tokenPrintBegin, tokenName, tokenString, tokenInt, tokenFloat, tokenOperator:
	}
	return t.text
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digitsEnd returns where the digits that begin at i end; single underscores may stand between digits.
func digitsEnd(s string, i int) int {
	begin := i
	for i < len(s) && (isDigit(s[i]) || s[i] == '_' && i > begin && i+1 < len(s) && isDigit(s[i+1])) {
		i++
	}
	return i
}

// scanNumber reads the number that src begins with and returns it without a line, and its length. After a dot only an integer
// is read, so that x.0.1 are two subscripts.
func scanNumber(src string, afterDot bool) (token, int) {
	if !afterDot {
		if n := floatEnd(src); n > 0 {
			// an out of range literal is infinite, as in Python
			f, _ := strconv.ParseFloat(strings.ReplaceAll(src[:n], "_", ""), 64)
			return token{kind: tokenFloat, text: src[:n], value: f}, n
		}
	}
	if n := prefixedEnd(src); n > 0 {
		if i, err := strconv.ParseInt(src[:n], 0, 64); err == nil {
			return token{kind: tokenInt, text: src[:n], value: i}, n
		}
	}
	n := digitsEnd(src, 0)
	if src[0] == '0' { // 0 and 00 are numbers, 01 is two
		n = 1
		for n < len(src) && src[n] == '0' {
			n++
		}
	}
	digits := strings.ReplaceAll(src[:n], "_", "")
	if i, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return token{kind: tokenInt, text: src[:n], value: i}, n
	}
	if len(digits) > maxIntegerDigits {
		return token{kind: tokenEnd}, 0
	}
	b, _ := new(big.Int).SetString(digits, 10)
	return token{kind: tokenInt, text: src[:n], value: b}, n
}

// floatEnd returns the length of the float literal that src begins with, or 0.
func floatEnd(src string) int {
	end := digitsEnd(src, 0)
	whole := end
	if end < len(src) && src[end] == '.' {
		if n := digitsEnd(src, end+1); n > end+1 {
			end = n
		}
	}
	if end < len(src) && (src[end] == 'e' || src[end] == 'E') {
		n := end + 1
		if n < len(src) && (src[n] == '+' || src[n] == '-') {
			n++
		}
		if m := digitsEnd(src, n); m > n {
			end = m
		}
	}
	if end == whole {
		return 0
	}
	return end
}

// prefixedEnd returns the length of the 0b, 0o or 0x literal that src begins with, or 0.
func prefixedEnd(src string) int {
	if len(src) <= 2 || src[0] != '0' || !strings.Contains("bBoOxX", src[1:2]) {
		return 0
	}
	n := 2
	for n < len(src) && (src[n] == '_' || isDigit(src[n]) || src[1]|32 == 'x' && src[n]|32 >= 'a' && src[n]|32 <= 'f') {
		n++
	}
	return n
}

// unescape resolves the escapes of a string literal as Python's "unicode-escape" does in jinja2's lexer.
func unescape(s string, line int) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i += escape(&b, s[i+1:], line)
	}
	return b.String()
}

// escape writes the character of the escape whose text after the backslash s begins with, and returns that text's length.
func escape(b *strings.Builder, s string, line int) int {
	const letters, controls = "abfnrtv", "\a\b\f\n\r\t\v"
	c := s[0]
	if i := strings.IndexByte(letters, c); i >= 0 {
		b.WriteByte(controls[i])
		return 1
	}
	switch {
	case c == '\n': // a line that goes on
	case c == '\\' || c == '\'' || c == '"':
		b.WriteByte(c)
	case c == 'x' || c == 'u' || c == 'U':
		n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		if len(s) <= n {
			syntaxFail(line, "truncated escape")
		}
		v, err := strconv.ParseUint(s[1:1+n], 16, 32)
		if err != nil {
			syntaxFail(line, "truncated escape")
		}
		b.WriteRune(rune(v))
		return 1 + n
	case c >= '0' && c <= '7':
		v, n := rune(0), 0
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			v = v*8 + rune(s[n]-'0')
			n++
		}
		b.WriteRune(v)
		return n
	default:
		b.WriteByte('\\')
		b.WriteByte(c)
	}
	return 1
}
