package ingress

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"plimsoll/actors/fault"
	"plimsoll/engine/openai"
)

// params reads a request's parameters. The first complaint stays and everything after it reads as absent, so that callers
// look at it once, at the end. Absent and null are the same.
type params struct {
	o     openai.Object
	body  json.RawMessage // that o was read from
	edits map[string]json.RawMessage
	fault *fault.Fault
}

// edit notes how a member has to read for an engine that is sent the body as it came; nil: it is left out.
func (p *params) edit(name string, value json.RawMessage) {
	if p.edits == nil {
		p.edits = map[string]json.RawMessage{}
	}
	p.edits[name] = value
}

// edited is the body with the noted edits.
func (p *params) edited() json.RawMessage {
	if len(p.edits) == 0 {
		return p.body
	}
	o := maps.Clone(p.o)
	for name, value := range p.edits {
		if o[name] = value; value == nil {
			delete(o, name)
		}
	}
	body, err := json.Marshal(o)
	if err != nil {
		panic(err) // all members were read from JSON
	}
	return body
}

// complain notes what is wrong with a parameter; the first one counts.
func (p *params) complain(param, format string, args ...any) {
	if p.fault == nil {
		p.fault = fault.Invalid(param, param+" "+format, args...)
	}
}

// noted notes err and says whether reading may go on.
func (p *params) noted(err error) bool {
	var wrong *openai.ParamError
	if errors.As(err, &wrong) && p.fault == nil {
		p.fault = fault.Invalid(wrong.Param, "%s", wrong.Error())
	}
	return p.fault == nil
}

func (p *params) raw(name string) json.RawMessage { return p.o.Raw(name) }

func (p *params) has(name string) bool { return p.o.Raw(name) != nil }

// flag reads a boolean with a default.
func (p *params) flag(name string, absent bool) bool {
	v, err := p.o.Bool(name)
	if !p.noted(err) || v == nil {
		return absent
	}
	return *v
}

// text reads a string of at most that many bytes.
func (p *params) text(name string, most int) *string {
	v, err := p.o.String(name)
	if !p.noted(err) || v == nil {
		return nil
	}
	if len(*v) > most {
		p.complain(name, "must be at most %d bytes long", most)
		return nil
	}
	return v
}

// interval is a range of numbers; its upper end belongs to it, its lower end unless open is set.
type interval struct {
	low, high float64
	open      bool
}

// float reads a number within the interval.
func (p *params) float(name string, in interval) *float64 {
	v, err := p.o.Float(name)
	if !p.noted(err) || v == nil {
		return nil
	}
	if *v < in.low || *v > in.high || in.open && *v == in.low {
		above := "at least"
		if in.open {
			above = "above"
		}
		p.complain(name, "must be %s %v and at most %v, not %v", above, in.low, in.high, *v)
		return nil
	}
	return v
}

// whole reads a whole number from low to high.
func (p *params) whole(name string, low, high int) *int {
	v, err := p.o.Int(name)
	if !p.noted(err) || v == nil {
		return nil
	}
	if *v < int64(low) || *v > int64(high) {
		if high == math.MaxInt32 && *v < int64(low) {
			p.complain(name, "must be at least %d, not %d", low, *v)
		} else {
			p.complain(name, "must be from %d to %d, not %d", low, high, *v)
		}
		return nil
	}
	n := int(*v)
	return &n
}

// ids reads a list of token IDs of the vocabulary, at most that many.
func (p *params) ids(name string, most, vocabulary int) []uint32 {
	ids, err := p.o.IDs(name)
	if !p.noted(err) {
		return nil
	}
	if len(ids) > most {
		p.complain(name, "must hold at most %d token IDs, not %d", most, len(ids))
		return nil
	}
	p.inVocabulary(name, ids, vocabulary)
	return ids
}

func (p *params) inVocabulary(name string, ids []uint32, vocabulary int) {
	for _, id := range ids {
		if int64(id) >= int64(vocabulary) {
			p.complain(name, "holds the token ID %d, the vocabulary ends at %d", id, vocabulary-1)
			return
		}
	}
}

// object reads a nested object, whose parameters are then named outer.inner.
func (p *params) object(name string) openai.Object {
	raw := p.raw(name)
	if raw == nil || p.fault != nil {
		return nil
	}
	o := openai.Object{}
	if raw[0] != '{' || json.Unmarshal(raw, &o) != nil {
		p.complain(name, "must be an object, not %s", openai.Kind(raw))
		return nil
	}
	return o
}

// list reads a raw list for others to look into: nil if absent. An empty one is a complaint.
func (p *params) list(name string) json.RawMessage {
	raw := p.raw(name)
	if raw == nil {
		return nil
	}
	if raw[0] != '[' {
		p.complain(name, "must be a list, not %s", openai.Kind(raw))
		return nil
	}
	if len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0 {
		p.complain(name, "must not be empty")
		return nil
	}
	return raw
}

// is says whether a raw value is one of those JSON texts, blanks aside.
func is(raw json.RawMessage, texts ...string) bool {
	var b strings.Builder
	inString := false
	for i, c := range raw {
		if c == '"' && (i == 0 || raw[i-1] != '\\') {
			inString = !inString
		}
		if inString || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			b.WriteByte(c)
		}
		if b.Len() > 64 {
			return false
		}
	}
	return slices.Contains(texts, b.String())
}
