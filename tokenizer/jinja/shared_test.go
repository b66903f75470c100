package jinja_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/shared"
	"plimsoll/tokenizer/jinja"
)

// clock is the time at which all goldens were made.
func clock() time.Time { return time.Date(2025, 7, 4, 9, 5, 3, 0, time.UTC) }

// golden is one template rendered by jinja2 over one conversation.
type golden struct {
	Template            string          `json:"template"`
	Conversation        string          `json:"conversation"`
	Kwargs              json.RawMessage `json:"kwargs"`
	AddGenerationPrompt bool            `json:"add_generation_prompt"`
	Text                *string         `json:"text"`
	Error               string          `json:"error"`
}

// conversation is what a template is rendered over.
type conversation struct {
	Name                string          `json:"name"`
	Messages            json.RawMessage `json:"messages"`
	Tools               json.RawMessage `json:"tools"`
	Documents           json.RawMessage `json:"documents"`
	AddGenerationPrompt bool            `json:"add_generation_prompt"`
	Kwargs              json.RawMessage `json:"kwargs"`
}

func fromJSON(tb testing.TB, raw []byte) jinja.Value {
	tb.Helper()
	v, err := jinja.FromJSON(raw)
	require.NoError(tb, err)
	return v
}

// variables returns what the goldens' maker passes to a template.
func (c conversation) variables(tb testing.TB) map[string]jinja.Value {
	tb.Helper()
	vars := map[string]jinja.Value{
		"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>",
		"messages":              fromJSON(tb, c.Messages),
		"tools":                 fromJSON(tb, c.Tools),
		"documents":             fromJSON(tb, c.Documents),
		"add_generation_prompt": c.AddGenerationPrompt,
	}
	for name, v := range fromJSON(tb, c.Kwargs).(*jinja.Dict).All() {
		vars[name] = v
	}
	return vars
}

// checkGolden renders a pair and compares; rendered is empty for a template that did not compile.
func checkGolden(tb testing.TB, g golden, tmpl *jinja.Template, compileErr error, vars map[string]jinja.Value) {
	tb.Helper()
	text, err := "", compileErr
	if tmpl != nil {
		text, err = tmpl.Render(vars, clock)
	}
	if g.Text != nil {
		require.NoError(tb, err, "%s over %s", g.Template, g.Conversation)
		require.Equal(tb, *g.Text, text, "%s over %s", g.Template, g.Conversation)
		return
	}
	require.Error(tb, err, "%s over %s fails in jinja2: %s", g.Template, g.Conversation, g.Error)
	require.NotErrorIs(tb, err, jinja.ErrLimit, "%s over %s", g.Template, g.Conversation)
	var e *jinja.Error
	if errors.As(err, &e) {
		require.NotEqual(tb, jinja.KindInternal, e.Kind, "%s over %s: %v", g.Template, g.Conversation, err)
	}
	if message, ok := strings.CutPrefix(g.Error, "TemplateError: "); ok {
		require.ErrorAs(tb, err, &e)
		require.Equal(tb, jinja.KindTemplate, e.Kind)
		require.Equal(tb, message, e.Message, "the message of raise_exception")
	}
}

// TestSharedGoldens renders every template that lies in the shared folder over every conversation there and compares with
// jinja2's result, byte for byte.
func TestSharedGoldens(t *testing.T) {
	dir := shared.Path(t, "testdata", "chat-templates")
	conversations := readConversations(t, shared.Glob(t, "testdata", "chat-templates", "*conversations*.json"))
	goldens := map[string][]golden{}
	for _, file := range shared.Glob(t, "testdata", "chat-templates", "*goldens*.jsonl*") {
		for _, g := range shared.Lines[golden](t, file) {
			goldens[g.Template] = append(goldens[g.Template], g)
		}
	}
	for _, file := range shared.Glob(t, "testdata", "chat-templates", "templates", "*.jinja") {
		require.Contains(t, goldens, filepath.Base(file), "a template without goldens")
	}
	for name, pairs := range goldens {
		t.Run(name, func(t *testing.T) {
			runPairs(t, filepath.Join(dir, "templates", name), pairs, conversations)
		})
	}
}

func readConversations(tb testing.TB, files []string) map[string]conversation {
	tb.Helper()
	out := map[string]conversation{}
	for _, file := range files {
		for _, list := range shared.Lines[[]conversation](tb, file) {
			for _, c := range list {
				out[c.Name] = c
			}
		}
	}
	return out
}

// runPairs checks all goldens of one template.
func runPairs(t *testing.T, file string, pairs []golden, conversations map[string]conversation) {
	t.Helper()
	src, err := os.ReadFile(file)
	require.NoError(t, err)
	tmpl, compileErr := jinja.Compile(filepath.Base(file), string(src), jinja.DefaultLimits())
	for _, g := range pairs {
		c, ok := conversations[g.Conversation]
		require.True(t, ok, "no conversation %s", g.Conversation)
		c.Kwargs, c.AddGenerationPrompt = g.Kwargs, g.AddGenerationPrompt
		checkGolden(t, g, tmpl, compileErr, c.variables(t))
	}
}

// TestOwnGoldens renders the templates of testdata, one for each feature, and compares with what gen.py got from jinja2.
func TestOwnGoldens(t *testing.T) {
	conversations := readConversations(t, []string{filepath.Join("testdata", "conversations.json")})
	goldens := map[string][]golden{}
	for _, g := range shared.Lines[golden](t, filepath.Join("testdata", "goldens.jsonl")) {
		goldens[g.Template] = append(goldens[g.Template], g)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "templates", "*.jinja"))
	require.NoError(t, err)
	require.Len(t, files, len(goldens), "goldens.jsonl is older than the templates: run gen.py")
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			require.Len(t, goldens[name], len(conversations))
			runPairs(t, file, goldens[name], conversations)
		})
	}
}
