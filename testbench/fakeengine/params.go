package fakeengine

import (
	"encoding/json"
	"errors"
	"math"
	"strings"

	"plimsoll/engine/openai"
)

// params reads a request's members. The first that is wrong is remembered, and what is read after it is empty.
type params struct {
	o     openai.Object
	place string // of the object in the body: body, body.sampling_params
	fault *fault
}

// complain remembers a fault, unless there is one.
func (p *params) complain(f *fault) {
	if p.fault == nil {
		p.fault = f
	}
}

// noted remembers the error of reading a member. It reports whether there was none.
func (p *params) noted(err error) bool {
	var wrong *openai.ParamError
	switch {
	case err == nil:
		return p.fault == nil
	case errors.As(err, &wrong):
		p.complain(schemaFault(p.place+"."+dotted(wrong.Param), "Input "+wrong.Message))
	default:
		p.complain(schemaFault(p.place, err.Error()))
	}
	return false
}

// dotted turns the place stop[3] into stop.3.
func dotted(param string) string {
	return strings.ReplaceAll(strings.ReplaceAll(param, "[", "."), "]", "")
}

func (p *params) has(name string) bool { return p.o.Raw(name) != nil }

func (p *params) flag(name string, otherwise bool) bool {
	v, err := p.o.Bool(name)
	if !p.noted(err) || v == nil {
		return otherwise
	}
	return *v
}

func (p *params) text(name string) *string {
	v, err := p.o.String(name)
	if !p.noted(err) {
		return nil
	}
	return v
}

func (p *params) float(name string) *float64 {
	v, err := p.o.Float(name)
	if !p.noted(err) {
		return nil
	}
	return v
}

func (p *params) number(name string) *int {
	v, err := p.o.Int(name)
	if !p.noted(err) || v == nil {
		return nil
	}
	if *v > math.MaxInt32 || *v < math.MinInt32 {
		p.complain(schemaFault(p.place+"."+name, "Input should be a whole number of 32 bits"))
		return nil
	}
	n := int(*v)
	return &n
}

func (p *params) ids(name string) []uint32 {
	v, err := p.o.IDs(name)
	if !p.noted(err) {
		return nil
	}
	return v
}

// object reads a member that is an object; nil if it is absent.
func (p *params) object(name string) *params {
	raw := p.o.Raw(name)
	if raw == nil || p.fault != nil {
		return nil
	}
	var o openai.Object
	if err := json.Unmarshal(raw, &o); err != nil {
		p.complain(schemaFault(p.place+"."+name, "Input should be a valid dictionary"))
		return nil
	}
	return &params{o: o, place: p.place + "." + name}
}

// strings reads a string or a list of them.
func (p *params) strings(name string) []string {
	raw := p.o.Raw(name)
	if raw == nil || p.fault != nil {
		return nil
	}
	if raw[0] == '"' {
		if v := p.text(name); v != nil {
			return []string{*v}
		}
		return nil
	}
	v, err := p.o.Strings(name)
	if !p.noted(err) {
		return nil
	}
	return v
}
