package simmodel_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/jinja"
	"plimsoll/tokenizer/simmodel"
)

// The prompts in testdata/chat were rendered by Python's jinja2 3.1.6, set up as model servers do.
func TestChatTemplateRendersAsPythonDoes(t *testing.T) {
	source, err := fs.ReadFile(simmodel.FS(), "chat_template.jinja")
	require.NoError(t, err)
	template, err := jinja.Compile("chat_template.jinja", string(source), jinja.DefaultLimits())
	require.NoError(t, err)
	names, err := filepath.Glob(filepath.Join("testdata", "chat", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			raw, err := os.ReadFile(name)
			require.NoError(t, err)
			var chat struct {
				Messages            json.RawMessage            `json:"messages"`
				Tools               json.RawMessage            `json:"tools"`
				AddGenerationPrompt json.RawMessage            `json:"add_generation_prompt"`
				Kwargs              map[string]json.RawMessage `json:"kwargs"`
				Prompt              string                     `json:"prompt"`
				Error               string                     `json:"error"`
			}
			require.NoError(t, json.Unmarshal(raw, &chat))
			vars := map[string]jinja.Value{}
			set := func(name string, raw json.RawMessage) {
				value, err := jinja.FromJSON(raw)
				require.NoError(t, err)
				vars[name] = value
			}
			set("messages", chat.Messages)
			set("tools", chat.Tools)
			set("add_generation_prompt", chat.AddGenerationPrompt)
			for name, value := range chat.Kwargs {
				set(name, value)
			}
			got, err := template.Render(vars, func() time.Time { return time.Unix(0, 0) })
			if chat.Error != "" {
				require.ErrorContains(t, err, chat.Error)
				return
			}
			require.NoError(t, err)
			require.Equal(t, chat.Prompt, got)
		})
	}
}
