package vllm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// told runs frames through one call, each a data line.
func told(tb testing.TB, maxTokens int, frames ...string) *enginetest.Heard {
	tb.Helper()
	return completionsProtocol(tb).Hear(tb, enginetest.Request(maxTokens), "data: "+strings.Join(frames, "\n\ndata: ")+"\n\n")
}

const (
	one    = `{"choices":[{"index":0,"text":"a","token_ids":[5],"finish_reason":null}]}`
	last   = `{"choices":[{"index":0,"text":"a","token_ids":[6],"finish_reason":"length"}]}`
	use    = `{"choices":[],"usage":{"prompt_tokens_details":{"cached_tokens":16}}}`
	done   = `[DONE]`
	broken = `{"error":{"message":"boom","type":"InternalServerError","param":null,"code":500}}`
)

func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		frames []string
		ids    []uint32
		cached []int
		kind   engine.FailKind // NumFailKinds: none
		words  string
	}{
		"tokens, finish, usage, end":                     {[]string{one, last, use, done}, []uint32{5, 6}, []int{16}, engine.NumFailKinds, ""},
		"without usage":                                  {[]string{one, last, done}, []uint32{5, 6}, nil, engine.NumFailKinds, ""},
		"a finish is an end, however the stream ends":    {[]string{one, last}, []uint32{5, 6}, nil, engine.NumFailKinds, ""},
		"a usage without details":                        {[]string{one, last, `{"choices":[],"usage":{"prompt_tokens":1,"prompt_tokens_details":null}}`, done}, []uint32{5, 6}, nil, engine.NumFailKinds, ""},
		"a count of cached tokens that is none":          {[]string{last, `{"choices":[],"usage":{"prompt_tokens_details":{"cached_tokens":-1}}}`, done}, []uint32{6}, nil, engine.NumFailKinds, ""},
		"a count that is a fraction":                     {[]string{one, last, `{"choices":[],"usage":{"prompt_tokens":1.5,"prompt_tokens_details":{"cached_tokens":1.5}}}`, done}, []uint32{5, 6}, nil, engine.NumFailKinds, ""},
		"a count that is a text":                         {[]string{one, last, `{"choices":[],"usage":{"prompt_tokens":"a","prompt_tokens_details":{"cached_tokens":"a"}}}`, done}, []uint32{5, 6}, nil, engine.NumFailKinds, ""},
		"details that are a list":                        {[]string{one, last, `{"choices":[],"usage":{"prompt_tokens_details":[16]}}`, done}, []uint32{5, 6}, nil, engine.NumFailKinds, ""},
		"a usage that is a text":                         {[]string{one, last, `{"choices":[],"usage":"much"}`, done}, []uint32{5, 6}, nil, engine.NumFailKinds, ""},
		"what is told beside it counts":                  {[]string{last, `{"choices":[],"usage":{"prompt_tokens":"a","prompt_tokens_details":{"cached_tokens":16}}}`, done}, []uint32{6}, []int{16}, engine.NumFailKinds, ""},
		"a usage of no use ends a stream that is cut":    {[]string{one, last, `{"choices":[],"usage":[]}`}, []uint32{5, 6}, nil, engine.NumFailKinds, ""},
		"nor does one with the finish break it":          {[]string{`{"choices":[{"index":0,"token_ids":[6],"finish_reason":"stop"}],"usage":{"prompt_tokens":1.5}}`, done}, []uint32{6}, nil, engine.NumFailKinds, ""},
		"a usage before the finish tells nothing":        {[]string{use, last, done}, []uint32{6}, nil, engine.NumFailKinds, ""},
		"an error of null is none":                       {[]string{`{"error":null,"choices":[{"index":0,"token_ids":[6],"finish_reason":"stop"}]}`, done}, []uint32{6}, nil, engine.NumFailKinds, ""},
		"an error after the finish: its tokens are told": {[]string{one, last, broken, done}, []uint32{5, 6}, nil, engine.Broken, "boom"},
		"an error in the older form":                     {[]string{one, `{"object":"error","message":"boom","code":500}`}, []uint32{5}, nil, engine.Broken, "boom"},
		"an error in the older form, of the client":      {[]string{`{"object":"error","message":"bad","code":400}`}, nil, nil, engine.Client, "bad"},
		"an error without a code":                        {[]string{`{"error":{"message":"what"}}`}, nil, nil, engine.Broken, "what"},
		"an error in words":                              {[]string{`{"error":"words"}`}, nil, nil, engine.Broken, "words"},
		"tokens after the finish are none":               {[]string{last, one, done}, []uint32{6}, nil, engine.NumFailKinds, ""},
		"nor is another finish, or another choice":       {[]string{last, last, `{"choices":[{"index":1,"token_ids":[1]},{"index":2,"token_ids":[1]}]}`, use, done}, []uint32{6}, []int{16}, engine.NumFailKinds, ""},
		"a tool call after the finish":                   {[]string{last, `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]},"finish_reason":"tool_calls"}]}`, use, done}, []uint32{6}, []int{16}, engine.NumFailKinds, ""},
		"whatever follows the finish":                    {[]string{last, `{`, `7`, `{"choices":7}`, `{"type":"ping"}`, use, done}, []uint32{6}, []int{16}, engine.NumFailKinds, ""},
		"a usage with the tokens of the answer":          {[]string{`{"choices":[{"index":0,"token_ids":[5]}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, last, use, done}, []uint32{5, 6}, []int{16}, engine.NumFailKinds, ""},
		"what is no frame of an answer":                  {[]string{one, ``, `null`, `7`, `[]`, `"ping"`, `{"type":"ping"}`, last, done}, []uint32{5, 6}, nil, engine.NumFailKinds, ""},
		"log probabilities that cannot be read":          {[]string{`{"choices":[{"index":0,"token_ids":[5],"logprobs":{"content":[{"token_id":-1}]}}]}`, last, done}, []uint32{5, 6}, nil, engine.NumFailKinds, ""},
		"beside IDs that cannot be":                      {[]string{`{"choices":[{"index":0,"token_ids":[-5],"logprobs":[]}]}`, last, done}, nil, nil, engine.Broken, "token_ids"},
		"[DONE] alone":                                   {[]string{one, done}, []uint32{5}, nil, engine.Broken, "without a finish"},
		"a finish that is an error":                      {[]string{`{"choices":[{"index":0,"token_ids":[6],"finish_reason":"error"}]}`, done}, []uint32{6}, nil, engine.Broken, `"error"`},
		"a finish of no known name":                      {[]string{`{"choices":[{"index":0,"token_ids":[],"finish_reason":"tired"}]}`, done}, nil, nil, engine.Broken, "tired"},
		"more than was asked for":                        {[]string{`{"choices":[{"index":0,"token_ids":[1,2,3,4,5,6,7,8,9]}]}`}, nil, nil, engine.Broken, "at most 8"},
		"two choices":                                    {[]string{`{"choices":[{"index":0,"token_ids":[1]},{"index":1,"token_ids":[1]}]}`}, nil, nil, engine.Broken, "choice 1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := told(t, 8, c.frames...)
			require.Equal(t, c.ids, h.IDs())
			require.Equal(t, c.cached, h.Cached)
			if c.kind == engine.NumFailKinds {
				require.NoError(t, h.Err)
				return
			}
			enginetest.FailureIn(t, h.Err, c.kind)
			require.ErrorContains(t, h.Err, c.words)
		})
	}
}

func TestCachedTokensComeInOneEventWithTheFinish(t *testing.T) {
	rec := named(t, "completions/03-stream")
	var events []engine.Event
	e := engineAt(t, enginetest.Serve(t, rec.Replay))
	require.NoError(t, e.Generate(t.Context(), requestIn(rec), func(ev engine.Event) error {
		events = append(events, ev)
		return nil
	}))
	require.Len(t, events, 8)
	for _, ev := range events[:7] {
		require.Nil(t, ev.CachedTokens)
	}
	require.Len(t, events[7].Tokens, 1, "who counts tokens himself hears the usage before he is done")
	require.Equal(t, 32, *events[7].CachedTokens)
	require.NotNil(t, events[7].Finish)
}

// TestAnAnswerWithoutAFinishIsUnfinished: nothing shows that the engine failed, as a reset or an error frame does.
func TestAnAnswerWithoutAFinishIsUnfinished(t *testing.T) {
	for _, frames := range [][]string{{one}, {one, done}, {}, {done}} {
		require.True(t, enginetest.FailureIn(t, told(t, 8, frames...).Err, engine.Broken).Unfinished, "%v", frames)
	}
	for _, frames := range [][]string{{one, broken}, {`{"choices":[{"index":0,"token_ids":[6],"finish_reason":"error"}]}`, done}, {`{`}} {
		require.False(t, enginetest.FailureIn(t, told(t, 8, frames...).Err, engine.Broken).Unfinished, "%v", frames)
	}
}

// TestTokensOfAFrameKeepTheirOwnText: where a chat's log probabilities tell which part of a frame's text each of its tokens is.
// Otherwise the last one has it all: text that a parser held back or left out is none of the tokens that it came with.
func TestTokensOfAFrameKeepTheirOwnText(t *testing.T) {
	for name, c := range map[string]struct {
		content, logprobs string
		want              []string
	}{
		"each its own":           {"a猫\nb", `{"content":[{"bytes":[97]},{"bytes":[231,140,171]},{"bytes":[10,98]}]}`, []string{"a", "猫", "\nb"}},
		"one of them has none":   {"ab", `{"content":[{"bytes":[97]},{"bytes":[]},{"bytes":[98]}]}`, []string{"a", "", "b"}},
		"inside a character":     {"猫b", `{"content":[{"bytes":[231]},{"bytes":[140,171]},{"bytes":[98]}]}`, []string{"\xe7", "\x8c\xab", "b"}},
		"not told":               {"abc", `{"content":[{"bytes":null},{"bytes":null},{"bytes":null}]}`, []string{"", "", "abc"}},
		"a part is held back":    {"ab", `{"content":[{"bytes":[97]},{"bytes":[98]},{"bytes":[60]}]}`, []string{"", "", "ab"}},
		"it was held back":       {"xabc", `{"content":[{"bytes":[97]},{"bytes":[98]},{"bytes":[99]}]}`, []string{"", "", "xabc"}},
		"numbers that are bytes": {"abc", `{"content":[{"bytes":[353]},{"bytes":[98]},{"bytes":[99]}]}`, []string{"", "", "abc"}},
		"not of all":             {"abc", `{"content":[{"bytes":[97]}]}`, []string{"", "", "abc"}},
		"none":                   {"abc", `null`, []string{"", "", "abc"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := decoder{maxTokens: 8, chat: true, topLogprobs: ptr(0)}
			content, err := json.Marshal(c.content)
			require.NoError(t, err)
			ev, tell, err := d.Frame(fmt.Appendf(nil, `{"choices":[{"index":0,"delta":{"content":%s},"token_ids":[5,6,7],"logprobs":%s}]}`, content, c.logprobs))
			require.NoError(t, err)
			require.True(t, tell)
			got := make([]string, 0, len(ev.Tokens))
			for _, token := range ev.Tokens {
				got = append(got, *token.Text)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestAChatSaysHowLongItsPromptIs: nobody else knows. A prompt of IDs has the length it was sent with.
func TestAChatSaysHowLongItsPromptIs(t *testing.T) {
	frames := []string{
		`{"choices":[{"index":0,"delta":{"content":"hi"},"token_ids":[6],"finish_reason":"stop"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":31,"completion_tokens":1}}`,
	}
	for _, chat := range []bool{true, false} {
		d := decoder{maxTokens: 8, chat: chat}
		_, tell, err := d.Frame([]byte(frames[0]))
		require.NoError(t, err)
		require.False(t, tell)
		ev, tell, err := d.Frame([]byte(frames[1]))
		require.NoError(t, err)
		require.True(t, tell)
		require.NotNil(t, ev.Finish)
		if chat {
			require.Equal(t, 31, *ev.PromptTokens)
		} else {
			require.Nil(t, ev.PromptTokens)
		}
	}
}

// TestWhatAParserHeldBackIsNoToken: it may come when all tokens have come.
func TestWhatAParserHeldBackIsNoToken(t *testing.T) {
	d := decoder{maxTokens: 1, chat: true}
	_, tell, err := d.Frame([]byte(`{"choices":[{"index":0,"delta":{"content":"hi"},"token_ids":[6]}]}`))
	require.NoError(t, err)
	require.True(t, tell)
	ev, tell, err := d.Frame([]byte(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]},"token_ids":[]}]}`))
	require.NoError(t, err)
	require.True(t, tell)
	require.Equal(t, uint32(engine.NoTokenID), ev.Tokens[0].ID)
	for range namelessMore {
		_, _, err = d.Frame([]byte(`{"choices":[{"index":0,"delta":{"content":"x"}}]}`))
		require.NoError(t, err)
	}
	_, _, err = d.Frame([]byte(`{"choices":[{"index":0,"delta":{"content":"x"}}]}`))
	require.ErrorContains(t, err, "at most 1", "but not for ever")
}

func TestLogprobsOfImpossibleOrOtherTokens(t *testing.T) {
	req := enginetest.Request(8)
	req.TopLogprobs = ptr(3)
	body := enginetest.Frame(`{"choices":[{"index":0,"token_ids":[5,6,7],"logprobs":{"tokens":["token_id:5","token_id:9","x"],"token_logprobs":[null,-1,-1],`+
		`"top_logprobs":[{"token_id:6":-0.5,"token_id:5":null,"token_id:4":-0.5,"word":-0.1},null,{}]}}]}`) + completionsFinish
	h := completionsProtocol(t).Hear(t, req, body)
	require.NoError(t, h.Err)
	require.Equal(t, &engine.Logprob{Logprob: -9999, Top: []engine.RankedToken{{ID: 4, Logprob: -0.5}, {ID: 6, Logprob: -0.5}, {ID: 5, Logprob: -9999}}}, h.Tokens[0].Logprob)
	require.Nil(t, h.Tokens[1].Logprob, "of another token")
	require.Nil(t, h.Tokens[2].Logprob, "of a token named by text")
}

func FuzzStream(f *testing.F) {
	for _, rec := range enginetest.Recordings(f, recordedDir) {
		if rec.Streams() && len(rec.Body) < 1<<12 {
			f.Add(rec.Body, 64, rec.Request.Path == "/v1/chat/completions")
		}
	}
	f.Add([]byte(`data: {"error":"x"}`+"\n\n"), 1, false)
	f.Add([]byte(`data: {"choices":[{"index":0,"delta":{"content":"x","tool_calls":[{}]},"token_ids":[1,2],"finish_reason":"stop"}]}`+"\n\n"), 3, true)
	f.Fuzz(func(t *testing.T, body []byte, maxTokens int, chat bool) {
		d := &decoder{maxTokens: max(1, maxTokens), topLogprobs: ptr(2), chat: chat}
		h := enginetest.Decode(t, d, body)
		named := 0
		for _, id := range h.IDs() {
			if id != engine.NoTokenID {
				named++
			}
		}
		require.LessOrEqual(t, named, d.maxTokens)
		require.LessOrEqual(t, len(h.Tokens)-named, d.maxTokens+namelessMore)
		for _, cached := range h.Cached {
			require.GreaterOrEqual(t, cached, 0)
		}
		for _, token := range h.Tokens {
			require.Equal(t, chat, token.Text != nil)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for name, frame := range map[string]string{
		"route=completions": strings.TrimSpace(strings.TrimPrefix(completionsToken(506, 1), "data: ")),
		"route=generate":    strings.TrimSpace(strings.TrimPrefix(generateToken(506, 1), "data: ")),
	} {
		b.Run(fmt.Sprintf("%s/bytes=%d", name, len(frame)), func(b *testing.B) {
			b.ReportAllocs()
			data := []byte(frame)
			for b.Loop() {
				d := decoder{maxTokens: 8}
				if _, tell, err := d.Frame(data); err != nil || !tell {
					b.Fatal(tell, err)
				}
			}
		})
	}
}
