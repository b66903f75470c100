package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/chat"
)

func TestCountMessages(t *testing.T) {
	for text, want := range map[string]int{
		`[]`: 0, ` [ ] `: 0, `[{}]`: 1, `[[]]`: 1, `[1]`: 1, `["a"]`: 1, `[{},{}]`: 2, `["a,b]", {"c": [1, 2, ","]}, "\"],[", 3]`: 4,
		`["\\", 2]`: 2, ` [1 , 2 ] `: 2, `{"a": [1, 2]}`: 0, `"[1,2]"`: 0, ``: 0, `null`: 0, `[1,`: 0, `["a`: 0, `["\`: 0,
	} {
		require.Equal(t, want, chat.CountMessages([]byte(text)), "%s", text)
	}
	many := "[" + strings.Repeat(`{"role":"user","content":"a, \"b\" [c]"},`, 999) + `{}]`
	require.True(t, json.Valid([]byte(many)))
	require.Equal(t, 1000, chat.CountMessages([]byte(many)))
}

func FuzzCountMessages(f *testing.F) {
	f.Add(`[{"role":"user","content":"a"}, "b", [], {}]`)
	f.Fuzz(func(t *testing.T, text string) {
		got := chat.CountMessages([]byte(text))
		var list []json.RawMessage
		if json.Unmarshal([]byte(text), &list) == nil {
			require.Equal(t, len(list), got, "%s", text)
		}
	})
}
