package jinja_test

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/jinja"
)

// render compiles and renders a template.
func render(tb testing.TB, src string, vars map[string]jinja.Value) (string, error) {
	tb.Helper()
	t, err := jinja.Compile("t", src, jinja.DefaultLimits())
	if err != nil {
		return "", err
	}
	return t.Render(vars, clock)
}

// spend renders a template that must fail, under a tenth of the default limits so that the test is quick, and returns its error.
func spend(tb testing.TB, src string, want jinja.Kind) error {
	tb.Helper()
	limits := jinja.DefaultLimits()
	limits.Steps, limits.AllocBytes, limits.OutputBytes = limits.Steps/10, limits.AllocBytes/10, limits.OutputBytes/10
	tmpl, err := jinja.Compile("t", src, limits)
	require.NoError(tb, err)
	out, err := tmpl.Render(map[string]jinja.Value{"big": strings.Repeat("a, é\t", 1<<17), "list": longList(1 << 15)}, clock)
	var e *jinja.Error
	require.ErrorAs(tb, err, &e, "%d bytes", len(out))
	require.Equal(tb, want, e.Kind, "%v", err)
	return err
}

// TestStepsAreLimited: work that does not end, or is more than any conversation needs.
func TestStepsAreLimited(t *testing.T) {
	const loops = `{% for i in range(100000) %}{% for j in range(100000) %}` // more turns than any budget
	const ends = `{% endfor %}{% endfor %}`
	for _, c := range []struct{ name, src string }{
		{"nested loops", loops + ends},
		{"output", loops + `{{ 'some text' * 1000 }}` + ends},
		{"many long texts kept", `{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = ns.x + ['a' * 10**7] %}{% endfor %}`},
		{"closures kept", loops + `{% macro m() %}{% endmacro %}` + ends},
		{"the longest range in a loop", loops + `{{ range(100000) | list | length }}` + ends},
		{"search in a loop", `{% for i in range(100000) %}{{ 'zz' in big }}{% endfor %}`},
		{"case in a loop", `{% for i in range(100000) %}{% if big | upper == 'x' %}{% endif %}{% endfor %}`},
		{"split in a loop", `{% for i in range(100000) %}{% if big.split(',') %}{% endif %}{% endfor %}`},
		{"list membership in a loop", `{% for i in list %}{{ -1 in list }}{% endfor %}`},
		{"sort in a loop", `{% for i in list %}{{ list | sort | first }}{% endfor %}`},
		{"unique of unhashed keys", `{% set ns = namespace(x=[]) %}{% for i in range(20000) %}{% set ns.x = ns.x + [(i,)] %}{% endfor %}{{ ns.x | unique | list | length }}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorIs(t, spend(t, c.src, jinja.KindLimit), jinja.ErrLimit)
		})
	}
}

// TestGrowthIsLimited: values that double.
func TestGrowthIsLimited(t *testing.T) {
	for _, c := range []struct{ name, src string }{
		{"doubling of text", `{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}`},
		{"doubling with ~", `{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}`},
		{"doubling of a list", `{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}`},
		{"doubling with join", `{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] | join %}{% endfor %}`},
		{"doubling with replace", `{% set ns = namespace(x='aa') %}{% for i in range(64) %}{% set ns.x = ns.x.replace('a', 'aaaa') %}{% endfor %}`},
		{"doubling with the filter", `{% set ns = namespace(x='aa') %}{% for i in range(64) %}{% set ns.x = ns.x | replace('', 'a') %}{% endfor %}`},
		{"doubling in a block", `{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}`},
		{"doubling in a macro", `{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(100) }}`},
		{"doubling printed", `{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}`},
		{"doubling as JSON", `{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x | tojson }}`},
		{"doubling compared", `{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}`},
		{"doubling ordered", `{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x < ns.y }}`},
		{"doubling hashed", `{% set ns = namespace(x=(1,)) %}{% for i in range(64) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorIs(t, spend(t, c.src, jinja.KindLimit), jinja.ErrLimit)
		})
	}
}

