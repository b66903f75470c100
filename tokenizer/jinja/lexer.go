package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lexer cuts a source into tokens as jinja2's lexer does with trim_blocks and lstrip_blocks on and keep_trailing_newline
// off: these are the settings that chat templates are rendered with everywhere.
type lexer struct {
	src    string
	pos    int
	line   int
	tokens []token
	// lineStart: nothing but the previous tag's own newline stands before pos on its line, so that lstrip_blocks applies
	// to the text from pos on.
	lineStart bool
}

// lex returns the tokens of a source, the last of which is a tokenEnd.
func lex(src string) []token {
	if strings.Contains(src, "\r") {
		src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	}
	l := &lexer{src: strings.TrimSuffix(src, "\n"), line: 1, lineStart: true}
	for l.pos < len(l.src) {
		begin := l.nextTag()
		if begin < 0 {
			l.emit(tokenData, l.src[l.pos:])
			break
		}
		if l.src[begin+1] == '#' {
			l.comment(begin)
		} else if !l.raw(begin) {
			l.tag(begin)
		}
	}
	l.emit(tokenEnd, "")
	return l.tokens
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind: kind, text: text, line: l.line})
}

// nextTag returns where the next {{, {% or {# is, or -1.
func (l *lexer) nextTag() int {
	for i := l.pos; ; i++ {
		j := strings.IndexByte(l.src[i:], '{')
		if j < 0 || i+j+1 >= len(l.src) {
			return -1
		}
		i += j
		if c := l.src[i+1]; c == '{' || c == '%' || c == '#' {
			return i
		}
	}
}

// sign reads the whitespace sign at i, 0 if there is none, and returns the position after it.
func (l *lexer) sign(i int) (byte, int) {
	if i < len(l.src) && (l.src[i] == '-' || l.src[i] == '+') {
		return l.src[i], i + 1
	}
	return 0, i
}

// data emits the text before a tag, stripped as the tag's sign and lstrip_blocks ask.
func (l *lexer) data(text string, sign byte, isPrint bool) {
	out := text
	if sign == '-' {
		out = strings.TrimRightFunc(text, isSpace)
	} else if sign != '+' && !isPrint {
		last := strings.LastIndexByte(text, '\n') + 1
		if (last > 0 || l.lineStart) && skipSpace(text, last) == len(text) {
			out = text[:last]
		}
	}
	if out != "" {
		l.emit(tokenData, out)
	}
	l.line += strings.Count(text, "\n")
}

// closing describes the end of a tag.
type closing struct {
	text string
	plus bool // "+%}" is understood (and keeps the newline)
	trim bool // a newline after the tag is dropped (trim_blocks)
}

// closed returns the position after the end of a tag that stands at i, or -1 if none stands there.
func (l *lexer) closed(i int, c closing) int {
	if i >= len(l.src) {
		return -1
	}
	switch rest := l.src[i:]; {
	case c.plus && rest[0] == '+' && strings.HasPrefix(rest[1:], c.text):
		return i + 1 + len(c.text)
	case rest[0] == '-' && strings.HasPrefix(rest[1:], c.text):
		return skipSpace(l.src, i+1+len(c.text))
	case strings.HasPrefix(rest, c.text):
		i += len(c.text)
		if c.trim && i < len(l.src) && l.src[i] == '\n' {
			i++
		}
		return i
	}
	return -1
}

// advance moves to the position after a tag.
func (l *lexer) advance(end int) {
	l.lineStart = l.src[end-1] == '\n'
	l.pos = end
}

// comment skips the comment at begin.
func (l *lexer) comment(begin int) {
	sign, body := l.sign(begin + 2)
	l.data(l.src[l.pos:begin], sign, false)
	end := -1
	if j := strings.Index(l.src[body:], "#}"); j >= 0 {
		at := body + j
		if at > body && (l.src[at-1] == '-' || l.src[at-1] == '+') {
			at--
		}
		end = l.closed(at, closing{"#}", true, true})
	}
	if end < 0 {
		syntaxFail(l.line, "Missing end of comment tag")
	}
	l.line += strings.Count(l.src[body:end], "\n")
	l.advance(end)
}

