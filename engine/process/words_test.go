package process

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"":                                  nil,
		" \t\n ":                            nil,
		"llama-server -m x.gguf":            {"llama-server", "-m", "x.gguf"},
		"  a   b\nc\t":                      {"a", "b", "c"},
		"a --port {port} --n={index}":       {"a", "--port", "{port}", "--n={index}"},
		`a 'two words' "and three more"`:    {"a", "two words", "and three more"},
		`a ''`:                              {"a", ""},
		`a pre'fix'"ed"`:                    {"a", "prefixed"},
		`a 'it'\''s' \"x\" a\ b`:            {"a", "it's", `"x"`, "a b"},
		`a "a \"b\" \\ \c"`:                 {"a", `a "b" \ \c`},
		`a '{"publisher": "zmq", "n": $1}'`: {"a", `{"publisher": "zmq", "n": $1}`},
		`a --glob *.gguf a~b #1`:            {"a", "--glob", "*.gguf", "a~b", "#1"},
		`env A=1 b`:                         {"env", "A=1", "b"},
		`'A=1' b`:                           {"A=1", "b"},
		`./a=b c`:                           {"./a=b", "c"},
		"日本 'ü'":                            {"日本", "ü"},
	} {
		t.Run(line, func(t *testing.T) {
			words, err := Split(line)
			require.NoError(t, err)
			require.Equal(t, want, words)
		})
	}
}

func TestSplitSaysWhatToDo(t *testing.T) {
	for line, want := range map[string]string{
		`a 'b`:         "single quote (') without its end",
		`a "b`:         `double quote (") without its end`,
		`a \`:          `write \\ for one`,
		`a | b`:        `there is no shell`,
		`a && b`:       `there is no shell`,
		`a > log`:      `put it into a script`,
		`a $HOME`:      `outside of single quotes`,
		`a "$HOME"`:    `use single quotes`,
		"a `b`":        `there is no shell`,
		`a ~/x.gguf`:   `write the folder in full`,
		`CUDA=0 a`:     `begin with env CUDA=...`,
		"a b\x00c":     "NUL",
		"a 'b\x00c'":   "NUL",
		"a \"b\x00c\"": "NUL",
		`(cd x; a)`:    "there is no shell",
	} {
		t.Run(line, func(t *testing.T) {
			_, err := Split(line)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestJoinedWordsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.OneOf(
			rapid.StringMatching(`[a-z'"\\ $~=|&;<>(){}*#\n-]{0,6}`), rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }),
		), 1, 5).Draw(t, "words")
		again, err := Split(Join(words))
		require.NoError(t, err, Join(words))
		require.Equal(t, words, again)
	})
}

// Whatever is taken is printed so that it is taken again, and means the same.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"llama-server -m x.gguf --port {port}", `a 'b c' "d \" e" f\ g`, "env A=1 b", "'", `"$`, "~", "a=b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := Split(line)
		if err != nil {
			return
		}
		again, err := Split(Join(words))
		require.NoError(t, err)
		require.Equal(t, words, again)
	})
}
