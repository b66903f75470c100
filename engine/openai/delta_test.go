package openai

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDeltasAddUp says what a whole answer holds of the deltas of its stream.
func TestDeltasAddUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		deltas []string
		want   string // in a stream that comes at once
		whole  string // of a message without text
	}{
		{"none", nil, `{}`, `{"role":"assistant","content":"","refusal":null}`},
		{"an empty one", []string{`{}`}, `{}`, `{"role":"assistant","content":"","refusal":null}`},
		{"null says nothing", []string{`{"reasoning":"a"}`, `{"reasoning":null}`}, `{"reasoning":"a"}`, `{"role":"assistant","content":"","refusal":null,"reasoning":"a"}`},
		{"strings are joined", []string{`{"reasoning":"a<"}`, `{"reasoning":"b","reasoning_content":"c"}`}, `{"reasoning":"a<b","reasoning_content":"c"}`, ""},
		{
			"calls go together by their index",
			[]string{
				`{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":""}}]}`,
				`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}},{"index":1,"id":"y","type":"function","function":{"name":"g"}}]}`,
				`{"tool_calls":[{"index":1,"id":"y","function":{"arguments":"{}"}},{"index":0,"function":{"arguments":"1}"}}]}`,
			},
			`{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"index":1,"id":"y","type":"function","function":{"name":"g","arguments":"{}"}}]}`,
			`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"y","type":"function","function":{"name":"g","arguments":"{}"}}]}`,
		},
		{"an index may be anything", []string{`{"l":[{"index":99999999999,"s":"a"}]}`, `{"l":[{"index":99999999999,"s":"b"}]}`}, `{"l":[{"index":99999999999,"s":"ab"}]}`, ""},
		{"a list without indexes grows", []string{`{"l":[1,{"s":"a"}]}`, `{"l":[1,{"s":"a"}]}`}, `{"l":[1,{"s":"a"},1,{"s":"a"}]}`, ""},
		{"other values are the last ones", []string{`{"n":1,"b":true,"x":"a"}`, `{"n":2.50,"b":false,"x":3}`}, `{"n":2.50,"b":false,"x":3}`, ""},
		{"objects are merged", []string{`{"audio":{"id":"a","data":"x"}}`, `{"audio":{"id":"a","data":"y"}}`}, `{"audio":{"id":"a","data":"xy"}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Delta
			for _, raw := range c.deltas {
				require.NoError(t, d.Add(json.RawMessage(raw)))
			}
			require.Equal(t, c.want == `{}`, d.Empty())
			require.JSONEq(t, c.want, "{"+string(d.AppendMembers(nil, true))+"}")
			if c.whole == "" {
				return
			}
			empty := ""
			got, err := json.Marshal(Message{ChatMessage{Role: "assistant", Content: &empty}, d})
			require.NoError(t, err)
			require.JSONEq(t, c.whole, string(got))
			require.JSONEq(t, c.want, "{"+string(d.AppendMembers(nil, true))+"}", "to write it changes nothing")
		})
	}
}

func TestADeltaThatIsNoObjectIsRefused(t *testing.T) {
	var d Delta
	require.NoError(t, d.Add(json.RawMessage(`{"a":"b"}`)))
	for _, raw := range []string{``, `1`, `[]`, `{"a":`, `"x"`} {
		require.Error(t, d.Add(json.RawMessage(raw)), raw)
		require.JSONEq(t, `{"a":"b"}`, "{"+string(d.AppendMembers(nil, true))+"}")
	}
	require.NoError(t, d.Add(json.RawMessage(`null`)))
}

func TestAMessageComesBackAsItWent(t *testing.T) {
	for _, raw := range []string{
		`{"role":"assistant","content":"a","refusal":null}`,
		`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"x"}]}`,
		`{"role":"assistant","content":"a","refusal":"no","reasoning":"r\u2028<","n":1.50}`,
	} {
		var m Message
		require.NoError(t, json.Unmarshal([]byte(raw), &m))
		got, err := json.Marshal(m)
		require.NoError(t, err)
		require.JSONEq(t, raw, string(got))
	}
	require.Error(t, json.Unmarshal([]byte(`{"content":1}`), new(Message)))
}

func TestChunksOfDeltas(t *testing.T) {
	c := NewChunks(ChunkHead{Chat: true, ID: "i", Model: "m", SystemFingerprint: "f", Created: 5})
	var d Delta
	require.NoError(t, d.Add(json.RawMessage(`{"reasoning":"hm\u2028\n"}`)))
	const head = `{"id":"i","object":"chat.completion.chunk","created":5,"model":"m","system_fingerprint":"f","choices":[{"index":1,"delta":`
	require.Equal(t, head+`{"reasoning":"hm\u2028\n"},"logprobs":null,"finish_reason":null}]}`, string(c.AppendDelta(nil, 1, "", &d, nil)))
	require.Equal(t, head+`{"content":"x","reasoning":"hm\u2028\n"},"logprobs":{"content":[]},"finish_reason":null}]}`,
		string(c.AppendDelta(nil, 1, "x", &d, []byte(`{"content":[]}`))))
}
