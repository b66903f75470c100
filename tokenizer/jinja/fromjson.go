package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSONError is text that is no JSON.
type JSONError struct {
	Offset  int // the byte it was found at, from 0
	Message string
}

// Error returns the message and the offset.
func (e *JSONError) Error() string { return fmt.Sprintf("%s at byte %d", e.Message, e.Offset) }

// jsonDepth is how deep JSON may nest: half of what Python's decoder can take at the most.
const jsonDepth = 512

// FromJSON decodes JSON as Python's json.loads does: the order of keys is kept and the last of equal keys counts, int and
// float are distinct, integers are exact up to 4300 digits, NaN, Infinity and -Infinity are understood. It differs
// in that a lone surrogate, which no text can hold, becomes U+FFFD, and that nesting ends at 512 levels. An error is a [JSONError].
func FromJSON(raw []byte) (Value, error) {
	d := &jsonDecoder{src: string(raw)}
	v, err := d.value(0)
	if err == nil {
		d.space()
		if d.pos < len(d.src) {
			err = d.fail("unexpected data after the value")
		}
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

type jsonDecoder struct {
	src string
	pos int
}

func (d *jsonDecoder) fail(message string) error {
	return &JSONError{Offset: d.pos, Message: message}
}

func (d *jsonDecoder) space() {
	for d.pos < len(d.src) {
		switch d.src[d.pos] {
		case ' ', '\n', '\r', '\t':
			d.pos++
		default:
			return
		}
	}
}

// skip goes over a character, after white space, if it is at hand.
func (d *jsonDecoder) skip(c byte) bool {
	d.space()
	if d.pos < len(d.src) && d.src[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

func (d *jsonDecoder) value(depth int) (Value, error) {
	d.space()
	if d.pos >= len(d.src) {
		return nil, d.fail("unexpected end of JSON")
	}
	switch c := d.src[d.pos]; {
	case c == '{' || c == '[':
		if depth >= jsonDepth {
			return nil, d.fail("nested too deeply")
		}
		d.pos++
		if c == '{' {
			return d.object(depth)
		}
		return d.array(depth)
	case c == '"':
		d.pos++
		return d.str()
	case isDigit(c) || c == '-' && d.pos+1 < len(d.src) && isDigit(d.src[d.pos+1]):
		return d.number()
	}
	for _, w := range []struct {
		text  string
		value Value
	}{
		{"true", true},
		{"false", false},
		{"null", nil},
		{"NaN", math.NaN()},
		{"Infinity", math.Inf(1)},
		{"-Infinity", math.Inf(-1)},
	} {
		if strings.HasPrefix(d.src[d.pos:], w.text) {
			d.pos += len(w.text)
			return w.value, nil
		}
	}
	return nil, d.fail("expected a JSON value")
}

func (d *jsonDecoder) object(depth int) (Value, error) {
	o := NewDict(4)
	if d.skip('}') {
		return o, nil
	}
	for {
		if !d.skip('"') {
			return nil, d.fail("expected a key in double quotes")
		}
		key, err := d.str()
		if err != nil {
			return nil, err
		}
		if !d.skip(':') {
			return nil, d.fail("expected ':'")
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.Set(key, v)
		if d.skip('}') {
			return o, nil
		}
		if !d.skip(',') {
			return nil, d.fail("expected ',' or '}'")
		}
	}
}

func (d *jsonDecoder) array(depth int) (Value, error) {
	l := &List{}
	if d.skip(']') {
		return l, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		l.Items = append(l.Items, v)
		if d.skip(']') {
			return l, nil
		}
		if !d.skip(',') {
			return nil, d.fail("expected ',' or ']'")
		}
	}
}

// str decodes a string whose opening quote has been read.
func (d *jsonDecoder) str() (string, error) {
	begin := d.pos
	for d.pos < len(d.src) { // most strings hold no escape and are a part of the source
		c := d.src[d.pos]
		if c == '"' {
			t := d.src[begin:d.pos]
			if !utf8.ValidString(t) {
				return "", d.fail("invalid UTF-8 in a string")
			}
			d.pos++
			return t, nil
		}
		if c == '\\' || c < ' ' {
			break
		}
		d.pos++
	}
	var b strings.Builder
	b.WriteString(d.src[begin:d.pos])
	for d.pos < len(d.src) {
		c := d.src[d.pos]
		switch {
		case c == '"':
			if !utf8.ValidString(b.String()) {
				return "", d.fail("invalid UTF-8 in a string")
			}
			d.pos++
			return b.String(), nil
		case c < ' ':
			return "", d.fail("a control character in a string")
		case c == '\\':
			if err := d.escape(&b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
			d.pos++
		}
	}
	return "", d.fail("unexpected end of a string")
}

// escape decodes the escape at hand.
func (d *jsonDecoder) escape(b *strings.Builder) error {
	const letters, values = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if d.pos+1 >= len(d.src) {
		return d.fail("unexpected end of a string")
	}
	c := d.src[d.pos+1]
	if i := strings.IndexByte(letters, c); i >= 0 {
		b.WriteByte(values[i])
		d.pos += 2
		return nil
	}
	unit, ok := d.unit(d.pos)
	if !ok {
		return d.fail("invalid escape")
	}
	d.pos += 6
	if utf16.IsSurrogate(unit) {
		if low, ok := d.unit(d.pos); ok {
			if r := utf16.DecodeRune(unit, low); r != utf8.RuneError {
				d.pos += 6
				b.WriteRune(r)
				return nil
			}
		}
		unit = utf8.RuneError
	}
	b.WriteRune(unit)
	return nil
}

// unit returns the UTF-16 code unit of the \u escape at i.
func (d *jsonDecoder) unit(i int) (rune, bool) {
	if i+6 > len(d.src) || d.src[i] != '\\' || d.src[i+1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(d.src[i+2:i+6], 16, 16)
	return rune(v), err == nil
}

func (d *jsonDecoder) number() (Value, error) {
	begin := d.pos
	if d.src[d.pos] == '-' {
		d.pos++
	}
	first := d.pos
	d.digits()
	if d.src[first] == '0' && d.pos > first+1 {
		d.pos = first
		return nil, d.fail("a number with a leading zero")
	}
	digits := d.pos - first
	isFloat := false
	if d.pos+1 < len(d.src) && d.src[d.pos] == '.' && isDigit(d.src[d.pos+1]) {
		isFloat = true
		d.pos++
		d.digits()
	}
	if d.pos < len(d.src) && d.src[d.pos]|0x20 == 'e' {
		at := d.pos + 1
		if at < len(d.src) && (d.src[at] == '+' || d.src[at] == '-') {
			at++
		}
		if at < len(d.src) && isDigit(d.src[at]) {
			isFloat = true
			d.pos = at
			d.digits()
		}
	}
	t := d.src[begin:d.pos]
	if isFloat {
		// what is out of range is infinite, as in Python
		f, _ := strconv.ParseFloat(t, 64)
		return f, nil
	}
	if i, err := strconv.ParseInt(t, 10, 64); err == nil {
		return i, nil
	}
	if digits > maxIntegerDigits {
		d.pos = begin
		return nil, d.fail(fmt.Sprintf("an integer of more than %d digits", maxIntegerDigits))
	}
	b, _ := new(big.Int).SetString(t, 10)
	return b, nil
}

func (d *jsonDecoder) digits() {
	for d.pos < len(d.src) && isDigit(d.src[d.pos]) {
		d.pos++
	}
}
