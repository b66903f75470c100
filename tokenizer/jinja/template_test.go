package jinja_test

import (
	"math"
	"math/big"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/jinja"
)

// show prints a value as str, repr and JSON.
const show = `{{ v }} {{ [v] }} {{ v | tojson }}`

func TestValues(t *testing.T) {
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	dict := jinja.NewDict(2)
	dict.Set("z", int64(1))
	dict.Set("a", nil)
	for _, c := range []struct {
		value jinja.Value
		want  string
	}{
		{nil, "None [None] null"},
		{true, "True [True] true"},
		{int64(0), "0 [0] 0"},
		{int64(math.MinInt64), "-9223372036854775808 [-9223372036854775808] -9223372036854775808"},
		{huge, "123456789012345678901234567890 [123456789012345678901234567890] 123456789012345678901234567890"},
		{0.0, "0.0 [0.0] 0.0"},
		{math.Copysign(0, -1), "-0.0 [-0.0] -0.0"},
		{1.0, "1.0 [1.0] 1.0"},
		{0.1, "0.1 [0.1] 0.1"},
		{1e15, "1000000000000000.0 [1000000000000000.0] 1000000000000000.0"},
		{1e16, "1e+16 [1e+16] 1e+16"},
		{1.5e-5, "1.5e-05 [1.5e-05] 1.5e-05"},
		{0.0001, "0.0001 [0.0001] 0.0001"},
		{1.7976931348623157e308, "1.7976931348623157e+308 [1.7976931348623157e+308] 1.7976931348623157e+308"},
		{5e-324, "5e-324 [5e-324] 5e-324"},
		{math.Inf(1), "inf [inf] Infinity"},
		{math.Inf(-1), "-inf [-inf] -Infinity"},
		{math.NaN(), "nan [nan] NaN"},
		{"a'b", `a'b ["a'b"] "a'b"`},
		{`a"b`, `a"b ['a"b'] "a\"b"`},
		{`a'"b`, `a'"b ['a\'"b'] "a'\"b"`},
		{"\\\n\t\r", "\\\n\t\r ['\\\\\\n\\t\\r'] \"\\\\\\n\\t\\r\""},
		{"\x00\x1f\x7f\u0080\u00ad\u2028\ue000\U000E0001", "\x00\x1f\x7f\u0080\u00ad\u2028\ue000\U000E0001 " +
			`['\x00\x1f\x7f\x80\xad\u2028\ue000\U000e0001'] ` + "\"\\u0000\\u001f\x7f\u0080\u00ad\u2028\ue000\U000E0001\""},
		{"é日🚀", `é日🚀 ['é日🚀'] "é日🚀"`},
		{&jinja.List{}, "[] [[]] []"},
		{&jinja.List{Items: []jinja.Value{int64(1), "a"}}, "[1, 'a'] [[1, 'a']] [1, \"a\"]"},
		{dict, `{'z': 1, 'a': None} [{'z': 1, 'a': None}] {"z": 1, "a": null}`},
	} {
		got, err := render(t, show, map[string]jinja.Value{"v": c.value})
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestDict(t *testing.T) {
	d := jinja.NewDict(0)
	for i := range 100 { // more than fit a scan
		d.Set(string(rune('a'+i%26))+string(rune('a'+i/26)), int64(i))
	}
	require.Equal(t, 100, d.Len())
	v, ok := d.Get("cb")
	require.True(t, ok)
	require.Equal(t, int64(28), v)
	_, ok = d.Get("zz")
	require.False(t, ok)
	d.Set("cb", "changed")
	require.Equal(t, 100, d.Len())
	i := 0
	for key, v := range d.All() {
		if key == "cb" {
			require.Equal(t, 28, i, "a changed key keeps its place")
			require.Equal(t, "changed", v)
		}
		i++
	}
	require.Equal(t, 100, i)
	for range d.All() {
		break // an early end is fine
	}
}

func TestKeysThatAreEqualFallTogether(t *testing.T) {
	for _, src := range []string{
		`{% set d = {1: 'a', 1.0: 'b', true: 'c', 0: 'z', false: 'y', none: 'n', 12345678901234567890: 'big', (1, 2): 't'} %}` +
			`{{ d | length }} {{ d[1] }} {{ d[0.0] }} {{ d[none] }} {{ d[12345678901234567890] }} {{ d[(1, 2)] }} {{ d[(1, 2.0)] }}`,
		// the same in a dict that has an index
		`{% set d = dict(a=0, b=0, c=0, d=0, e=0, f=0, g=0, h=0, i=0, j=0, k=0, l=0, m=0, n=0) %}` +
			`{% set d = dict(d, **{}) %}{% set d = dict([(1, 'a'), (1.0, 'b'), (true, 'c'), (0, 'z'), (false, 'y'), (none, 'n'), (12345678901234567890, 'big'), ((1, 2), 't')]) %}` +
			`{{ d | length }} {{ d[1] }} {{ d[0.0] }} {{ d[none] }} {{ d[12345678901234567890] }} {{ d[(1, 2)] }} {{ d[(1, 2.0)] }}`,
	} {
		got, err := render(t, src, nil)
		require.NoError(t, err)
		require.Equal(t, "5 c y n big t t", got)
	}
}

func TestFromJSON(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`{"b": 1, "a": {"d": 2, "c": 3}}`, `{"b": 1, "a": {"d": 2, "c": 3}}`},
		{`{"a": 1, "b": 2, "a": 3}`, `{"a": 3, "b": 2}`},
		{`[1, 1.0, 1e2, -0, 100000000000000000000, 1E400, -1e400]`, `[1, 1.0, 100.0, 0, 100000000000000000000, Infinity, -Infinity]`},
		{`[NaN, Infinity, -Infinity]`, `[NaN, Infinity, -Infinity]`},
		{`"\u00e9\ud83d\ude80\n\/"`, `"é🚀\n/"`},
		{`"\ud800x\udc00"`, `"` + "\ufffdx\ufffd" + `"`},
		{" \t\r\n[ ] ", `[]`},
		{`{ }`, `{}`},
	} {
		v, err := jinja.FromJSON([]byte(c.raw))
		require.NoError(t, err, c.raw)
		got, err := render(t, `{{ v | tojson }}`, map[string]jinja.Value{"v": v})
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestFromJSONRefuses(t *testing.T) {
	deep := make([]byte, 600)
	for i := range deep {
		deep[i] = '['
	}
	digits := make([]byte, 4400)
	for i := range digits {
		digits[i] = '7'
	}
	for _, c := range []struct {
		raw    string
		offset int
	}{
		{``, 0},
		{`[1,]`, 3},
		{`[1 2]`, 3},
		{`{"a" 1}`, 5},
		{`{a: 1}`, 1},
		{`{"a": 1,}`, 8},
		{`"abc`, 4},
		{"\"a\nb\"", 2},
		{`"\x"`, 1},
		{`"\u12"`, 1},
		{`01`, 0},
		{`-`, 0},
		{`1.`, 1},
		{`tru`, 0},
		{`1 1`, 2},
		{"\"\xff\"", 2},
		{string(deep), 512},
		{string(digits), 0},
	} {
		_, err := jinja.FromJSON([]byte(c.raw))
		var e *jinja.JSONError
		require.ErrorAs(t, err, &e, "%.20q", c.raw)
		require.Equal(t, c.offset, e.Offset, "%.20q: %v", c.raw, err)
	}
}

func TestSyntaxErrorsNameTheLine(t *testing.T) {
	for _, c := range []struct {
		src  string
		line int
	}{
		{"a\n{{ 1 + }}", 2},
		{"{% if x %}\n\n", 2},
		{"\n\n{% bogus %}", 3},
		{"{{\n\n1 ~ }}", 3},
		{"{# a\nb", 1},
		{"{% raw %}\n", 1},
		{"{{ 'a\nb' | nope }}", 2},
		{"x\n{{ x is\nnonsense }}", 2},
		{"{{ '\\xZZ' }}", 1},
		{"a\r\nb\rc\n{{ 1 1 }}", 4},
		{"{% for 1 in x %}", 1},
		{"{% set true = 1 %}", 1},
		{"{% macro m(a=1, b) %}", 1},
		{"{{ f(a=1, 2) }}", 1},
		{"{% call x %}{% endcall %}", 1},
		{"\xff", 1},
	} {
		_, err := jinja.Compile("file.jinja", c.src, jinja.DefaultLimits())
		var e *jinja.SyntaxError
		require.ErrorAs(t, err, &e, "%q", c.src)
		require.Equal(t, c.line, e.Line, "%q: %v", c.src, err)
		require.Equal(t, "file.jinja", e.Name)
		require.Contains(t, err.Error(), "file.jinja:")
	}
}

func TestErrorsNameKindAndLine(t *testing.T) {
	for _, c := range []struct {
		src     string
		kind    jinja.Kind
		line    int
		message string
	}{
		{"\n{{ raise_exception('no ' ~ 1) }}", jinja.KindTemplate, 2, "no 1"},
		{"{{ a.b }}", jinja.KindUndefined, 1, "'a' is undefined"},
		{"{% if true %}\n\n{{ {}.x.y }}{% endif %}", jinja.KindUndefined, 3, "'dict object' has no attribute 'x'"},
		{"{% macro m() %}\n{{ 1 // 0 }}{% endmacro %}\n{{ m() }}", jinja.KindZeroDivision, 2, "integer division or modulo by zero"},
		{"{% macro m() %}\nx{% endmacro %}\n{{ m() + 1 }}", jinja.KindType, 3, `can only concatenate str (not "int") to str`},
		{"{{ [].append(1) }}", jinja.KindSecurity, 1, "access to attribute 'append' of 'list' object is unsafe."},
		{"{% if true %}{{ 1 | nope }}{% endif %}", jinja.KindRuntime, 1, "No filter named 'nope' found."},
		{"{{ [1] | map }}", jinja.KindArgument, 1, "map requires a filter argument"},
		{"{{ '%(a)s' % {} }}", jinja.KindKey, 1, "'a'"},
		{"{{ '{}'.format() }}", jinja.KindIndex, 1, "Replacement index 0 out of range for positional args tuple"},
		{"{{ 'abc def ghi' | truncate(1) }}", jinja.KindAssertion, 1, "expected length >= 3, got 1"},
		{"{{ 'a'.split('') }}", jinja.KindValue, 1, "empty separator"},
		{"{{ range(100001) }}", jinja.KindOverflow, 1, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000)."},
	} {
		_, err := render(t, c.src, nil)
		var e *jinja.Error
		require.ErrorAs(t, err, &e, c.src)
		require.Equal(t, c.kind, e.Kind, err)
		require.Equal(t, c.line, e.Line, err)
		require.Equal(t, c.message, e.Message)
		require.Contains(t, err.Error(), c.kind.String())
	}
}

func TestAClockIsNeededOnlyWhereItIsRead(t *testing.T) {
	tmpl, err := jinja.Compile("t", `{% if x %}{{ strftime_now('%Y') }}{% endif %}`, jinja.DefaultLimits())
	require.NoError(t, err)
	_, err = tmpl.Render(nil, nil)
	require.NoError(t, err)
	_, err = tmpl.Render(map[string]jinja.Value{"x": true}, nil)
	var e *jinja.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, jinja.KindRuntime, e.Kind)
}

func TestAFaultOfOursIsAnError(t *testing.T) {
	vars := map[string]jinja.Value{"x": []int{1}, "y": []int{1}} // no caller may pass these: comparing them panics
	_, err := render(t, `{{ x == y }}`, vars)
	var e *jinja.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, jinja.KindInternal, e.Kind)
	require.ErrorContains(t, err, "internal error")
}

