package jinja_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/jinja"
)

// longChatJSON is a chat of some 2,000 tokens: 18 messages, 8 kB, two tools.
func longChatJSON(tb testing.TB) []byte {
	tb.Helper()
	const turns = 17
	messages := make([]map[string]any, 0, turns+1)
	messages = append(messages, map[string]any{"role": "system", "content": "You are a helpful harbour master."})
	for i := range turns {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		messages = append(messages, map[string]any{"role": role, "content": fmt.Sprintf("%d. ", i) + strings.Repeat("The tide at Hull is high at six. ", 14)})
	}
	tool := func(name string) map[string]any {
		return map[string]any{"type": "function", "function": map[string]any{
			"name": name, "description": "Tells the tide", "parameters": map[string]any{
				"type": "object", "required": []string{"port"},
				"properties": map[string]any{"port": map[string]any{"type": "string"}, "day": map[string]any{"type": "integer", "minimum": 1}},
			},
		}}
	}
	raw, err := json.Marshal(map[string]any{"messages": messages, "tools": []any{tool("get_tide"), tool("get_wind")}})
	require.NoError(tb, err)
	return raw
}

// longChat returns a ChatML template with tools and thinking, and the variables of a long chat.
func longChat(tb testing.TB) (*jinja.Template, map[string]jinja.Value) {
	tb.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "templates", "chatml.jinja"))
	require.NoError(tb, err)
	tmpl, err := jinja.Compile("chatml.jinja", string(src), jinja.DefaultLimits())
	require.NoError(tb, err)
	vars := map[string]jinja.Value{"add_generation_prompt": true}
	for name, v := range fromJSON(tb, longChatJSON(tb)).(*jinja.Dict).All() {
		vars[name] = v
	}
	return tmpl, vars
}

func BenchmarkRender(b *testing.B) {
	tmpl, vars := longChat(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tmpl.Render(vars, clock); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFromJSON(b *testing.B) {
	raw := longChatJSON(b)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jinja.FromJSON(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	src, err := os.ReadFile(filepath.Join("testdata", "templates", "chatml.jinja"))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jinja.Compile("chatml.jinja", string(src), jinja.DefaultLimits()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWorst shows how long templates that do nothing but spend can run before the default limits end them.
func BenchmarkWorst(b *testing.B) {
	for _, c := range []struct{ name, src string }{
		{"case=loops", `{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}`},
		{"case=macros", `{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(100) }}`},
		{"case=upper", `{% set x = 'aé' * 10**6 %}{% for i in range(100000) %}{% if x | upper == 'x' %}{% endif %}{% endfor %}`},
		{"case=split", `{% set x = 'a,' * 10**6 %}{% for i in range(100000) %}{% if x.split(',') %}{% endif %}{% endfor %}`},
		{"case=keep", `{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = ns.x + ['a' * 10**7] %}{% endfor %}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			tmpl, err := jinja.Compile("worst", c.src, jinja.DefaultLimits())
			require.NoError(b, err)
			for b.Loop() {
				if _, err := tmpl.Render(nil, clock); err == nil {
					b.Fatal("it ended")
				}
			}
		})
	}
}
