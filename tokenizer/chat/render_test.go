package chat_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/jinja"
)

func clock() time.Time { return time.Date(2025, 7, 4, 9, 5, 3, 0, time.UTC) }

func compile(tb testing.TB, src string) *jinja.Template {
	tb.Helper()
	t, err := jinja.Compile("test.jinja", src, jinja.DefaultLimits())
	require.NoError(tb, err)
	return t
}

// renderer returns a renderer of a template with one special token.
func renderer(tb testing.TB, src string, change func(*chat.Config)) *chat.Renderer {
	tb.Helper()
	cfg := chat.DefaultConfig()
	cfg.SpecialTokens = map[string]string{"bos_token": "<s>"}
	if change != nil {
		change(&cfg)
	}
	r, err := chat.New(compile(tb, src), cfg)
	require.NoError(tb, err)
	return r
}

// Templates that show what reaches a template.
const (
	showMessages = `{{ messages | tojson }}`
	showParts    = `{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}{{ messages | tojson }}`
	showTools    = `{{ tools | tojson }}`
)

func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name, in, str, parts string
	}{
		{
			"text", `[{"role":"user","content":"hi"}]`,
			`[{"role": "user", "content": "hi"}]`,
			`[{"role": "user", "content": [{"type": "text", "text": "hi"}]}]`,
		}, {
			"only known keys survive", `[{"x":1,"content":"hi","role":"user","name":"bob","task":"t","refusal":null}]`,
			`[{"role": "user", "content": "hi", "name": "bob", "task": "t"}]`,
			`[{"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "bob", "task": "t"}]`,
		}, {
			"a name that is no text is dropped", `[{"role":"user","content":"hi","name":7}]`,
			`[{"role": "user", "content": "hi"}]`,
			`[{"role": "user", "content": [{"type": "text", "text": "hi"}]}]`,
		}, {
			"null content", `[{"role":"assistant","content":null}]`,
			`[{"role": "assistant", "content": ""}]`,
			`[{"role": "assistant", "content": []}]`,
		}, {
			"missing content", `[{"role":"assistant"}]`,
			`[{"role": "assistant", "content": ""}]`,
			`[{"role": "assistant", "content": []}]`,
		}, {
			"parts are joined with newlines", `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":" b"}]}]`,
			`[{"role": "user", "content": "a\n b"}]`,
			`[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": " b"}]}]`,
		}, {
			"an empty part leaves no blank line", `[{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"b"}]}]`,
			`[{"role": "user", "content": "b"}]`,
			`[{"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "b"}]}]`,
		}, {
			"other kinds of text parts",
			`[{"role":"assistant","content":["s",{"type":"refusal","refusal":"no"},{"type":"thinking","thinking":"hm"},{"type":"input_text","text":"i"},{"type":"output_text","text":"o"},{"type":"text","text":null}]}]`,
			`[{"role": "assistant", "content": "s\nno\nhm\ni\no"}]`,
			`[{"role": "assistant", "content": [{"type": "text", "text": "s"}, {"type": "text", "text": "no"}, {"type": "text", "text": "hm"}, {"type": "text", "text": "i"}, {"type": "text", "text": "o"}]}]`,
		}, {
			"reasoning goes by both names", `[{"role":"assistant","content":"a","reasoning_content":"r"}]`,
			`[{"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": "r"}]`,
			`[{"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning": "r", "reasoning_content": "r"}]`,
		}, {
			"reasoning comes before reasoning_content", `[{"role":"assistant","content":"a","reasoning":"new","reasoning_content":"old"}]`,
			`[{"role": "assistant", "content": "a", "reasoning": "new", "reasoning_content": "new"}]`,
			`[{"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning": "new", "reasoning_content": "new"}]`,
		}, {
			"only an assistant reasons", `[{"role":"user","content":"a","reasoning":"r","tool_calls":[],"tool_call_id":"x"}]`,
			`[{"role": "user", "content": "a"}]`,
			`[{"role": "user", "content": [{"type": "text", "text": "a"}]}]`,
		}, {
			"a tool's parts are joined for every template", `[{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
			`[{"role": "tool", "content": "a\nb", "tool_call_id": "c"}]`,
			`[{"role": "tool", "content": "a\nb", "tool_call_id": "c"}]`,
		}, {
			"tool references stay parts", `[{"role":"tool","tool_call_id":"c","content":[{"type":"tool_reference","name":"f"},{"type":"text","text":"b"}]}]`,
			`[{"role": "tool", "content": "f\nb", "tool_call_id": "c"}]`,
			`[{"role": "tool", "content": [{"type": "tool_reference", "name": "f"}, {"type": "text", "text": "b"}], "tool_call_id": "c"}]`,
		}, {
			"a developer has tools", `[{"role":"developer","content":"d"},{"role":"developer","content":"d","tools":[{"a":1}]}]`,
			`[{"role": "developer", "content": "d", "tools": null}, {"role": "developer", "content": "d", "tools": [{"a": 1}]}]`,
			`[{"role": "developer", "content": [{"type": "text", "text": "d"}], "tools": null}, {"role": "developer", "content": [{"type": "text", "text": "d"}], "tools": [{"a": 1}]}]`,
		}, {
			"the billing line of a system message is dropped",
			`[{"role":"system","content":"x-anthropic-billing-header: cch=1\nBe brief."},{"role":"system","content":"x-anthropic-billing-header: cch=1"},{"role":"user","content":"x-anthropic-billing-header"}]`,
			`[{"role": "system", "content": "Be brief."}, {"role": "system", "content": ""}, {"role": "user", "content": "x-anthropic-billing-header"}]`,
			`[{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, {"role": "system", "content": []}, {"role": "user", "content": [{"type": "text", "text": "x-anthropic-billing-header"}]}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := renderer(t, knowsDeveloper+showMessages, nil).Render(chat.Request{Messages: json.RawMessage(c.in)}, clock)
			require.NoError(t, err)
			require.Equal(t, c.str, got, "string format")
			got, err = renderer(t, knowsDeveloper+showParts, nil).Render(chat.Request{Messages: json.RawMessage(c.in)}, clock)
			require.NoError(t, err)
			require.Equal(t, c.parts, got, "openai format")
		})
	}
}

