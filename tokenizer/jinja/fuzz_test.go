package jinja_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/jinja"
)

// fuzzLimits keep each input quick.
func fuzzLimits() jinja.Limits {
	l := jinja.DefaultLimits()
	l.Steps, l.AllocBytes, l.OutputBytes, l.Range = 100_000, 8<<20, 1<<20, 10_000
	return l
}

// FuzzCompileRender: any source over any data gives a text or an error of a kind that is not internal, and never ends the process.
func FuzzCompileRender(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "templates", "*.jinja"))
	require.NoError(f, err)
	data := []byte(`{"messages":[{"role":"user","content":"hi é🚀"},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"a":1.0}}}]}],` +
		`"tools":[{"function":{"name":"f","parameters":{"properties":{"x":{"type":["string","null"]}}}}}],"n":-7,"big":12345678901234567890,"f":1e22,"l":[3,"a",null,[true]]}`)
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(src), data)
	}
	f.Fuzz(func(t *testing.T, src string, raw []byte) {
		defer debug.SetMaxStack(debug.SetMaxStack(64 << 20))
		v, err := jinja.FromJSON(raw)
		if err != nil {
			v = jinja.NewDict(0)
		}
		vars := map[string]jinja.Value{"x": v}
		if d, ok := v.(*jinja.Dict); ok {
			for name, value := range d.All() {
				vars[name] = value
			}
		}
		tmpl, err := jinja.Compile("fuzz", src, fuzzLimits())
		if err != nil {
			var syntax *jinja.SyntaxError
			if !errors.As(err, &syntax) || syntax.Line < 1 {
				t.Fatalf("not a syntax error with a line: %v", err)
			}
			return
		}
		tmpl.ContentFormat()
		out, err := tmpl.Render(vars, clock)
		if err != nil {
			requireKind(t, err)
			return
		}
		if !utf8.ValidString(out) {
			t.Fatalf("broken text %q", out)
		}
		again, err := tmpl.Render(vars, clock)
		require.NoError(t, err)
		require.Equal(t, out, again, "the second render differs: a value was changed")
	})
}

// requireKind checks that an error of a render is typed and not ours.
func requireKind(tb testing.TB, err error) {
	tb.Helper()
	var e *jinja.Error
	if !errors.As(err, &e) || e.Kind == jinja.KindInternal || e.Kind >= jinja.NumKinds {
		tb.Fatalf("not an error of a template: %v", err)
	}
}

// FuzzFromJSON: what is read and written again is the same value, whatever the text.
func FuzzFromJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.0,-0,1e5,1E-7,12345678901234567890,true,false,null,"\u00e9\ud83d\ude80\ud800 \n"]}`,
		`[NaN,-Infinity,Infinity]`, `{"a":1,"a":2}`, `"`, `[1,]`, `{"a"}`, `01`, `-`, `1.`, `"\x"`, "\"\xff\"", `[[[[]]]]`, ` 1 `, `1 2`, `1e999`,
	} {
		f.Add([]byte(seed))
	}
	tmpl, err := jinja.Compile("dump", `{{ v | tojson }}`, fuzzLimits())
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := jinja.FromJSON(raw)
		if err != nil {
			var e *jinja.JSONError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(raw) {
				t.Fatalf("not a JSON error with a place: %v", err)
			}
			return
		}
		text, err := tmpl.Render(map[string]jinja.Value{"v": v}, clock)
		if err != nil {
			requireKind(t, err)
			return
		}
		again, err := jinja.FromJSON([]byte(text))
		require.NoError(t, err, text)
		second, err := tmpl.Render(map[string]jinja.Value{"v": again}, clock)
		require.NoError(t, err)
		require.Equal(t, text, second)
	})
}
