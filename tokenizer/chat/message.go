package chat

import (
	"fmt"

	"plimsoll/tokenizer/jinja"
)

// conversation normalises the messages of a request.
func conversation(raw []byte, format jinja.ContentFormat) (*jinja.List, error) {
	v, present, err := decode("messages", raw)
	if err != nil {
		return nil, err
	}
	if !present {
		return nil, badInput("messages", "is required")
	}
	list, ok := v.(*jinja.List)
	if !ok {
		return nil, badInput("messages", "must be an array")
	}
	if len(list.Items) == 0 {
		return nil, badInput("messages", "must hold at least one message")
	}
	out := &jinja.List{Items: make([]jinja.Value, len(list.Items))}
	for i, item := range list.Items {
		m := message{param: fmt.Sprintf("messages[%d]", i), format: format}
		if m.in, ok = item.(*jinja.Dict); !ok {
			return nil, badInput(m.param, "must be an object")
		}
		if out.Items[i], err = m.normalise(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// message is one message on its way into the form that templates know (_parse_chat_message_content of vLLM).
type message struct {
	param  string // how errors name it
	format jinja.ContentFormat
	in     *jinja.Dict
	role   string
}

// normalise returns the message with only the keys that reach a template.
func (m *message) normalise() (*jinja.Dict, error) {
	role, ok := field[string](m.in, "role")
	if !ok {
		return nil, badInput(m.param+".role", "is required and must be a string")
	}
	m.role = role
	out := jinja.NewDict(6)
	out.Set("role", role)
	content, err := m.content()
	if err != nil {
		return nil, err
	}
	out.Set("content", content)
	switch role {
	case "assistant":
		if err := m.assistant(out); err != nil {
			return nil, err
		}
	case "tool":
		if id, ok := m.in.Get("tool_call_id"); ok {
			out.Set("tool_call_id", id)
		}
	}
	for _, key := range []string{"name", "task"} {
		if v, ok := field[string](m.in, key); ok {
			out.Set(key, v)
		}
	}
	if role == "developer" {
		tools, _ := m.in.Get("tools")
		out.Set("tools", tools)
	}
	return out, nil
}

// assistant adds what only an assistant's message has.
func (m *message) assistant(out *jinja.Dict) error {
	if v, ok := m.in.Get("tool_calls"); ok && v != nil {
		calls, err := m.toolCalls(v)
		if err != nil {
			return err
		}
		if len(calls.Items) > 0 { // an empty list would lead templates astray
			out.Set("tool_calls", calls)
		}
	}
	reasoning, _ := m.in.Get("reasoning")
	if reasoning == nil {
		reasoning, _ = m.in.Get("reasoning_content") // the older name
	}
	if reasoning == nil {
		return nil
	}
	if _, ok := reasoning.(string); !ok {
		return badInput(m.param+".reasoning", "must be a string")
	}
	// templates know it by either name
	out.Set("reasoning", reasoning)
	out.Set("reasoning_content", reasoning)
	return nil
}

// field returns a value of a type; ok is false if the key is absent or of another type.
func field[T any](d *jinja.Dict, key string) (v T, ok bool) {
	x, _ := d.Get(key)
	v, ok = x.(T)
	return v, ok
}
