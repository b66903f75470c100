package jinja

import (
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"
)

// jsonWriter is json.dumps as transformers' override of the tojson filter calls it: no HTML escaping, ", " and ": " between,
// characters beyond ASCII as they are.
type jsonWriter struct {
	text
	itemSeparator, keySeparator string
	indent                      *string // nil: on one line
	asciiOnly                   bool
	sortKeys                    bool
}

func filterToJSON(s *state, v Value, a args) Value {
	w := &jsonWriter{text: text{s: s}, itemSeparator: ", ", keySeparator: ": "}
	w.asciiOnly = truthy(a.arg(0, "ensure_ascii", false))
	if indent := a.arg(1, "indent", nil); indent != nil {
		t, ok := asString(indent)
		if !ok {
			t = s.repeat(" ", needInt(indent))
		}
		w.indent, w.itemSeparator = &t, ","
	}
	if separators := a.arg(2, "separators", nil); separators != nil {
		pair := s.iterate(separators)
		if len(pair) != 2 {
			throw(KindValue, "not enough values to unpack (expected 2, got %d)", len(pair))
		}
		w.itemSeparator, w.keySeparator = needString(pair[0], "separator"), needString(pair[1], "separator")
	}
	w.sortKeys = truthy(a.arg(3, "sort_keys", false))
	w.value(v, 0)
	return w.String()
}

func (w *jsonWriter) value(v Value, depth int) {
	w.s.descend(depth)
	w.s.work(1)
	switch x := v.(type) {
	case nil:
		w.add("null")
	case bool:
		w.add(strconv.FormatBool(x))
	case int64, *big.Int:
		w.add(w.s.str(x))
	case float64:
		w.add(jsonFloat(x))
	case string:
		w.quote(x)
	case markup:
		w.quote(string(x))
	case *List:
		w.array(x.Items, depth)
	case *tuple:
		w.array(x.items, depth)
	case *Dict:
		w.object(x, depth)
	default:
		throw(KindType, "Object of type %s is not JSON serializable", typeName(v))
	}
}

// jsonFloat writes a float as Python does, which knows NaN and Infinity.
func jsonFloat(f float64) string {
	switch t := floatText(f); t {
	case "nan":
		return "NaN"
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	default:
		return t
	}
}

// newline begins a line at a depth, if there are lines.
func (w *jsonWriter) newline(depth int) {
	if w.indent == nil {
		return
	}
	w.addByte('\n')
	for range depth {
		w.add(*w.indent)
	}
}

func (w *jsonWriter) array(items []Value, depth int) {
	if len(items) == 0 {
		w.add("[]")
		return
	}
	w.addByte('[')
	for i, e := range items {
		if i > 0 {
			w.add(w.itemSeparator)
		}
		w.newline(depth + 1)
		w.value(e, depth+1)
	}
	w.newline(depth)
	w.addByte(']')
}

func (w *jsonWriter) object(d *Dict, depth int) {
	if d.Len() == 0 {
		w.add("{}")
		return
	}
	var order []int // nil: as it is
	if w.sortKeys {
		order = make([]int, d.Len())
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return sortOrder(w.s.compare("<", d.keys[i], d.keys[j])) })
	}
	w.addByte('{')
	for n := range d.keys {
		i := n
		if order != nil {
			i = order[n]
		}
		if n > 0 {
			w.add(w.itemSeparator)
		}
		w.newline(depth + 1)
		w.key(d.keys[i])
		w.add(w.keySeparator)
		w.value(d.values[i], depth+1)
	}
	w.newline(depth)
	w.addByte('}')
}

// key writes a key; JSON knows only strings.
func (w *jsonWriter) key(k Value) {
	switch x := k.(type) {
	case string:
		w.quote(x)
	case nil:
		w.add(`"null"`)
	case bool:
		w.add(`"` + strconv.FormatBool(x) + `"`)
	case float64:
		w.add(`"` + jsonFloat(x) + `"`)
	case int64, *big.Int:
		w.add(`"` + w.s.str(x) + `"`)
	default:
		throw(KindType, "keys must be str, int, float, bool or None, not %s", typeName(k))
	}
}

const hexDigits = "0123456789abcdef"

// quote writes a string.
func (w *jsonWriter) quote(t string) {
	w.addByte('"')
	begin := 0 // of what is not written yet
	for i := 0; i < len(t); {
		c := t[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(t[i:])
			if w.asciiOnly {
				w.add(t[begin:i])
				w.escapeRune(r)
				begin = i + n
			}
			i += n
			continue
		}
		if c < ' ' || c == '"' || c == '\\' || w.asciiOnly && c == 0x7f {
			w.add(t[begin:i])
			w.escapeByte(c)
			begin = i + 1
		}
		i++
	}
	w.add(t[begin:])
	w.addByte('"')
}

func (w *jsonWriter) escapeByte(c byte) {
	switch c {
	case '"', '\\':
		w.addByte('\\')
		w.addByte(c)
	case '\n':
		w.add(`\n`)
	case '\r':
		w.add(`\r`)
	case '\t':
		w.add(`\t`)
	case '\b':
		w.add(`\b`)
	case '\f':
		w.add(`\f`)
	default:
		w.add(`\u00`)
		w.addByte(hexDigits[c>>4])
		w.addByte(hexDigits[c&15])
	}
}

// escapeRune writes \u escapes, a surrogate pair beyond the basic plane.
func (w *jsonWriter) escapeRune(r rune) {
	units := []rune{r}
	if r > 0xffff {
		units = []rune{0xd800 + (r-0x10000)>>10, 0xdc00 + (r-0x10000)&0x3ff}
	}
	for _, u := range units {
		w.add(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			w.addByte(hexDigits[(u>>shift)&15])
		}
	}
}
