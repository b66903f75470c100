package chat

import (
	"strings"
	"time"
	"unicode"

	"plimsoll/tokenizer/jinja"
)

// continueTag marks where the final message ends in the rendered text. It is the one that transformers uses: a template that
// looks at the text would see the same there. The blank tells whether the template trims.
const continueTag = "CONTINUE_FINAL_MESSAGE_TAG "

// renderContinued renders a conversation whose last message the model is to go on with, and cuts the text where that message ends.
func renderContinued(tmpl template, messages *jinja.List, vars map[string]jinja.Value, now func() time.Time) (string, error) {
	final := tagFinalText(messages)
	if final == nil {
		return "", badInput("continue_final_message", "is set, but the final message has no text to continue")
	}
	out, err := tmpl.Render(vars, now)
	if err != nil {
		return "", renderFailure(err)
	}
	at := strings.LastIndex(out, strings.TrimSpace(continueTag))
	if at < 0 || !strings.Contains(out, trimSpace(*final)) {
		return "", badInput("continue_final_message",
			"is set, but the final message does not appear in the chat after applying the chat template, which may have deleted portions of it")
	}
	if strings.HasPrefix(out[at:], continueTag) {
		return out[:at], nil
	}
	return strings.TrimRightFunc(out[:at], isSpace), nil // the template trims, so the message's own end is cut too
}

// tagFinalText puts the tag behind the last text of the last message and returns that text, nil if there is none.
func tagFinalText(messages *jinja.List) *string {
	last, ok := messages.Items[len(messages.Items)-1].(*jinja.Dict)
	if !ok {
		return nil
	}
	content, _ := last.Get("content")
	switch c := content.(type) {
	case string:
		last.Set("content", c+continueTag)
		return &c
	case *jinja.List:
		for i := len(c.Items) - 1; i >= 0; i-- {
			d, ok := c.Items[i].(*jinja.Dict)
			if !ok {
				continue
			}
			if text, ok := field[string](d, "text"); ok {
				d.Set("text", text+continueTag)
				return &text
			}
		}
	}
	return nil
}

// isSpace is Python's str.isspace.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// trimSpace is Python's str.strip.
func trimSpace(s string) string { return strings.TrimFunc(s, isSpace) }