// knowsDeveloper makes any template one that handles the role.
const knowsDeveloper = `{# 'developer' #}`

func TestATemplateThatDoesNotKnowTheDeveloperGetsASystemMessage(t *testing.T) {
	for _, c := range []struct{ name, in, str, parts string }{
		{
			"alone at the start it only changes its role", `[{"role":"developer","content":"d","name":"n","tools":[]},{"role":"user","content":"u"}]`,
			`[{"role": "system", "content": "d", "name": "n"}, {"role": "user", "content": "u"}]`,
			`[{"role": "system", "content": [{"type": "text", "text": "d"}], "name": "n"}, {"role": "user", "content": [{"type": "text", "text": "u"}]}]`,
		}, {
			"several become one at the start", `[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"system","content":""}]`,
			`[{"role": "system", "content": "s\n\na\nb"}, {"role": "user", "content": "u"}]`,
			`[{"role": "system", "content": "s\n\na\nb"}, {"role": "user", "content": [{"type": "text", "text": "u"}]}]`,
		}, {
			"one that is not the first moves there", `[{"role":"user","content":"u"},{"role":"developer","content":"d"}]`,
			`[{"role": "system", "content": "d"}, {"role": "user", "content": "u"}]`,
			`[{"role": "system", "content": "d"}, {"role": "user", "content": [{"type": "text", "text": "u"}]}]`,
		}, {
			"system messages alone stay where they are", `[{"role":"user","content":"u"},{"role":"system","content":"s"}]`,
			`[{"role": "user", "content": "u"}, {"role": "system", "content": "s"}]`,
			`[{"role": "user", "content": [{"type": "text", "text": "u"}]}, {"role": "system", "content": [{"type": "text", "text": "s"}]}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := renderer(t, showMessages, nil).Render(chat.Request{Messages: json.RawMessage(c.in)}, clock)
			require.NoError(t, err)
			require.Equal(t, c.str, got, "string format")
			got, err = renderer(t, showParts, nil).Render(chat.Request{Messages: json.RawMessage(c.in)}, clock)
			require.NoError(t, err)
			require.Equal(t, c.parts, got, "openai format")
		})
	}
}

func TestToolCalls(t *testing.T) {
	for _, c := range []struct{ name, calls, want string }{
		{
			"arguments become an object, keys take vLLM's order",
			`[{"type":"function","function":{"name":"f","arguments":"{\"b\": 1, \"a\": 1.0}"},"id":"c1","index":0}]`,
			`"tool_calls": [{"id": "c1", "function": {"arguments": {"b": 1, "a": 1.0}, "name": "f"}, "type": "function", "index": 0}]`,
		},
		{"an object stays", `[{"function":{"name":"f","arguments":{"a":[]}}}]`, `"tool_calls": [{"function": {"arguments": {"a": []}, "name": "f"}}]`},
		{"broken JSON", `[{"function":{"name":"f","arguments":"{\"a"}}]`, `"tool_calls": [{"function": {"arguments": {}, "name": "f"}}]`},
		{"no object", `[{"function":{"name":"f","arguments":"[1]"}}]`, `"tool_calls": [{"function": {"arguments": {}, "name": "f"}}]`},
		{"empty text", `[{"function":{"name":"f","arguments":""}}]`, `"tool_calls": [{"function": {"arguments": {}, "name": "f"}}]`},
		{"null", `[{"function":{"name":"f","arguments":null}}]`, `"tool_calls": [{"function": {"arguments": {}, "name": "f"}}]`},
		{"absent", `[{"function":{"name":"f"}}]`, `"tool_calls": [{"function": {"name": "f", "arguments": {}}}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := renderer(t, showMessages, nil).Render(chat.Request{
				Messages: json.RawMessage(`[{"role":"assistant","content":"","tool_calls":` + c.calls + `}]`),
			}, clock)
			require.NoError(t, err)
			require.Equal(t, `[{"role": "assistant", "content": "", `+c.want+`}]`, got)
		})
	}
	for _, calls := range []string{`[]`, `null`} {
		got, err := renderer(t, showMessages, nil).Render(chat.Request{
			Messages: json.RawMessage(`[{"role":"assistant","content":"","tool_calls":` + calls + `}]`),
		}, clock)
		require.NoError(t, err)
		require.Equal(t, `[{"role": "assistant", "content": ""}]`, got, "tool_calls %s is dropped", calls)
	}
}

