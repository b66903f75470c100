package openai

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\x00\x1f\x7f\"\\\n\r\t", "\u2028\u2029 €🙂", "\xff\xe2\x82", "data: [DONE]\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := AppendString([]byte("x"), s)[1:]
		require.True(t, utf8.Valid(got))
		require.False(t, strings.ContainsAny(string(got), "\n\r\u2028\u2029\x00"))
		var back, want string
		require.NoError(t, json.Unmarshal(got, &back))
		oracle, err := json.Marshal(s)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(oracle, &want))
		require.Equal(t, want, back)
	})
}

func FuzzParseObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"a":2}`, `{"a":[1, 2 ,4294967295]}`, `{"a":[null]}`, `[`, `{"a":"\ud83d\ude42"}`, `{"a":"\ud83d"}`, `{"a":"\\ud83d"}`, "{}\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := ParseObject(body)
		if err != nil {
			var at *BodyError
			require.ErrorAs(t, err, &at)
			require.GreaterOrEqual(t, at.Offset, int64(0))
			require.LessOrEqual(t, at.Offset, int64(len(body))+1)
			return
		}
		for name, raw := range o {
			ids, err := o.IDs(name)
			var oracle []*uint32
			wrong := json.Unmarshal(raw, &oracle) != nil
			for _, id := range oracle {
				wrong = wrong || id == nil
			}
			require.Equal(t, wrong, err != nil, "%s", raw)
			if err == nil {
				require.Len(t, ids, len(oracle))
				for i := range ids {
					require.Equal(t, *oracle[i], ids[i])
				}
			}
			_, _ = o.Strings(name)
			_, _ = o.Float(name)
			_, _ = o.Int(name)
		}
	})
}

func TestObjectReadsOneMemberEach(t *testing.T) {
	o, err := ParseObject([]byte(` {"b":true,"s":"x","f":1.5,"i":-3,"e":2e3,"l":["a","b"],"ids":[1,2],"nul":null,"B":false} `))
	require.NoError(t, err)
	b, err := o.Bool("b")
	require.NoError(t, err)
	require.True(t, *b)
	f, err := o.Float("f")
	require.NoError(t, err)
	require.Equal(t, 1.5, *f)
	i, err := o.Int("e")
	require.NoError(t, err)
	require.Equal(t, int64(2000), *i)
	l, err := o.Strings("l")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, l)
	for _, name := range []string{"nul", "absent"} {
		b, err := o.Bool(name)
		require.NoError(t, err)
		require.Nil(t, b)
		require.Nil(t, o.Raw(name))
	}
	for name, read := range map[string]func() error{
		"s must be a boolean, not a string":       func() error { _, err := o.Bool("s"); return err },
		"b must be a string, not a boolean":       func() error { _, err := o.String("b"); return err },
		"l must be a number, not a list":          func() error { _, err := o.Float("l"); return err },
		"f must be a whole number of 64 bits":     func() error { _, err := o.Int("f"); return err },
		"ids[0] must be a string, not a number":   func() error { _, err := o.Strings("ids"); return err },
		"i must be a list, not a number":          func() error { _, err := o.List("i"); return err },
		"l[0] must be a token ID, a whole number": func() error { _, err := o.IDs("l"); return err },
	} {
		require.ErrorContains(t, read(), name)
	}
}

func TestBytesAndStopReasonsRoundTrip(t *testing.T) {
	raw, err := Marshal(Bytes{0, 255})
	require.NoError(t, err)
	require.Equal(t, "[0,255]", string(raw))
	var b Bytes
	require.NoError(t, json.Unmarshal(raw, &b))
	require.Equal(t, Bytes{0, 255}, b)
	require.Error(t, json.Unmarshal([]byte("[256]"), &b))
	text, token := "a<b", uint32(math.MaxUint32)
	for want, s := range map[string]StopReason{"null": {}, `"a<b"`: {Text: &text}, "4294967295": {Token: &token}} {
		raw, err := Marshal(s)
		require.NoError(t, err)
		require.Equal(t, want, string(raw))
		var back StopReason
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, s, back)
	}
}

func TestChunksAreJSON(t *testing.T) {
	for _, chat := range []bool{true, false} {
		for _, usage := range []bool{true, false} {
			c := NewChunks(ChunkHead{Chat: chat, ID: "i\"d", Model: "m\n", SystemFingerprint: "f", Created: 5, Usage: usage})
			for _, chunk := range [][]byte{
				c.AppendText(nil, 3, "a\"", nil), c.AppendText(nil, 3, "", []byte("{}")),
				c.AppendFinish(nil, 3, FinishStop, StopReason{}), c.AppendUsage(nil, Usage{PromptTokens: 1}),
			} {
				var v map[string]any
				require.NoError(t, json.Unmarshal(chunk, &v), "%s", chunk)
				require.Equal(t, "i\"d", v["id"])
				require.Equal(t, "m\n", v["model"])
			}
		}
	}
	require.Empty(t, NewChunks(ChunkHead{}).AppendRole(nil, 0))
}

// TestChunkAllocatesNothing is the budget of the hot path.
func TestChunkAllocatesNothing(t *testing.T) {
	c := NewChunks(ChunkHead{Chat: true, ID: "id", Model: "m", SystemFingerprint: "f"})
	buf := make([]byte, 0, 1024)
	require.Zero(t, testing.AllocsPerRun(100, func() { buf = c.AppendText(buf[:0], 0, "a \"word\"\n", nil) }))
}

func BenchmarkAppendText(b *testing.B) {
	c := NewChunks(ChunkHead{Chat: true, ID: "chatcmpl-0123456789abcdef", Model: "org/model", SystemFingerprint: "plimsoll"})
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = c.AppendText(buf[:0], 0, " token", nil)
	}
	b.SetBytes(int64(len(buf)))
}
