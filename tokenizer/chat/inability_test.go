package chat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/jinja"
)

// TestCannotRender holds apart what an engine may answer all the same and what the client must change.
func TestCannotRender(t *testing.T) {
	const hello = `[{"role":"user","content":"hello"}]`
	media := func(part string) string { return `[{"role":"user","content":[` + part + `]}]` }
	for _, c := range []struct {
		name, template, messages, tools string
		why                             *chat.Inability // nil: the client's to change
	}{
		{"an image", showParts, media(`{"type":"image_url","image_url":{"url":"data:"}}`), "", pointer(chat.Media)},
		{"an image without a type", showMessages, media(`{"image_url":"data:"}`), "", pointer(chat.Media)},
		{"sound", showMessages, media(`{"type":"input_audio","input_audio":{}}`), "", pointer(chat.Media)},
		{"a kind nobody knows", showMessages, media(`{"type":"smell"}`), "", pointer(chat.Media)},
		{"a name that is not there", `{{ nobody.name }}`, hello, "", pointer(chat.TemplateFault)},
		{"a type error", `{{ 1 + "a" }}`, hello, "", pointer(chat.TemplateFault)},
		{"what the sandbox forbids", `{{ messages.append(1) }}`, hello, "", pointer(chat.TemplateFault)},
		{"a limit", `{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}`, hello, "", pointer(chat.Limit)},
		{"what the template refuses", `{{ raise_exception("no") }}`, hello, "", nil},
		{"no messages", showMessages, `[]`, "", nil},
		{"messages of no kind", showMessages, `{}`, "", nil},
		{"a message that is no object", showMessages, `[1]`, "", nil},
		{"content of no kind", showMessages, `[{"role":"user","content":1}]`, "", nil},
		{"a part that is no object", showMessages, media(`1`), "", nil},
		{"a part without a type", showMessages, media(`{}`), "", nil},
		{"a text part without text", showMessages, media(`{"type":"text","text":1}`), "", nil},
		{"tools of no kind", showMessages, hello, `1`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := chat.Request{Messages: json.RawMessage(c.messages), Tools: json.RawMessage(c.tools)}
			_, err := renderer(t, c.template, nil).Render(req, clock)
			require.Error(t, err)
			why, ok := chat.CannotRender(fmt.Errorf("rendering: %w", err))
			require.Equal(t, c.why != nil, ok, "%v", err)
			if ok {
				require.Equal(t, *c.why, why, "%v", err)
			}
		})
	}
	why, ok := chat.CannotRender(fmt.Errorf("x: %w", chat.ErrNoTemplate))
	require.True(t, ok)
	require.Equal(t, chat.NoTemplate, why)
	why, ok = chat.CannotRender(fmt.Errorf("x: %w", &jinja.Error{Kind: jinja.KindInternal}))
	require.True(t, ok, "a template engine that breaks is not the client's fault")
	require.Equal(t, chat.TemplateFault, why)
	_, ok = chat.CannotRender(errors.New("the disk is full"))
	require.False(t, ok)
}

func TestInabilitiesHaveWords(t *testing.T) {
	seen := map[string]bool{}
	for i := range chat.NumInabilities {
		require.NotEqual(t, "unknown", i.String())
		require.False(t, seen[i.String()])
		seen[i.String()] = true
	}
	require.Equal(t, "unknown", chat.NumInabilities.String())
}

func TestEstimate(t *testing.T) {
	words := strings.Repeat("seven b", 50) // 350 bytes: 100 tokens
	for _, c := range []struct {
		name, messages, tools string
		want                  int
	}{
		{"text", `[{"role":"user","content":"` + words + `"}]`, "", 100 + 8 + 2},
		{"text in parts", `[{"role":"user","content":[{"type":"text","text":"` + words + `"},"` + words + `"]}]`, "", 202 + 8 + 1},
		{"text with escapes counts once", `[{"content":"` + strings.Repeat(`\u00e9`, 7) + `"}]`, "", 4 + 8},
		{"an image does not count with its bytes", `[{"content":[{"type":"image_url","image_url":{"url":"` + words + `"}}]}]`, "", 1024 + 8},
		{"nor does one without a type", `[{"content":[{"image_url":"` + words + `"}]}]`, "", 1024 + 8},
		{"two media", `[{"content":[{"type":"image_url"},{"type":"input_audio"}]}]`, "", 2048 + 8},
		{"tools", `[{"content":"seven b"}]`, `["345"]`, 4 + 8},
		{"nothing", ``, ``, 1},
		{"no list", `"abcdefgh"`, ``, 3},
		{"content of no kind", `[{"content":1234567}]`, ``, 2 + 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := chat.Estimate(chat.Request{Messages: json.RawMessage(c.messages), Tools: json.RawMessage(c.tools)})
			require.Equal(t, c.want, got)
		})
	}
}
