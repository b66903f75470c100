package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// modelDir is the embedded model's folder, as one that a user names.
const modelDir = "../../tokenizer/simmodel/model"

// plimsoll runs one command line and returns its exit code and what it wrote.
func plimsoll(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(append([]string{"plimsoll"}, args...), terminal{
		in: strings.NewReader(stdin), out: &out, err: &errs, getenv: environment(nil), environ: func() []string { return nil },
	})
	return code, out.String(), errs.String()
}

func TestMistakesEndWithCode2AndSayWhatToDo(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"serv", `there is no command "serv". Did you mean "serve"? See plimsoll --help`},
		{"serve now", `takes flags only, not "now"`},
		{"serve --lisen :80", "there is no flag --lisen: do you mean --listen? See plimsoll serve --help"},
		{"serve --listen", "flag needs an argument"},
		{"serve --listen 8080", `"8080" is no address: write HOST:PORT`},
		{"serve --policy best", "--policy: cannot be \"best\": write one of token-load, round-robin, random, p2c, least-requests, least-tokens, session-affinity, prefix-affinity, block-cost, lmetric, affinity-filter"},
		{"serve --config none.yaml", "none.yaml"},
		{"serve --replica http://127.0.0.1:8081", "write KIND=URL"},
		{"serve --replica llamacpp=http://127.0.0.1:8081", "--replica needs --tokenizer DIR"},
		{"serve --replica llamacpp=http://127.0.0.1:8081,api-key-env=NONE --tokenizer x", "the environment has no NONE"},
		{"serve --kv-events-silence 0s", "plimsoll: --kv-events-silence must be above 0"},
		{"tokenize", "needs --tokenizer DIR"},
		{"tokenize --tokenizer x --decode --add-special", "leave one of them out"},
		{"render", "needs --tokenizer DIR"},
		{"chaos --plan none", `there is no plan "none": write a file's name, or one of`},
		{"chaos --plan ../../README.md", "plan: yaml"},
		{"version --long", "there is no flag --long"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := plimsoll(t, "", strings.Fields(c.args)...)
			require.Equal(t, 2, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
			require.True(t, strings.HasPrefix(stderr, "plimsoll: "), stderr)
			require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
		})
	}
}

func TestFailuresEndWithCode1(t *testing.T) {
	broken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(broken, "tokenizer.json"), []byte("{"), 0o600))
	for _, c := range []struct{ name, args, stdin, want string }{
		{"no folder", "tokenize --tokenizer " + filepath.Join(broken, "none"), "", "is no folder"},
		{"empty folder", "tokenize --tokenizer " + t.TempDir(), "", "tokenizer.json"},
		{"broken file", "tokenize --tokenizer " + broken, "", "tokenizer.json"},
		{"NUL", "tokenize --tokenizer " + modelDir, "a\x00b", "NUL"},
		{"no array", "tokenize --decode --tokenizer " + modelDir, "{}", "is no JSON array of token IDs"},
		{"negative ID", "tokenize --decode --tokenizer " + modelDir, "[-1]", "is no JSON array of token IDs"},
		{"unknown ID", "tokenize --decode --tokenizer " + modelDir, "[999999999]", "999999999"},
		{"no request", "render --tokenizer " + modelDir, "hello", "is no chat request"},
		{"no messages", "render --tokenizer " + modelDir, "{}", "messages"},
		{"no template", "render --tokenizer " + broken, `{"messages":[{"role":"user","content":"hi"}]}`, "no chat template"},
		{"no template file", "render --template none.jinja --tokenizer " + modelDir, "{}", "none.jinja"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := plimsoll(t, c.stdin, strings.Fields(c.args)...)
			require.Equal(t, 1, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
			require.True(t, strings.HasPrefix(stderr, "plimsoll: "), stderr)
		})
	}
}

func TestTokenizeAndBack(t *testing.T) {
	for _, text := range []string{"", "hello world", " two  spaces\n", "日本語 🚢 \U0001f468\u200d\U0001f469\u200d\U0001f467", "<|im_start|>user\nhi<|im_end|>"} {
		code, ids, stderr := plimsoll(t, text, "tokenize", "--tokenizer", modelDir)
		require.Zero(t, code, stderr)
		require.Regexp(t, `^\[[0-9,]*\]\n$`, ids)
		code, back, stderr := plimsoll(t, ids, "tokenize", "--decode", "--tokenizer", modelDir)
		require.Zero(t, code, stderr)
		require.Equal(t, text, back)
	}
}

func TestRenderPrintsThePromptAndNothingElse(t *testing.T) {
	const request = `{"model":"x","temperature":0,"messages":[{"role":"user","content":"hello"}]}`
	code, prompt, stderr := plimsoll(t, request, "render", "--tokenizer", modelDir)
	require.Zero(t, code, stderr)
	require.Contains(t, prompt, "<|im_start|>user\nhello<|im_end|>")

	template := filepath.Join(t.TempDir(), "own.jinja")
	require.NoError(t, os.WriteFile(template, []byte("{{ eos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"), 0o600))
	code, prompt, stderr = plimsoll(t, request, "render", "--tokenizer", modelDir, "--template", template)
	require.Zero(t, code, stderr)
	require.Equal(t, "<|im_end|>user: hello", prompt)
}

func TestABadTemplateIsNamedWithItsPlace(t *testing.T) {
	template := filepath.Join(t.TempDir(), "bad.jinja")
	require.NoError(t, os.WriteFile(template, []byte("{{ messages }}\n{% if %}"), 0o600))
	code, _, stderr := plimsoll(t, "{}", "render", "--tokenizer", modelDir, "--template", template)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "bad.jinja")
	require.Contains(t, stderr, "2")
}

func TestChaosListsItsPlans(t *testing.T) {
	code, stdout, stderr := plimsoll(t, "", "chaos", "--list")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^default +8 engines, 200 streams`, stdout)
}

func TestVersion(t *testing.T) {
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3":                      {Main: debug.Module{Version: "v1.2.3"}},
		"devel":                       {Main: debug.Module{Version: "(devel)"}},
		"devel-0123456789ab+modified": {Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}},
		"devel-0123":                  {Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}, {Key: "vcs.modified", Value: "false"}}},
	} {
		require.Equal(t, want, versionOf(info))
	}
	code, stdout, _ := plimsoll(t, "", "version")
	require.Zero(t, code)
	require.Regexp(t, `^plimsoll \S+ go\S+ \S+/\S+\n$`, stdout)
}

// Help names every setting once, with its default.
func TestHelpOfServe(t *testing.T) {
	code, stdout, _ := plimsoll(t, "", "serve", "--help")
	require.Zero(t, code)
	config := DefaultConfig()
	for _, s := range config.settings() {
		require.Contains(t, stdout, "--"+s.name+" ")
		if texts := s.encode(); len(texts) > 0 {
			require.Contains(t, stdout, "(default: "+texts[0]+")")
		}
	}
}

// The README's table of flags is the help's.
func TestTheREADMEListsTheFlags(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	config := DefaultConfig()
	var rows strings.Builder
	for _, s := range config.settings() {
		_, rest, _ := strings.Cut(s.usage, "`")
		place, _, _ := strings.Cut(rest, "`")
		usage := strings.ReplaceAll(s.usage, "`", "")
		initial := ""
		if texts := s.encode(); len(texts) > 0 {
			initial = "`" + texts[0] + "`"
		}
		rows.WriteString("| `--" + s.name + " " + place + "` | " + initial + " | " + usage + " |\n")
	}
	require.Contains(t, string(readme), rows.String(), "put this in the README")
}
