package process

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Split cuts a command line into words. Blanks part words; single quotes keep all between them; double quotes keep all but
// \" and \\; a backslash outside of quotes keeps the next character. What a shell would do beyond that is an error that says
// how to write it instead, so that nobody waits for an expansion that never comes.
func Split(line string) ([]string, error) {
	s := splitter{line: []rune(line)}
	for s.at < len(s.line) {
		if err := s.next(); err != nil {
			return nil, err
		}
	}
	s.flush()
	return s.words, nil
}

type splitter struct {
	line    []rune
	at      int
	words   []string
	word    strings.Builder
	started bool // a word has begun, though it may be empty
	quoted  bool // part of the word stood in quotes
}

func (s *splitter) flush() {
	if s.started {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.started, s.quoted = false, false
}

func (s *splitter) next() error {
	c := s.line[s.at]
	s.at++
	switch c {
	case ' ', '\t', '\n', '\r':
		s.flush()
		return nil
	case '\'':
		return s.single()
	case '"':
		return s.double()
	case '\\':
		if s.at == len(s.line) {
			return errors.New(`ends with a backslash: write \\ for one`)
		}
		s.take(s.line[s.at])
		s.at++
		return nil
	case 0:
		return errors.New("holds a NUL character, which no command can")
	case '|', '&', ';', '<', '>', '`', '$', '(', ')':
		return fmt.Errorf("has %q outside of single quotes, and there is no shell: quote it if it is meant so, "+
			"else put it into a script and name that", string(c))
	case '~':
		if !s.started {
			return errors.New("has a ~, which only a shell expands: write the folder in full")
		}
	case '=':
		if !s.quoted && len(s.words) == 0 && assigns.MatchString(s.word.String()) {
			return fmt.Errorf("begins with %s=, which only a shell takes for a variable: begin with env %s=..., or set environment "+
				"in the configuration file", s.word.String(), s.word.String())
		}
	}
	s.take(c)
	return nil
}

// assigns is what a shell takes for a variable's name.
var assigns = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (s *splitter) take(c rune) {
	s.started = true
	s.word.WriteRune(c)
}

func (s *splitter) single() error {
	s.started, s.quoted = true, true
	for ; s.at < len(s.line); s.at++ {
		if s.line[s.at] == '\'' {
			s.at++
			return nil
		}
		if s.line[s.at] == 0 {
			return errors.New("holds a NUL character, which no command can")
		}
		s.take(s.line[s.at])
	}
	return errors.New("has a single quote (') without its end")
}

func (s *splitter) double() error {
	s.started, s.quoted = true, true
	for ; s.at < len(s.line); s.at++ {
		switch c := s.line[s.at]; c {
		case '"':
			s.at++
			return nil
		case '\\':
			if s.at+1 < len(s.line) && (s.line[s.at+1] == '"' || s.line[s.at+1] == '\\') {
				s.at++
			}
		case 0:
			return errors.New("holds a NUL character, which no command can")
		case '$', '`':
			return fmt.Errorf("has %q in double quotes, and there is no shell: use single quotes if it is meant so", string(c))
		}
		s.take(s.line[s.at])
	}
	return errors.New(`has a double quote (") without its end`)
}

// plain words need no quotes.
var plain = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_{}\-][A-Za-z0-9@%+=:,./_{}~\-]*$`)

// Join is the inverse of [Split].
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if plain.MatchString(word) && (i > 0 || !strings.Contains(word, "=")) {
			quoted[i] = word
			continue
		}
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
