package hf

import (
	"regexp/syntax"
	"strings"
	"unicode"
)

// runeSet is a set of characters: pairs of the first and the last of a range.
type runeSet []rune

func (s runeSet) has(r rune) bool { return s.meets(runeSet{r, r}) }

// meets says whether two sets have a character in common.
func (s runeSet) meets(o runeSet) bool {
	for i := 0; i < len(s); i += 2 {
		for j := 0; j < len(o); j += 2 {
			if s[i] <= o[j+1] && o[j] <= s[i+1] {
				return true
			}
		}
	}
	return false
}

// holds says whether a set has every character of another one.
func (s runeSet) holds(o runeSet) bool {
	for i := 0; i < len(o); i += 2 {
		for next := o[i]; next <= o[i+1]; {
			end := rune(-1)
			for j := 0; j < len(s); j += 2 {
				if s[j] <= next && next <= s[j+1] {
					end = max(end, s[j+1])
				}
			}
			if end < 0 {
				return false
			}
			next = end + 1
		}
	}
	return true
}

// splitter is what is known of the pattern by which a pre-tokenizer parts a text.
type splitter struct {
	// all matches at least what the pattern matches, sure at most that.
	all, sure *syntax.Prog
}

// byteLevelPattern is the pattern of the ByteLevel pre-tokenizer.
const byteLevelPattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// newSplitter analyses a pattern of the library's regular expressions; false if it is not of the kind that can be told here.
//
// Go's syntax lacks look-ahead. The one form that is common, white space that nothing follows but white space, is left out to
// have more than the pattern matches, and never matches to have less. What the two syntaxes read in two ways is not told.
func newSplitter(pattern string) (splitter, bool) {
	if !readAlike(pattern) {
		return splitter{}, false
	}
	all, ok := compile(strings.ReplaceAll(pattern, `\s+(?!\S)`, `\s+`))
	if !ok {
		return splitter{}, false
	}
	sure, ok := compile(strings.ReplaceAll(pattern, `\s+(?!\S)`, `[^\x00-\x{10FFFF}]`))
	return splitter{all, sure}, ok
}

// readAlike says whether a pattern has none of what means one thing there and another one in Go.
func readAlike(pattern string) bool {
	for _, other := range []string{`&&`, `\w`, `\W`, `{,`, `[]`, `[^]`} {
		if strings.Contains(pattern, other) {
			return false
		}
	}
	inside := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[' && inside:
			return false // a set in a set
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case c == '(' && !inside && strings.HasPrefix(pattern[i:], "(?"):
			rest := pattern[i+2:]
			if !strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, "i:") && !strings.HasPrefix(rest, `!\S)`) {
				return false
			}
		}
	}
	return true
}

// compile makes a program of a pattern; false if it can't, or if that looks at more than it consumes, or matches nothing.
func compile(pattern string) (*syntax.Prog, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, false
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, false
	}
	for i := range prog.Inst {
		if prog.Inst[i].Op == syntax.InstEmptyWidth {
			return nil, false
		}
	}
	for _, at := range reach(prog, prog.Start) {
		if prog.Inst[at].Op == syntax.InstMatch {
			return nil, false
		}
	}
	return prog, true
}

// reach lists the instructions that consume a character or match, from an instruction on.
func reach(prog *syntax.Prog, from int) []int {
	var out []int
	seen := make([]bool, len(prog.Inst))
	stack := []int{from}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		switch i := &prog.Inst[at]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, int(i.Out), int(i.Arg))
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, int(i.Out))
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL, syntax.InstMatch:
			out = append(out, at)
		case syntax.InstFail, syntax.InstEmptyWidth:
		}
	}
	return out
}

// joins says whether a match can hold a character of a set with another one right behind it.
func (s *splitter) joins(x runeSet, y rune) bool {
	for at := range s.all.Inst {
		if !x.meets(consumed(&s.all.Inst[at])) {
			continue
		}
		for _, next := range reach(s.all, int(s.all.Inst[at].Out)) {
			if i := &s.all.Inst[next]; i.Op != syntax.InstMatch && i.MatchRune(y) {
				return true
			}
		}
	}
	return false
}

// covers says whether each character of a set is a match by itself, so that all of them are in matches.
func (s *splitter) covers(x runeSet) bool {
	var whole runeSet // those that a match can consist of
	for _, at := range reach(s.sure, s.sure.Start) {
		i := &s.sure.Inst[at]
		if i.Op == syntax.InstMatch {
			continue
		}
		for _, next := range reach(s.sure, int(i.Out)) {
			if s.sure.Inst[next].Op == syntax.InstMatch {
				whole = append(whole, consumed(i)...)
			}
		}
	}
	return whole.holds(x)
}

// consumed lists the characters that an instruction consumes.
func consumed(i *syntax.Inst) runeSet {
	switch i.Op { //nolint:exhaustive // the others consume nothing
	case syntax.InstRuneAny:
		return runeSet{0, unicode.MaxRune}
	case syntax.InstRuneAnyNotNL:
		return runeSet{0, '\n' - 1, '\n' + 1, unicode.MaxRune}
	case syntax.InstRune, syntax.InstRune1:
		if len(i.Rune) != 1 {
			return i.Rune
		}
		one := i.Rune[0]
		set := runeSet{one, one}
		if syntax.Flags(i.Arg)&syntax.FoldCase != 0 {
			for r := unicode.SimpleFold(one); r != one; r = unicode.SimpleFold(r) {
				set = append(set, r, r)
			}
		}
		return set
	}
	return nil
}
