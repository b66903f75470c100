package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// Object is a request's JSON object, split at its own level. A name that comes twice has its last value; names are
// compared to the letter. The methods read one member each and return nil where it is absent or null, and a [*ParamError]
// where it has another type.
type Object map[string]json.RawMessage

// BodyError says that a body is no JSON object and where.
type BodyError struct {
	Offset  int64 // bytes up to and with the one that showed it
	Message string
}

// Error implements error.
func (e *BodyError) Error() string { return fmt.Sprintf("%s (at byte %d)", e.Message, e.Offset) }

// ParamError says that a member of the object has the wrong type.
type ParamError struct {
	Param   string // name of the member, with the place inside it where there is one: stop, prompt[3]
	Message string
}

// Error implements error.
func (e *ParamError) Error() string { return e.Param + " " + e.Message }

// ParseObject splits a body into its members. Its error is a [*BodyError]. Strings with half a surrogate pair are refused
// like broken UTF-8: both would silently become another text.
func ParseObject(body []byte) (Object, error) {
	if !utf8.Valid(body) {
		return nil, &BodyError{Offset: invalidAt(body) + 1, Message: "the body is not valid UTF-8"}
	}
	if at := loneSurrogate(body); at >= 0 {
		return nil, &BodyError{Offset: int64(at) + 1, Message: "the body holds half a surrogate pair, which is no character"}
	}
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return nil, &BodyError{Message: "the body is empty, it must be a JSON object"}
	}
	var o Object
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, bodyError(body, err)
	}
	if o == nil {
		return nil, &BodyError{Message: "the body must be a JSON object, it is null"}
	}
	return o, nil
}

func bodyError(body []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return &BodyError{Offset: syntax.Offset, Message: "the body is not valid JSON: " + syntax.Error()}
	case errors.As(err, &kind):
		return &BodyError{Offset: kind.Offset, Message: "the body must be a JSON object, it is a JSON " + kind.Value}
	default:
		return &BodyError{Offset: int64(len(body)), Message: "the body is not valid JSON: " + err.Error()}
	}
}

func invalidAt(body []byte) int64 {
	for i := 0; i < len(body); {
		r, size := utf8.DecodeRune(body[i:])
		if r == utf8.RuneError && size == 1 {
			return int64(i)
		}
		i += size
	}
	return int64(len(body))
}

// loneSurrogate returns where a \u escape names half of a surrogate pair without its other half, -1 if none does.
func loneSurrogate(body []byte) int {
	for i := 0; ; {
		next := bytes.IndexByte(body[i:], '\\')
		if next < 0 || i+next+1 >= len(body) {
			return -1
		}
		i += next
		unit, ok := escapedUnit(body[i:])
		switch {
		case !ok:
			i += 2 // an escape of one letter, the escaped backslash among them
		case unit >= 0xd800 && unit < 0xdc00:
			if low, ok := escapedUnit(body[min(i+6, len(body)):]); !ok || low < 0xdc00 || low > 0xdfff {
				return i
			}
			i += 12
		case unit >= 0xdc00 && unit <= 0xdfff:
			return i
		default:
			i += 6
		}
		if i >= len(body) {
			return -1
		}
	}
}

func escapedUnit(b []byte) (uint64, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	u, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return u, err == nil
}

// Raw returns a member as it stands, nil if it is absent or null.
func (o Object) Raw(name string) json.RawMessage {
	raw := o[name]
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// Kind names the JSON type of a raw value, as messages to clients say it.
func Kind(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

func wrong(param, want string, raw json.RawMessage) *ParamError {
	return &ParamError{Param: param, Message: "must be " + want + ", not " + Kind(raw)}
}

// Bool reads true or false.
func (o Object) Bool(name string) (*bool, error) {
	raw := o.Raw(name)
	if raw == nil {
		return nil, nil
	}
	var v bool
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, wrong(name, "a boolean", raw)
	}
	return &v, nil
}

// String reads a string.
func (o Object) String(name string) (*string, error) {
	raw := o.Raw(name)
	if raw == nil {
		return nil, nil
	}
	var v string
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, wrong(name, "a string", raw)
	}
	return &v, nil
}

// Float reads a finite number.
func (o Object) Float(name string) (*float64, error) {
	raw := o.Raw(name)
	if raw == nil {
		return nil, nil
	}
	v, err := number(name, raw)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

func number(param string, raw json.RawMessage) (float64, error) {
	if Kind(raw) != "a number" {
		return 0, wrong(param, "a number", raw)
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0, &ParamError{Param: param, Message: "is too large a number"}
	}
	return v, nil
}

// Int reads a whole number of 64 bits; 16.0 and 1.6e1 are whole numbers too.
func (o Object) Int(name string) (*int64, error) {
	raw := o.Raw(name)
	if raw == nil {
		return nil, nil
	}
	if Kind(raw) != "a number" {
		return nil, wrong(name, "a whole number", raw)
	}
	if v, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return &v, nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err == nil && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
		v := int64(f)
		return &v, nil
	}
	return nil, &ParamError{Param: name, Message: "must be a whole number of 64 bits"}
}

// List splits a list into its members.
func (o Object) List(name string) ([]json.RawMessage, error) {
	raw := o.Raw(name)
	if raw == nil {
		return nil, nil
	}
	if raw[0] != '[' {
		return nil, wrong(name, "a list", raw)
	}
	list := []json.RawMessage{}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, &ParamError{Param: name, Message: "must be a list"}
	}
	return list, nil
}

// Strings reads a list of strings.
func (o Object) Strings(name string) ([]string, error) {
	list, err := o.List(name)
	if list == nil {
		return nil, err
	}
	out := make([]string, len(list))
	for i, raw := range list {
		if raw[0] != '"' || json.Unmarshal(raw, &out[i]) != nil {
			return nil, wrong(fmt.Sprintf("%s[%d]", name, i), "a string", raw)
		}
	}
	return out, nil
}

// IDs reads a list of token IDs (whole numbers of 32 bits). It takes the list apart itself: prompts of a million IDs come
// this way.
func (o Object) IDs(name string) ([]uint32, error) {
	raw := o.Raw(name)
	if raw == nil {
		return nil, nil
	}
	return ParseIDs(name, raw)
}

// ParseIDs is [Object.IDs] for a value that stands elsewhere; param is its name for the error.
func ParseIDs(param string, raw json.RawMessage) ([]uint32, error) {
	if raw[0] != '[' {
		return nil, wrong(param, "a list of token IDs", raw)
	}
	ids := make([]uint32, 0, bytes.Count(raw, []byte{','})+1)
	for i := 1; i < len(raw); i++ {
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r', ',', ']':
			continue
		default:
			id, size := leadingID(raw[i:])
			if size == 0 {
				return nil, &ParamError{
					Param:   fmt.Sprintf("%s[%d]", param, len(ids)),
					Message: "must be a token ID, a whole number from 0 to 4294967295",
				}
			}
			ids = append(ids, id)
			i += size - 1
		}
	}
	return ids, nil
}

// leadingID reads the digits that raw begins with; size 0 says that they are no ID.
func leadingID(raw []byte) (id uint32, size int) {
	var v uint64
	for size < len(raw) && raw[size] >= '0' && raw[size] <= '9' {
		v = v*10 + uint64(raw[size]-'0')
		size++
		if v > math.MaxUint32 {
			return 0, 0
		}
	}
	if size == len(raw) {
		return 0, 0
	}
	switch raw[size] {
	case ' ', '\t', '\n', '\r', ',', ']':
		return uint32(v), size
	default:
		return 0, 0
	}
}
