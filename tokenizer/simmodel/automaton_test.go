package simmodel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// letters encodes each byte as an id of its own.
type letters struct{}

func (letters) Encode(text string, _ bool) ([]uint32, error) {
	ids := make([]uint32, 0, len(text))
	for i := range len(text) {
		ids = append(ids, uint32(text[i]))
	}
	return ids, nil
}

func ids(text string) []uint32 {
	out, _ := letters{}.Encode(text, false)
	return out
}

func TestAutomatonFollowsTheTemplates(t *testing.T) {
	a, err := buildAutomaton(letters{}, []string{"The {what} is {how}.", "The {what}s are."}, map[string][]string{
		"what": {"cat", "cow", "cow bell"}, "how": {"in", "out"},
	})
	require.NoError(t, err)
	for _, test := range []struct {
		text     string
		inside   bool
		complete bool
		choices  string // what may follow, by template
	}{
		{text: ""},
		{text: "xyz"},
		{text: "T", inside: true, choices: "h|h"},
		{text: "The c", inside: true, choices: "aoo|aoo"},
		{text: " The cow", inside: true, choices: "  |s "}, // as often as words go on so: "cow is", "cow bell"; "cows", "cow bells"
		{text: "The cow ", inside: true, choices: "ib|b"},
		{text: "The cow bells", inside: true, choices: " "},
		{text: "The cat is in.", inside: true, complete: true},
		{text: "The cat is in. The", inside: true, choices: "   |   "}, // the second sentence counts
		{text: "The cat is in, The", inside: true, choices: "   |   "}, // no sentence of ours, but its end is one's beginning
		{text: "The dog"},
	} {
		t.Run(test.text, func(t *testing.T) {
			at, inside := a.locate(ids(test.text))
			require.Equal(t, test.inside, inside)
			if !inside {
				return
			}
			require.Equal(t, test.complete, a.states[at].complete)
			groups := make([]string, 0, len(a.states[at].choices))
			for _, group := range a.states[at].choices {
				letters := make([]byte, 0, len(group))
				for _, id := range group {
					letters = append(letters, byte(id))
				}
				groups = append(groups, string(letters))
			}
			require.Equal(t, test.choices, strings.Join(groups, "|"))
		})
	}
}

func TestAutomatonRefusesTemplatesItCannotFollow(t *testing.T) {
	_, err := buildAutomaton(letters{}, []string{"The {cat}."}, nil)
	require.EqualError(t, err, `sentence "The {cat}.": there is no slot "cat"`)
	_, err = buildAutomaton(letters{}, []string{"The U.S. ship."}, nil)
	require.EqualError(t, err, "a sentence's last id stands inside a sentence too")
}
