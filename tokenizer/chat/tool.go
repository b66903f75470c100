package chat

import (
	"fmt"

	"plimsoll/tokenizer/jinja"
)

// tools normalises the tools of a request; nil if it has none. Each one gets the order and the defaults of vLLM's own types, and what
// a client adds comes after: templates print tools as JSON, so the order of keys is part of the prompt.
func tools(raw []byte) (*jinja.List, error) {
	v, present, err := decode("tools", raw)
	if err != nil || !present {
		return nil, err
	}
	list, ok := v.(*jinja.List)
	if !ok {
		return nil, badInput("tools", "must be an array")
	}
	if len(list.Items) == 0 {
		return nil, badInput("tools", "must not be empty; leave it out instead")
	}
	out := &jinja.List{Items: make([]jinja.Value, len(list.Items))}
	for i, item := range list.Items {
		param := fmt.Sprintf("tools[%d]", i)
		tool, ok := item.(*jinja.Dict)
		if !ok {
			return nil, badInput(param, "must be an object")
		}
		if out.Items[i], err = normaliseTool(param, tool); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func normaliseTool(param string, tool *jinja.Dict) (*jinja.Dict, error) {
	if kind, ok := tool.Get("type"); ok && kind != "function" {
		return nil, badInput(param+".type", "must be \"function\"")
	}
	in, ok := field[*jinja.Dict](tool, "function")
	if !ok {
		return nil, badInput(param+".function", "is required and must be an object")
	}
	if _, ok := field[string](in, "name"); !ok {
		return nil, badInput(param+".function.name", "is required and must be a string")
	}
	if err := optional[string](in, "description", param+".function", "a string"); err != nil {
		return nil, err
	}
	if err := optional[*jinja.Dict](in, "parameters", param+".function", "an object"); err != nil {
		return nil, err
	}
	out := ordered(tool, "type", "function")
	out.Set("type", "function")
	out.Set("function", ordered(in, "name", "description", "parameters"))
	return out, nil
}

// optional refuses a key that is neither absent nor null nor of a type.
func optional[T any](d *jinja.Dict, key, param, what string) error {
	if v, _ := d.Get(key); v != nil {
		if _, ok := v.(T); !ok {
			return badInput(param+"."+key, "must be %s", what)
		}
	}
	return nil
}

// ordered returns d with some keys first, null where they are absent.
func ordered(d *jinja.Dict, first ...string) *jinja.Dict {
	out := jinja.NewDict(d.Len() + len(first))
	for _, key := range first {
		v, _ := d.Get(key)
		out.Set(key, v)
	}
	for key, v := range d.All() {
		out.Set(key, v)
	}
	return out
}

// toolCalls normalises the calls in an assistant's message: the order of vLLM's own types, and arguments as an object.
func (m *message) toolCalls(v jinja.Value) (*jinja.List, error) {
	list, ok := v.(*jinja.List)
	if !ok {
		return nil, badInput(m.param+".tool_calls", "must be an array")
	}
	out := &jinja.List{Items: make([]jinja.Value, len(list.Items))}
	for i, item := range list.Items {
		param := fmt.Sprintf("%s.tool_calls[%d]", m.param, i)
		call, ok := item.(*jinja.Dict)
		if !ok {
			return nil, badInput(param, "must be an object")
		}
		if kind, ok := call.Get("type"); ok && kind != "function" {
			return nil, badInput(param+".type", "must be \"function\"")
		}
		function, ok := field[*jinja.Dict](call, "function")
		if !ok {
			return nil, badInput(param+".function", "is required and must be an object")
		}
		normalised := present(function, "arguments", "name")
		raw, _ := function.Get("arguments")
		normalised.Set("arguments", arguments(raw))
		outCall := present(call, "id", "function", "type")
		outCall.Set("function", normalised)
		out.Items[i] = outCall
	}
	return out, nil
}

// present returns d with some keys first, those of them that are there.
func present(d *jinja.Dict, first ...string) *jinja.Dict {
	out := jinja.NewDict(d.Len() + 1)
	for _, key := range first {
		if v, ok := d.Get(key); ok {
			out.Set(key, v)
		}
	}
	for key, v := range d.All() {
		out.Set(key, v)
	}
	return out
}

// arguments returns a call's arguments as an object. They stand in the history, so what is no object becomes an empty one: to fail
// here would fail every later turn of the conversation.
func arguments(v jinja.Value) *jinja.Dict {
	switch a := v.(type) {
	case *jinja.Dict:
		return a
	case string:
		if parsed, err := jinja.FromJSON([]byte(a)); err == nil {
			if d, ok := parsed.(*jinja.Dict); ok {
				return d
			}
		}
	}
	return jinja.NewDict(0)
}
