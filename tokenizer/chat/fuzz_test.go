package chat_test

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"plimsoll/tokenizer/chat"
)

// FuzzRender: whatever a client sends, the answer is a prompt or a BadInput.
func FuzzRender(f *testing.F) {
	f.Add([]byte(`[{"role":"user","content":"hi"}]`), []byte(``), []byte(``), []byte(``), false)
	f.Add([]byte(`[{"role":"system","content":"x-anthropic-billing-header\n"},{"role":"user","content":[{"type":"text","text":"a"}]}]`),
		[]byte(`[{"type":"function","function":{"name":"f","parameters":{}}}]`), []byte(`{"enable_thinking":true}`), []byte(`[{}]`), false)
	f.Add([]byte(`[{"role":"assistant","content":[{"type":"text","text":"a "}],"reasoning_content":"r"}]`), []byte(`null`), []byte(`{"x":[[[]]]}`), []byte(`null`), true)
	f.Add([]byte(`[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":1e999}"}}]},{"role":"tool","content":"x"}]`),
		[]byte(`[]`), []byte(`{"tools":1}`), []byte(`{}`), true)
	f.Add([]byte(`[{"role":"user","content":[{"type":"image_url"}]}]`), []byte(`[{"function":{"name":"f","description":null,"strict":1}}]`), []byte(`[`), []byte(``), false)
	const src = `{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}` +
		`{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson(indent=2) }}{% endfor %}{% endfor %}` +
		`{{ tools | tojson }}{{ documents }}{{ x }}{{ reasoning_effort }}`
	f.Fuzz(func(t *testing.T, messages, tools, kwargs, documents []byte, continued bool) {
		// numbers and text of any kind also come in through kwargs
		req := chat.Request{
			Messages: messages, Tools: tools, Kwargs: kwargs, Documents: documents, ToolChoice: json.RawMessage(`"auto"`),
			AddGenerationPrompt: pointer(!continued), ContinueFinalMessage: pointer(continued), ReasoningEffort: pointer("low"),
		}
		prompt, err := renderer(t, src, nil).Render(req, clock)
		var bad *chat.BadInput
		if err != nil && !errors.As(err, &bad) {
			t.Fatalf("neither a prompt nor a BadInput: %v", err)
		}
		if !utf8.ValidString(prompt) {
			t.Fatalf("a broken prompt %q", prompt)
		}
	})
}