func TestTools(t *testing.T) {
	for _, c := range []struct{ name, tools, want string }{
		{"absent", ``, `null`},
		{"null", `null`, `null`},
		{"defaults are printed", `[{"function":{"name":"f"}}]`, `[{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}]`},
		{
			"vLLM's order outside, the client's inside",
			`[{"function":{"strict":true,"parameters":{"z":1,"a":{"y":2.0,"x":null}},"name":"f","description":"d"},"x":1,"type":"function"}]`,
			`[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"z": 1, "a": {"y": 2.0, "x": null}}, "strict": true}, "x": 1}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := chat.Request{Messages: json.RawMessage(`[{"role":"user","content":"hi"}]`), Tools: json.RawMessage(c.tools)}
			got, err := renderer(t, showTools, nil).Render(req, clock)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestToolChoiceNoneHidesToolsWhereAsked(t *testing.T) {
	req := chat.Request{
		Messages:   json.RawMessage(`[{"role":"user","content":"hi"}]`),
		Tools:      json.RawMessage(`[{"function":{"name":"f"}}]`),
		ToolChoice: json.RawMessage(`"none"`),
	}
	got, err := renderer(t, `{{ tools is none }}`, nil).Render(req, clock)
	require.NoError(t, err)
	require.Equal(t, "False", got)
	hide := func(c *chat.Config) { c.HideUnusableTools = true }
	got, err = renderer(t, `{{ tools is none }}`, hide).Render(req, clock)
	require.NoError(t, err)
	require.Equal(t, "True", got)
	req.ToolChoice = json.RawMessage(`"auto"`)
	got, err = renderer(t, `{{ tools is none }}`, hide).Render(req, clock)
	require.NoError(t, err)
	require.Equal(t, "False", got)
}

func TestTemplateForTools(t *testing.T) {
	r := renderer(t, "plain", func(c *chat.Config) { c.ToolUse = compile(t, "for tools") })
	req := chat.Request{Messages: json.RawMessage(`[{"role":"user","content":"hi"}]`)}
	got, err := r.Render(req, clock)
	require.NoError(t, err)
	require.Equal(t, "plain", got)
	req.Tools = json.RawMessage(`[{"function":{"name":"f"}}]`)
	got, err = r.Render(req, clock)
	require.NoError(t, err)
	require.Equal(t, "for tools", got)
}

func TestContentFormatOverride(t *testing.T) {
	format := jinja.ContentString
	r := renderer(t, showParts, func(c *chat.Config) { c.ContentFormat = &format })
	got, err := r.Render(chat.Request{Messages: json.RawMessage(`[{"role":"user","content":"hi"}]`)}, clock)
	require.NoError(t, err)
	require.Equal(t, `[{"role": "user", "content": "hi"}]`, got)
}

func pointer[T any](v T) *T { return &v }

func TestVariables(t *testing.T) {
	const show = `{{ bos_token }} {{ eos_token is defined }} {{ add_generation_prompt }} ` +
		`{{ enable_thinking | default('-') }} {{ reasoning_effort | default('-') }} {{ documents | tojson }} {{ x | default('-') }} ` +
		`{{ continue_final_message is defined }}`
	defaults := func(c *chat.Config) { c.Kwargs = map[string]jinja.Value{"x": "server", "enable_thinking": true} }
	for _, c := range []struct {
		name   string
		change func(*chat.Config)
		req    chat.Request
		want   string
	}{
		{"nothing said", nil, chat.Request{}, "<s> False True - - null - False"},
		{"no generation prompt", nil, chat.Request{AddGenerationPrompt: pointer(false)}, "<s> False False - - null - False"},
		{"effort turns thinking on", nil, chat.Request{ReasoningEffort: pointer("low")}, "<s> False True True low null - False"},
		{"effort none turns it off", nil, chat.Request{ReasoningEffort: pointer("none")}, "<s> False True False none null - False"},
		{"effort auto is dropped", nil, chat.Request{ReasoningEffort: pointer("auto")}, "<s> False True True - null - False"},
		{
			"enable_thinking said wins over effort", nil,
			chat.Request{ReasoningEffort: pointer("high"), Kwargs: json.RawMessage(`{"enable_thinking":false}`)},
			"<s> False True False high null - False",
		},
		{"documents", nil, chat.Request{Documents: json.RawMessage(`[{"title":"t"}]`)}, `<s> False True - - [{"title": "t"}] - False`},
		{"kwargs", nil, chat.Request{Kwargs: json.RawMessage(`{"x":1.0,"bos_token":"B","add_generation_prompt":false,"continue_final_message":true}`)}, "B False True - - null 1.0 False"},
		{"null is a value without server defaults", nil, chat.Request{Kwargs: json.RawMessage(`{"x":null}`)}, "<s> False True - - null None False"},
		{"server defaults", defaults, chat.Request{}, "<s> False True True - null server False"},
		{"kwargs over defaults", defaults, chat.Request{Kwargs: json.RawMessage(`{"x":"mine","enable_thinking":false}`)}, "<s> False True False - null mine False"},
		{"null and auto leave the defaults", defaults, chat.Request{Kwargs: json.RawMessage(`{"x":null,"enable_thinking":"auto"}`)}, "<s> False True True - null server False"},
		{"kwargs null", defaults, chat.Request{Kwargs: json.RawMessage(`null`)}, "<s> False True True - null server False"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Messages = json.RawMessage(`[{"role":"user","content":"hi"}]`)
			got, err := renderer(t, show, c.change).Render(c.req, clock)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestClock(t *testing.T) {
	got, err := renderer(t, `{{ strftime_now('%d %b %Y') }}`, nil).Render(chat.Request{Messages: json.RawMessage(`[{"role":"user","content":"hi"}]`)}, clock)
	require.NoError(t, err)
	require.Equal(t, "04 Jul 2025", got)
}

func TestContinueFinalMessage(t *testing.T) {
	const keeps = `{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}`
	const trims = `{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}`
	const parts = `{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p.text }}{% endfor %}</>{% endfor %}`
	const drops = `{% for m in messages %}<{{ m.role }}>{% endfor %}`
	for _, c := range []struct{ name, template, content, want string }{
		{"a template that keeps the text", keeps, `"It leaves "`, "<user>q</><assistant>It leaves "},
		{"a template that trims", trims, `" It leaves \n"`, "<user>q</><assistant>It leaves"},
		{"the last of several equal texts", keeps, `"q"`, "<user>q</><assistant>q"},
		{"the last part", parts, `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, "<user>q</><assistant>ab"},
		{"nothing yet", keeps, `""`, "<user>q</><assistant>"},
		{"the tag itself in the text", keeps, `"CONTINUE_FINAL_MESSAGE_TAG x"`, "<user>q</><assistant>CONTINUE_FINAL_MESSAGE_TAG x"},
		{"a template that drops the text", drops, `"a"`, ""},
		{"no part", parts, `[]`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := renderer(t, c.template, nil).Render(chat.Request{
				Messages:             json.RawMessage(`[{"role":"user","content":"q"},{"role":"assistant","content":` + c.content + `}]`),
				AddGenerationPrompt:  pointer(false),
				ContinueFinalMessage: pointer(true),
			}, clock)
			if c.want == "" {
				_ = requireBadInput(t, err, "continue_final_message")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func requireBadInput(tb testing.TB, err error, param string) *chat.BadInput {
	tb.Helper()
	var bad *chat.BadInput
	require.ErrorAs(tb, err, &bad)
	require.Equal(tb, param, bad.Param)
	require.NotEmpty(tb, bad.Message)
	return bad
}

func TestBadInput(t *testing.T) {
	const user = `[{"role":"user","content":"hi"}]`
	for _, c := range []struct {
		param string
		req   chat.Request
	}{
		{"messages", chat.Request{}},
		{"messages", chat.Request{Messages: json.RawMessage(`null`)}},
		{"messages", chat.Request{Messages: json.RawMessage(`[]`)}},
		{"messages", chat.Request{Messages: json.RawMessage(`{}`)}},
		{"messages", chat.Request{Messages: json.RawMessage(`[`)}},
		{"messages[0]", chat.Request{Messages: json.RawMessage(`["hi"]`)}},
		{"messages[0].role", chat.Request{Messages: json.RawMessage(`[{"content":"hi"}]`)}},
		{"messages[1].role", chat.Request{Messages: json.RawMessage(`[{"role":"user","content":"hi"},{"role":5}]`)}},
		{"messages[0].content", chat.Request{Messages: json.RawMessage(`[{"role":"user","content":5}]`)}},
		{"messages[0].content[0]", chat.Request{Messages: json.RawMessage(`[{"role":"user","content":[5]}]`)}},
		{"messages[0].content[0].type", chat.Request{Messages: json.RawMessage(`[{"role":"user","content":[{"text":"x"}]}]`)}},
		{"messages[0].content[0].text", chat.Request{Messages: json.RawMessage(`[{"role":"user","content":[{"type":"text","text":1}]}]`)}},
		{"messages[0].content[1]", chat.Request{Messages: json.RawMessage(`[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"u"}}]}]`)}},
		{"messages[0].content[0]", chat.Request{Messages: json.RawMessage(`[{"role":"user","content":[{"type":"input_audio"}]}]`)}},
		{"messages[0].content[0]", chat.Request{Messages: json.RawMessage(`[{"role":"user","content":[{"video_url":"u"}]}]`)}},
		{"messages[0].reasoning", chat.Request{Messages: json.RawMessage(`[{"role":"assistant","reasoning":5}]`)}},
		{"messages[0].tool_calls", chat.Request{Messages: json.RawMessage(`[{"role":"assistant","tool_calls":5}]`)}},
		{"messages[0].tool_calls[0]", chat.Request{Messages: json.RawMessage(`[{"role":"assistant","tool_calls":[5]}]`)}},
		{"messages[0].tool_calls[0].type", chat.Request{Messages: json.RawMessage(`[{"role":"assistant","tool_calls":[{"type":"custom"}]}]`)}},
		{"messages[0].tool_calls[0].function", chat.Request{Messages: json.RawMessage(`[{"role":"assistant","tool_calls":[{"type":"function"}]}]`)}},
		{"tools", chat.Request{Messages: json.RawMessage(user), Tools: json.RawMessage(`[]`)}},
		{"tools", chat.Request{Messages: json.RawMessage(user), Tools: json.RawMessage(`5`)}},
		{"tools[0]", chat.Request{Messages: json.RawMessage(user), Tools: json.RawMessage(`[5]`)}},
		{"tools[0].type", chat.Request{Messages: json.RawMessage(user), Tools: json.RawMessage(`[{"type":"web_search"}]`)}},
		{"tools[0].function", chat.Request{Messages: json.RawMessage(user), Tools: json.RawMessage(`[{"type":"function"}]`)}},
		{"tools[0].function.name", chat.Request{Messages: json.RawMessage(user), Tools: json.RawMessage(`[{"function":{}}]`)}},
		{"tools[0].function.description", chat.Request{Messages: json.RawMessage(user), Tools: json.RawMessage(`[{"function":{"name":"f","description":5}}]`)}},
		{"tools[0].function.parameters", chat.Request{Messages: json.RawMessage(user), Tools: json.RawMessage(`[{"function":{"name":"f","parameters":[]}}]`)}},
		{"tool_choice", chat.Request{Messages: json.RawMessage(user), Tools: json.RawMessage(`[{"function":{"name":"f"}}]`), ToolChoice: json.RawMessage(`{`)}},
		{"documents", chat.Request{Messages: json.RawMessage(user), Documents: json.RawMessage(`{}`)}},
		{"documents", chat.Request{Messages: json.RawMessage(user), Documents: json.RawMessage(`["d"]`)}},
		{"chat_template_kwargs", chat.Request{Messages: json.RawMessage(user), Kwargs: json.RawMessage(`[]`)}},
		{"chat_template_kwargs.chat_template", chat.Request{Messages: json.RawMessage(user), Kwargs: json.RawMessage(`{"chat_template":"x"}`)}},
		{"chat_template_kwargs.tokenize", chat.Request{Messages: json.RawMessage(user), Kwargs: json.RawMessage(`{"tokenize":false}`)}},
		{"chat_template_kwargs.messages", chat.Request{Messages: json.RawMessage(user), Kwargs: json.RawMessage(`{"messages":[]}`)}},
		{"chat_template", chat.Request{Messages: json.RawMessage(user), ChatTemplate: json.RawMessage(`"x"`)}},
		{"continue_final_message", chat.Request{Messages: json.RawMessage(user), ContinueFinalMessage: pointer(true)}},
	} {
		_, err := renderer(t, showMessages, nil).Render(c.req, clock)
		bad := requireBadInput(t, err, c.param)
		require.Contains(t, err.Error(), bad.Message)
	}
}

func TestMediaIsRefusedInWords(t *testing.T) {
	_, err := renderer(t, showParts, nil).Render(chat.Request{
		Messages: json.RawMessage(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]`),
	}, clock)
	require.Contains(t, requireBadInput(t, err, "messages[0].content[0]").Message, "take text only")
}

func TestTemplateErrors(t *testing.T) {
	req := chat.Request{Messages: json.RawMessage(`[{"role":"user","content":"hi"}]`)}
	_, err := renderer(t, `{{ raise_exception('Roles must alternate') }}`, nil).Render(req, clock)
	require.Equal(t, "Roles must alternate", requireBadInput(t, err, "messages").Message)
	var e *jinja.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, jinja.KindTemplate, e.Kind)

	_, err = renderer(t, `{{ messages[7].content }}`, nil).Render(req, clock)
	_ = requireBadInput(t, err, "messages")
	require.ErrorAs(t, err, &e)
	require.Equal(t, jinja.KindUndefined, e.Kind)

	_, err = renderer(t, `{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}`, nil).Render(req, clock)
	_ = requireBadInput(t, err, "messages")
	require.ErrorIs(t, err, jinja.ErrLimit)
}

func TestNewNeedsATemplate(t *testing.T) {
	_, err := chat.New(nil, chat.DefaultConfig())
	require.Error(t, err)
}
