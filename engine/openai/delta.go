package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Delta is what an answer says beside its text (tool calls, reasoning, whatever else an engine has), put together from the
// deltas of its stream. The zero value says nothing. It belongs to one goroutine.
//
// Deltas add up as OpenAI's clients add them: strings are joined, objects are merged, members of a list go together by
// their index, or are appended where they have none; index, type, id, role and everything else is as it was said last.
type Delta struct {
	members map[string]any
}

// Empty says whether nothing was said.
func (d *Delta) Empty() bool { return len(d.members) == 0 }

// Has says whether there is a member of that name.
func (d *Delta) Has(name string) bool { return d.members[name] != nil }

// Add puts in a delta, a JSON object. An error leaves d as it was.
func (d *Delta) Add(raw json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // a number goes out as it came in
	var more map[string]any
	if err := dec.Decode(&more); err != nil {
		return fmt.Errorf("a delta: %w", err)
	}
	if len(more) > 0 {
		d.members = mergeObject(d.members, more)
	}
	return nil
}

func mergeObject(into, more map[string]any) map[string]any {
	if into == nil {
		into = make(map[string]any, len(more))
	}
	for name, value := range more {
		if value == nil {
			continue
		}
		switch name {
		case "index", "type", "id", "role":
			into[name] = value
		default:
			into[name] = merge(into[name], value)
		}
	}
	return into
}

func merge(old, more any) any {
	switch more := more.(type) {
	case string:
		if old, ok := old.(string); ok {
			return old + more
		}
	case map[string]any:
		old, _ := old.(map[string]any)
		return mergeObject(old, more)
	case []any:
		old, _ := old.([]any)
		return mergeList(old, more)
	}
	return more
}

// mergeList puts each member of more to the one with the same index.
func mergeList(into, more []any) []any {
	for _, m := range more {
		index, ok := indexOf(m)
		at := -1
		for i := range into {
			if n, has := indexOf(into[i]); ok && has && n == index {
				at = i
			}
		}
		if at < 0 {
			into = append(into, merge(nil, m))
		} else {
			into[at] = merge(into[at], m)
		}
	}
	return into
}

func indexOf(member any) (string, bool) {
	object, _ := member.(map[string]any)
	n, ok := object["index"].(json.Number)
	return n.String(), ok
}

// AppendMembers appends the members as they stand in a chunk's delta, each after a comma unless it is the first.
func (d *Delta) AppendMembers(dst []byte, first bool) []byte {
	if d.Empty() {
		return dst
	}
	body, err := Marshal(d.members)
	if err != nil {
		panic(err) // what was decoded from JSON can be encoded
	}
	if !first {
		dst = append(dst, ',')
	}
	return append(dst, body[1:len(body)-1]...)
}

// Message is a whole answer's message with what it says beside text. Calls of tools have no index there, and a message
// that has calls and no text has the content null.
type Message struct {
	ChatMessage

	More Delta
}

// MarshalJSON implements json.Marshaler.
func (m Message) MarshalJSON() ([]byte, error) {
	plain := m.ChatMessage
	if m.More.Has("tool_calls") && plain.Content != nil && *plain.Content == "" {
		plain.Content = nil
	}
	body, err := Marshal(plain)
	if err != nil || m.More.Empty() {
		return body, err
	}
	whole := Delta{members: make(map[string]any, len(m.More.members))}
	for name, value := range m.More.members {
		whole.members[name] = withoutIndex(value)
	}
	return append(whole.AppendMembers(body[:len(body)-1], false), '}'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Message) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, &m.ChatMessage); err != nil {
		return err
	}
	m.More = Delta{}
	if err := m.More.Add(raw); err != nil {
		return err
	}
	for _, name := range []string{"role", "content", "refusal"} {
		delete(m.More.members, name)
	}
	return nil
}

// withoutIndex returns a list without its members' index, anything else as it is.
func withoutIndex(value any) any {
	list, ok := value.([]any)
	if !ok {
		return value
	}
	out := make([]any, len(list))
	for i, member := range list {
		out[i] = member
		object, ok := member.(map[string]any)
		if !ok {
			continue
		}
		plain := make(map[string]any, len(object))
		for name, v := range object {
			if name != "index" {
				plain[name] = v
			}
		}
		out[i] = plain
	}
	return out
}
