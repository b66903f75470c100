package chat

import (
	"strings"

	"plimsoll/tokenizer/jinja"
)

// knowsDeveloper says whether a template handles the role, as vLLM finds out: it is written there in quotes.
func knowsDeveloper(t *jinja.Template) bool {
	return strings.Contains(t.Source(), `"developer"`) || strings.Contains(t.Source(), `'developer'`)
}

// withoutDeveloper gives a template that does not know the role developer system messages instead. If that leaves several
// system messages, or one that is not the first, they become one at the start (_consolidate_system_messages of vLLM).
func withoutDeveloper(messages *jinja.List) *jinja.List {
	out, found, moved := &jinja.List{Items: make([]jinja.Value, 0, len(messages.Items))}, false, false
	var system []string
	for i, item := range messages.Items {
		m := item.(*jinja.Dict)
		role, _ := field[string](m, "role")
		if role != "developer" && role != "system" {
			out.Items = append(out.Items, m)
			continue
		}
		found = found || role == "developer"
		moved = moved || i > 0
		if text := systemText(m); text != "" {
			system = append(system, text)
		}
	}
	switch {
	case !found:
		return messages
	case !moved: // the first message alone is one of a developer: it keeps its form
		return &jinja.List{Items: append([]jinja.Value{asSystem(messages.Items[0].(*jinja.Dict))}, messages.Items[1:]...)}
	}
	merged := jinja.NewDict(2)
	merged.Set("role", "system")
	merged.Set("content", strings.Join(system, "\n\n"))
	out.Items = append([]jinja.Value{merged}, out.Items...)
	return out
}

// asSystem copies a message, with another role and without the tools that only a developer has.
func asSystem(m *jinja.Dict) *jinja.Dict {
	out := jinja.NewDict(m.Len())
	for key, v := range m.All() {
		switch key {
		case "role":
			out.Set(key, "system")
		case "tools":
		default:
			out.Set(key, v)
		}
	}
	return out
}

// systemText is a message's content as one string.
func systemText(m *jinja.Dict) string {
	content, _ := m.Get("content")
	if text, ok := content.(string); ok {
		return text
	}
	list, ok := content.(*jinja.List)
	if !ok {
		return ""
	}
	var texts []string
	for _, item := range list.Items {
		part, ok := item.(*jinja.Dict)
		if !ok {
			continue
		}
		if text, ok := field[string](part, "text"); ok {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}