// raw reads the {% raw %} section at begin, if one begins there.
func (l *lexer) raw(begin int) bool {
	if l.src[begin+1] != '%' {
		return false
	}
	sign, i := l.sign(begin + 2)
	i = skipSpace(l.src, i)
	if !strings.HasPrefix(l.src[i:], "raw") {
		return false
	}
	body := l.closed(skipSpace(l.src, i+len("raw")), closing{text: "%}"})
	if body < 0 {
		return false
	}
	l.data(l.src[l.pos:begin], sign, false)
	l.lineStart = l.src[body-1] == '\n'
	for i := body; ; i += 2 {
		j := strings.Index(l.src[i:], "{%")
		if j < 0 {
			syntaxFail(l.line, "Missing end of raw directive")
		}
		i += j
		sign, at := l.sign(i + 2)
		at = skipSpace(l.src, at)
		if !strings.HasPrefix(l.src[at:], "endraw") {
			continue
		}
		if end := l.closed(skipSpace(l.src, at+len("endraw")), closing{"%}", true, true}); end >= 0 {
			l.data(l.src[body:i], sign, false)
			l.advance(end)
			return true
		}
	}
}

// tag reads the print or statement tag at begin.
func (l *lexer) tag(begin int) {
	isPrint := l.src[begin+1] == '{'
	sign, i := l.sign(begin + 2)
	l.data(l.src[l.pos:begin], sign, isPrint)
	kind, end := tokenBlockEnd, closing{"%}", true, true}
	if isPrint {
		kind, end = tokenPrintEnd, closing{text: "}}"}
		l.emit(tokenPrintBegin, "{{")
	} else {
		l.emit(tokenBlockBegin, "{%")
	}
	var brackets []byte // the closing ones that are awaited
	for {
		if i >= len(l.src) {
			syntaxFail(l.line, "unexpected end of template")
		}
		if len(brackets) == 0 {
			if after := l.closed(i, end); after >= 0 {
				l.emit(kind, end.text)
				l.line += strings.Count(l.src[i:after], "\n")
				l.advance(after)
				return
			}
		}
		if after := skipSpace(l.src, i); after > i {
			l.line += strings.Count(l.src[i:after], "\n")
			i = after
			continue
		}
		i, brackets = l.expression(i, brackets)
	}
}

// expression reads one token of an expression at i and returns the position after it and the brackets then open.
func (l *lexer) expression(i int, brackets []byte) (int, []byte) {
	c := l.src[i]
	switch {
	case isDigit(c):
		t, n := scanNumber(l.src[i:], i > 0 && l.src[i-1] == '.')
		if n == 0 {
			syntaxFail(l.line, "a number of more than %d digits", maxIntegerDigits)
		}
		t.line = l.line
		l.tokens = append(l.tokens, t)
		return i + n, brackets
	case c == '\'' || c == '"':
		return l.str(i), brackets
	}
	if end := nameEnd(l.src, i); end > i {
		l.emit(tokenName, l.src[i:end])
		return end, brackets
	}
	op := operatorAt(l.src[i:])
	if op == "" {
		r, _ := utf8.DecodeRuneInString(l.src[i:])
		syntaxFail(l.line, "unexpected char %q", r)
	}
	switch op {
	case "{":
		brackets = append(brackets, '}')
	case "(":
		brackets = append(brackets, ')')
	case "[":
		brackets = append(brackets, ']')
	case "}", ")", "]":
		if len(brackets) == 0 {
			syntaxFail(l.line, "unexpected '%s'", op)
		}
		want := brackets[len(brackets)-1]
		if want != op[0] {
			syntaxFail(l.line, "unexpected '%s', expected '%c'", op, want)
		}
		brackets = brackets[:len(brackets)-1]
	}
	l.emit(tokenOperator, op)
	return i + len(op), brackets
}

// str reads the string literal at i and returns the position after it.
func (l *lexer) str(i int) int {
	quote, end := l.src[i], i+1
	for end < len(l.src) && l.src[end] != quote {
		if l.src[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(l.src) {
		syntaxFail(l.line, "unexpected char %q", quote)
	}
	l.emit(tokenString, unescape(l.src[i+1:end], l.line))
	l.line += strings.Count(l.src[i:end], "\n")
	return end + 1
}

// nameEnd returns where the name that begins at i ends; i if none begins there.
func nameEnd(src string, i int) int {
	begin := i
	for i < len(src) {
		r, n := utf8.DecodeRuneInString(src[i:])
		letter := r == '_' || unicode.IsLetter(r)
		if !letter && (i == begin || !unicode.IsDigit(r) && !unicode.Is(unicode.M, r)) {
			break
		}
		i += n
	}
	return i
}

// operatorAt returns the operator that src begins with, or "".
func operatorAt(src string) string {
	if len(src) >= 2 {
		switch src[:2] {
		case "//", "**", "==", "!=", ">=", "<=":
			return src[:2]
		}
	}
	if strings.Contains("+-/*%~[](){}><=.:|,;", src[:1]) {
		return src[:1]
	}
	return ""
}
