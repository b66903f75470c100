package chat

import (
	"fmt"
	"strings"

	"plimsoll/tokenizer/jinja"
)

// content normalises the content to a string or to a list of parts, whichever the template expects.
func (m *message) content() (jinja.Value, error) {
	parts, err := m.parts()
	if err != nil {
		return nil, err
	}
	if m.format == jinja.ContentString {
		texts := make([]string, 0, len(parts))
		for _, p := range parts {
			if p.text != "" {
				texts = append(texts, p.text)
			}
		}
		return strings.Join(texts, "\n"), nil
	}
	if m.role == "tool" && !anyReference(parts) { // few templates take a tool's answer in parts
		texts := make([]string, len(parts))
		for i, p := range parts {
			texts[i] = p.text
		}
		return strings.Join(texts, "\n"), nil
	}
	list := &jinja.List{Items: make([]jinja.Value, len(parts))}
	for i, p := range parts {
		list.Items[i] = p.dict()
	}
	return list, nil
}

// part is a part of a message that a template can show.
type part struct {
	text      string
	reference bool // text is the name of a deferred tool, which the template expands
}

func anyReference(parts []part) bool {
	for _, p := range parts {
		if p.reference {
			return true
		}
	}
	return false
}

// dict returns the part as a template finds it.
func (p part) dict() *jinja.Dict {
	d := jinja.NewDict(2)
	if p.reference {
		d.Set("type", "tool_reference")
		d.Set("name", p.text)
		return d
	}
	d.Set("type", "text")
	d.Set("text", p.text)
	return d
}

// parts reads the content, whatever form it has.
func (m *message) parts() ([]part, error) {
	v, _ := m.in.Get("content")
	switch c := v.(type) {
	case nil:
		return nil, nil
	case string:
		return m.withoutBilling([]part{{text: c}}), nil
	case *jinja.List:
		out := make([]part, 0, len(c.Items))
		for i, item := range c.Items {
			p, skip, err := parsePart(fmt.Sprintf("%s.content[%d]", m.param, i), item)
			if err != nil {
				return nil, err
			}
			if !skip {
				out = append(out, p)
			}
		}
		return m.withoutBilling(out), nil
	}
	return nil, badInput(m.param+".content", "must be a string or an array of parts")
}

// mediaKeys are the keys by which a part carries something else than text.
var mediaKeys = [...]string{
	"image_url", "image_pil", "image_embeds", "audio_url", "audio_embeds", "input_audio",
	"video_url", "video_embeds", "prompt_embeds", "file",
}

// parsePart reads one part; skip is set for one without content, which engines pass over.
func parsePart(param string, v jinja.Value) (p part, skip bool, err error) {
	switch x := v.(type) {
	case string:
		return part{text: x}, false, nil
	case *jinja.Dict:
		return parseDictPart(param, x)
	}
	return part{}, false, badInput(param, "must be an object or a string")
}

func parseDictPart(param string, d *jinja.Dict) (p part, skip bool, err error) {
	kind, ok := field[string](d, "type")
	if !ok {
		for _, key := range mediaKeys {
			if _, ok := d.Get(key); ok {
				return part{}, false, noMedia(param, key)
			}
		}
		return part{}, false, badInput(param+".type", "is required and must be a string")
	}
	key, ok := textKey(kind)
	if !ok {
		return part{}, false, noMedia(param, kind)
	}
	v, _ := d.Get(key)
	if v == nil && (kind == "text" || kind == "refusal") {
		return part{}, true, nil
	}
	text, ok := v.(string)
	if !ok {
		return part{}, false, badInput(param+"."+key, "must be a string")
	}
	return part{text: text, reference: kind == "tool_reference"}, false, nil
}

// textKey is the key under which a part of a kind has its text; ok is false for kinds that are no text.
func textKey(kind string) (key string, ok bool) {
	switch kind {
	case "text", "input_text", "output_text":
		return "text", true
	case "refusal", "thinking":
		return kind, true
	case "tool_reference":
		return "name", true
	}
	return "", false
}

func noMedia(param, kind string) error {
	return &BadInput{
		Param: param, Err: errMedia,
		Message: fmt.Sprintf("%s is a part of type %q: the replicas of this model take text only", param, kind),
	}
}

// billingHeader begins a line that one client puts before its system text. It differs from request to request, so that no prefix
// would ever be found again; engines drop it.
const billingHeader = "x-anthropic-billing-header"

// withoutBilling drops that line from the parts of a system message.
func (m *message) withoutBilling(parts []part) []part {
	if m.role != "system" {
		return parts
	}
	out := parts[:0]
	for _, p := range parts {
		if strings.HasPrefix(p.text, billingHeader) && !p.reference {
			_, rest, _ := strings.Cut(p.text, "\n")
			if rest == "" {
				continue
			}
			p.text = rest
		}
		out = append(out, p)
	}
	return out
}