func TestKindNames(t *testing.T) {
	seen := map[string]bool{}
	for k := range jinja.NumKinds {
		require.NotEmpty(t, k.String())
		require.False(t, seen[k.String()], "%s twice", k)
		seen[k.String()] = true
	}
	require.Equal(t, "Kind(200)", jinja.Kind(200).String())
}

// TestContentFormat takes the shapes that vLLM's detection tells apart.
func TestContentFormat(t *testing.T) {
	for _, c := range []struct {
		src  string
		want jinja.ContentFormat
	}{
		{`{% for m in messages %}{{ m.content }}{% endfor %}`, jinja.ContentString},
		{`{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}`, jinja.ContentOpenAI},
		{`{% for m in messages %}{% for p in m['content'] %}{% endfor %}{% endfor %}`, jinja.ContentOpenAI},
		{`{% for m in messages[1:] %}{% for p in m.content | list %}{% endfor %}{% endfor %}`, jinja.ContentOpenAI},
		{`{% set ms = messages %}{% set loop_ms = ms[1:] %}{% for m in loop_ms %}{% for p in m.content %}{% endfor %}{% endfor %}`, jinja.ContentOpenAI},
		{`{% set loop_ms = ms %}{% set ms = messages | list %}{% for m in loop_ms %}{% for p in m.content %}{% endfor %}{% endfor %}`, jinja.ContentOpenAI},
		{`{% set ms = ms2 %}{% for m in ms %}{% for p in m.content %}{% endfor %}{% endfor %}`, jinja.ContentString},
		{`{% for m in messages %}{% if m.content is string %}{% else %}{% for p in m.content %}{% endfor %}{% endif %}{% endfor %}`, jinja.ContentOpenAI},
		{`{% macro r(m) %}{% for p in m.content %}{% endfor %}{% endmacro %}{% for m in messages %}{{ r(m) }}{% endfor %}`, jinja.ContentOpenAI},
		{`{% macro r(c) %}{% for p in c %}{% endfor %}{% endmacro %}{% for m in messages %}{{ r(m.content) }}{% endfor %}`, jinja.ContentString},
		{`{% for a, b in messages %}{% for p in a.content %}{% endfor %}{% endfor %}`, jinja.ContentString},
		{`{% set a, b = messages %}{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}`, jinja.ContentString},
		{`{% for m in messages %}{% for k, v in m.content %}{% endfor %}{% endfor %}`, jinja.ContentString},
		{`{% for m in messages %}{% for p in m[key] %}{% endfor %}{% for p in m.tool_calls %}{% endfor %}{% endfor %}`, jinja.ContentString},
		{`{% for m in messages %}{% for p in m.a.content %}{% endfor %}{% endfor %}`, jinja.ContentString},
	} {
		tmpl, err := jinja.Compile("t", c.src, jinja.DefaultLimits())
		require.NoError(t, err)
		require.Equal(t, c.want, tmpl.ContentFormat(), c.src)
	}
	require.Equal(t, "string", jinja.ContentString.String())
	require.Equal(t, "openai", jinja.ContentOpenAI.String())
}

// TestConcurrentRenders shares one template and one conversation between goroutines; it is for the race detector.
func TestConcurrentRenders(t *testing.T) {
	tmpl, vars := longChat(t)
	want, err := tmpl.Render(vars, clock)
	require.NoError(t, err)
	const goroutines, renders = 8, 50
	got := make([]string, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range renders {
				text, err := tmpl.Render(vars, clock)
				if err != nil || text != want {
					got[g] = text
					return
				}
			}
			got[g] = want
		})
	}
	wg.Wait()
	for g := range goroutines {
		require.Equal(t, want, got[g])
	}
}
