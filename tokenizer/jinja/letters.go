package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// caseBytesPerStep is how much text beyond ASCII a step of work maps to another case, which takes a state machine.
const caseBytesPerStep = 4

// mapCase applies a mapping of letters and spends what it takes.
func (s *state) mapCase(t string, f func(string) string) string {
	if !isASCII(t) {
		s.work(len(t) / caseBytesPerStep)
	}
	return f(t)
}

// upper is str.upper.
func upper(t string) string {
	if isASCII(t) {
		return strings.ToUpper(t)
	}
	return cases.Upper(language.Und).String(t)
}

// lower is str.lower.
func lower(t string) string {
	if isASCII(t) {
		return strings.ToLower(t)
	}
	return cases.Lower(language.Und).String(t)
}

// isUpper is str.isupper.
func isUpper(t string) bool { return upper(t) == t && lower(t) != t }

// isLower is str.islower.
func isLower(t string) bool { return lower(t) == t && upper(t) != t }

// capitalize is str.capitalize.
func capitalize(t string) string {
	if t == "" {
		return t
	}
	r, n := utf8.DecodeRuneInString(t)
	return string(unicode.ToTitle(r)) + lower(t[n:])
}

// title is str.title.
func title(t string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			inWord = false
			return r
		}
		if inWord {
			return unicode.ToLower(r)
		}
		inWord = true
		return unicode.ToTitle(r)
	}, t)
}

// swapCase is str.swapcase.
func swapCase(t string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, t)
}

// every reports whether t is not empty and f holds for all its characters.
func every(t string, f func(rune) bool) bool {
	for _, r := range t {
		if !f(r) {
			return false
		}
	}
	return t != ""
}

func isAlphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