// TestSizesAreLimited: one operation that would make a huge value.
func TestSizesAreLimited(t *testing.T) {
	for _, c := range []struct{ name, src string }{
		{"repetition", `{{ 'a' * 10**9 }}`},
		{"repetition from the left", `{{ 10**9 * 'ab' }}`},
		{"repetition of a list", `{{ [1] * 10**9 }}`},
		{"repetition of a tuple", `{{ (1, 2) * 10**9 }}`},
		{"repetition that overflows", `{{ 'ab' * (2**62) }}`},
		{"JSON indent", `{{ [[[[1]]]] | tojson(indent='a' * 10**7) }}`},
		{"JSON indent as a number", `{{ [1] | tojson(indent=10**9) }}`},
		{"JSON separators", `{{ range(100000) | list | tojson(separators=['a' * 10**6, ':']) }}`},
		{"join", `{{ range(100000) | join('a' * 10**6) }}`},
		{"join method", `{{ ('a' * 10**6).join('b' * 1000) }}`},
		{"indent", `{{ ('a\n' * 10**6) | indent('b' * 10**6) }}`},
		{"indent as a number", `{{ 'a\nb' | indent(10**10) }}`},
		{"center", `{{ 'a'.center(10**9) }}`},
		{"center filter", `{{ 'a' | center(10**9) }}`},
		{"ljust", `{{ 'a'.ljust(10**18) }}`},
		{"rjust", `{{ 'a'.rjust(10**9, 'é') }}`},
		{"zfill", `{{ '1'.zfill(10**10) }}`},
		{"expandtabs", `{{ '\t'.expandtabs(10**10) }}`},
		{"format width", `{{ '%1000000000d' % 1 }}`},
		{"format star", `{{ '%*d' % (10**12, 1) }}`},
		{"format precision", `{{ '%.1000000000f' % 1 }}`},
		{"format method width", `{{ '{:1000000000}'.format(1) }}`},
		{"format method precision", `{{ '{:.1000000000f}'.format(1) }}`},
		{"many formats", `{{ ('%20000000d' * 100) % (((1,) * 100)) }}`},
		{"batch", `{{ [1] | batch(10**12, 0) | list }}`},
		{"slice", `{{ [1] | slice(10**12) | list }}`},
		{"escape", `{{ ('<' * 3 * 10**7) | e }}`},
		{"urlencode", `{{ ('<' * 3 * 10**7) | urlencode }}`},
		{"power", `{{ 2**(10**9) }}`},
		{"power of powers", `{{ (2**60000) * (2**60000) }}`},
		{"sums of large integers", `{% set ns = namespace(x=2**60000) %}{% for i in range(100000) %}{% set ns.x = ns.x + ns.x %}{% endfor %}`},
		{"characters one by one", `{% for i in range(100000) %}{{ big[i] }}{% endfor %}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorIs(t, spend(t, c.src, jinja.KindLimit), jinja.ErrLimit)
		})
	}
}

// TestWhatPythonRefusesToo: bounds that jinja2 has as well, so that the engine fails at the same template.
func TestWhatPythonRefusesToo(t *testing.T) {
	for _, c := range []struct {
		name, src string
		kind      jinja.Kind
	}{
		{"endless macro", `{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`, jinja.KindRecursion},
		{"endless macros, mutual", `{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}`, jinja.KindRecursion},
		{"endless caller", `{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}`, jinja.KindRecursion},
		{"endless loop", `{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}`, jinja.KindRecursion},
		{"deep value", `{% set ns = namespace(x=[]) %}{% for i in range(2000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}`, jinja.KindRecursion},
		{"deep value as JSON", `{% set ns = namespace(x=[]) %}{% for i in range(2000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson }}`, jinja.KindRecursion},
		{"deep values compared", `{% set ns = namespace(x=[], y=[]) %}{% for i in range(2000) %}{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}`, jinja.KindRecursion},
		{"a value in itself", `{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}`, jinja.KindRecursion},
		{"a value in its own list", `{% set ns = namespace() %}{% set ns.l = [ns] %}{{ ns.l }}`, jinja.KindRecursion},
		{"range", `{{ range(10**6) }}`, jinja.KindOverflow},
		{"range over the whole of int64", `{{ range(-9223372036854775808, 9223372036854775807) }}`, jinja.KindOverflow},
		{"range with the widest step", `{{ range(9223372036854775807, -9223372036854775808, -1) }}`, jinja.KindOverflow},
		{"a number too long to print", `{{ 10**5000 }}`, jinja.KindValue},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NotErrorIs(t, spend(t, c.src, c.kind), jinja.ErrLimit)
		})
	}
}

func longList(n int) *jinja.List {
	l := &jinja.List{}
	for i := range n {
		l.Items = append(l.Items, int64(i))
	}
	return l
}

// TestNearLimits: what is large but reasonable renders.
func TestNearLimits(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{`{{ ('a' * 10**7) | length }}`, "10000000"},
		{`{{ range(100000) | list | length }}`, "100000"},
		{`{{ (2**60000) > 0 }}`, "True"},
		{`{{ (-1)**(10**9) }} {{ 1**(10**30) }} {{ 0**5 }}`, "1 1 0"},
		{`{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}x{% endmacro %}{{ m(110) | length }}`, "111"},
		{strings.Repeat("(", 90) + "1" + strings.Repeat(")", 90), strings.Repeat("(", 90) + "1" + strings.Repeat(")", 90)},
		{"{{ " + strings.Repeat("(", 90) + "1" + strings.Repeat(")", 90) + " }}", "1"},
		{"{{ " + strings.Repeat("1 + ", 150) + "1 }}", "151"},
		{"{{ " + strings.Repeat("'a' ~ ", 5000) + "'' }}", strings.Repeat("a", 5000)},
		{"{{ " + strings.Repeat("'a' ", 5000) + " }}", strings.Repeat("a", 5000)},
		{strings.Repeat("{% if true %}", 150) + "x" + strings.Repeat("{% endif %}", 150), "x"},
		{`{% set ns = namespace(x=[1]) %}{% for i in range(500) %}{% set ns.x = [ns.x] %}{% endfor %}{{ (ns.x | tojson) | length }}`, "1003"},
	} {
		got, err := render(t, c.src, nil)
		require.NoError(t, err, "%.60s", c.src)
		require.Equal(t, c.want, got)
	}
}

// TestNesting: source that nests without end is refused before anything walks over it. The stack is held small, so that a
// walk without a bound ends the test with a fatal error.
func TestNesting(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(32 << 20))
	const n = 100_000
	for _, c := range []struct{ name, begin, middle, end string }{
		{"parentheses", "{{ ", "(", ")"},
		{"brackets", "{{ ", "[", "]"},
		{"braces", "{{ ", "{1:", "}"},
		{"calls", "{{ ", "f(", ")"},
		{"subscripts", "{{ ", "a[", "]"},
		{"filters in filters", "{{ ", "a|default(", ")"},
		{"tests in tests", "{{ ", "a is eq(", ")"},
		{"not", "{{ ", "not ", "1 }}"},
		{"minus", "{{ ", "- ", "1 }}"},
		{"plus", "{{ ", "+", "1 }}"},
		{"sum", "{{ 1", " + 1", " }}"},
		{"difference", "{{ 1", "-1", " }}"},
		{"product", "{{ 1", "*1", " }}"},
		{"power", "{{ 1", "**1", " }}"},
		{"or", "{{ 1", " or 1", " }}"},
		{"and", "{{ 1", " and 1", " }}"},
		{"attributes", "{{ a", ".b", " }}"},
		{"items", "{{ a", "[0]", " }}"},
		{"calls of calls", "{{ a", "()", " }}"},
		{"filters", "{{ a", "|upper", " }}"},
		{"inline if", "{{ 1", " if 1", " }}"},
		{"inline else", "{{ ", "1 if 1 else ", "1 }}"},
		{"targets", "{% set ", "(", ")"},
		{"for targets", "{% for ", "(", ")"},
		{"if blocks", "", "{% if 1 %}", ""},
		{"for blocks", "", "{% for x in y %}", ""},
		{"macros", "", "{% macro m() %}", ""},
		{"calls with bodies", "", "{% call m() %}", ""},
		{"set blocks", "", "{% set x %}", ""},
		{"with blocks", "", "{% with %}", ""},
		{"filter blocks", "", "{% filter upper %}", ""},
		{"generation blocks", "", "{% generation %}", ""},
		{"filter chain of a block", "{% filter upper", "|upper", "%}{% endfilter %}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			times := min(n, (900<<10)/(len(c.middle)+len(c.end)))
			src := c.begin + strings.Repeat(c.middle, times)
			if len(c.end) == 1 { // brackets are balanced before anything else is looked at
				src += strings.Repeat(c.end, times) + map[bool]string{true: " %}", false: " }}"}[strings.HasPrefix(c.begin, "{%")]
			} else {
				src += c.end
			}
			_, err := jinja.Compile("t", src, jinja.DefaultLimits())
			var e *jinja.SyntaxError
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Message, "deeper than")
		})
	}
}

// TestWideSource: long source without nesting compiles in time, whatever it holds.
func TestWideSource(t *testing.T) {
	const n = 20_000
	for _, piece := range []string{
		"{% set a%d = messages %}", "{% for m in messages %}{% endfor %}", "{{ x }}", "{# c #}", "{% raw %}x{% endraw %}", "{% if a %}{% elif b %}{% endif %}",
	} {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(piece, "%d", string(rune('a'+i%26))+strings.Repeat("x", i%7)))
		}
		t.Run(piece, func(t *testing.T) {
			tmpl, err := jinja.Compile("t", b.String(), jinja.DefaultLimits())
			require.NoError(t, err)
			require.Equal(t, jinja.ContentString, tmpl.ContentFormat())
		})
	}
	_, err := jinja.Compile("t", strings.Repeat("x", 2<<20), jinja.DefaultLimits())
	require.ErrorContains(t, err, "bytes")
}

func TestLimitsAreValidated(t *testing.T) {
	require.NoError(t, jinja.DefaultLimits().Validate())
	for _, change := range []func(*jinja.Limits){
		func(l *jinja.Limits) { l.TemplateBytes = 0 },
		func(l *jinja.Limits) { l.ExpressionDepth = 1_000_000 },
		func(l *jinja.Limits) { l.Steps = -1 },
		func(l *jinja.Limits) { l.OutputBytes = 0 },
		func(l *jinja.Limits) { l.AllocBytes = 0 },
		func(l *jinja.Limits) { l.MacroDepth = 0 },
		func(l *jinja.Limits) { l.Range = 0 },
		func(l *jinja.Limits) { l.IntegerBits = 0 },
		func(l *jinja.Limits) { l.ValueDepth = 0 },
	} {
		l := jinja.DefaultLimits()
		change(&l)
		require.Error(t, l.Validate())
		_, err := jinja.Compile("t", "x", l)
		require.Error(t, err)
	}
}
