package ingress

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/openai"
)

var update = flag.Bool("update", false, "write the goldens anew")

// nasty is content that breaks careless framing.
const nasty = "data: [DONE]\n\ndata: {\"a\"}\r\n\x00\x1f\u2028\u2029\"\\</script>€🙂\u007f"

func broken(f *fault.Fault, texts ...string) func(*stream.Request, *stream.Response) {
	return func(_ *stream.Request, resp *stream.Response) {
		for _, t := range texts {
			resp.Append(0, []stream.Entry{{ID: 'x', Text: t}}, stream.Usage{PromptTokens: 3, CompletionTokens: 1})
		}
		resp.End(f)
	}
}

// TestAnswers holds every shape of answer to a golden: status, headers, body.
func TestAnswers(t *testing.T) {
	stopString, stopToken := "END", uint32(7)
	held := spells([]stream.Entry{
		{ID: 'h', Text: "h"}, {ID: 0xe2}, {ID: 0x82}, {ID: 0xac, Text: "€"}, {ID: idThe, Text: ""}, {ID: 'E'}, {ID: idEnd},
	}, stream.Finish{Reason: stream.StopEnd, Text: " the", StopString: &stopString})
	for _, c := range []struct {
		name, method, path, body string
		script                   func(*stream.Request, *stream.Response)
	}{
		{"chat", "POST", pathChat, withMember(pathChat, ""), says("Hel", "", "lo")},
		{"chat-n2", "POST", pathChat, withMember(pathChat, `"n":2`), says("a")},
		{"chat-empty", "POST", pathChat, withMember(pathChat, ""), says()},
		{"chat-logprobs", "POST", pathChat, withMember(pathChat, `"logprobs":true,"top_logprobs":2`), held},
		{"chat-stream", "POST", pathChat, withMember(pathChat, `"stream":true`), says("Hel", "", "lo")},
		{"chat-stream-usage", "POST", pathChat, withMember(pathChat, `"stream":true,"stream_options":{"include_usage":true}`), says("x")},
		{"chat-stream-usage-so-far", "POST", pathChat, withMember(pathChat, `"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`), says("x", "y")},
		{"completion-stream-usage-so-far-alone", "POST", pathCompletions, withMember(pathCompletions, `"stream":true,"stream_options":{"continuous_usage_stats":true}`), says("x")},
		{"chat-stream-nasty", "POST", pathChat, withMember(pathChat, `"stream":true`), says(nasty)},
		{"chat-nasty", "POST", pathChat, withMember(pathChat, ""), says(nasty)},
		{"chat-length", "POST", pathChat, withMember(pathChat, ""), spells([]stream.Entry{{ID: 'x', Text: "x"}}, stream.Finish{Reason: stream.StopLength})},
		{"completion", "POST", pathCompletions, withMember(pathCompletions, ""), says("Hel", "lo")},
		{"completion-two-prompts-n2", "POST", pathCompletions, withMember(pathCompletions, `"prompt":["a","b"],"n":2`), says("a")},
		{"completion-logprobs", "POST", pathCompletions, withMember(pathCompletions, `"logprobs":1`), held},
		{
			"completion-stop-token", "POST", pathCompletions, withMember(pathCompletions, `"stream":true`),
			spells([]stream.Entry{{ID: 'x', Text: "x"}, {ID: 7}}, stream.Finish{Reason: stream.StopEnd, StopToken: &stopToken}),
		},
		{"completion-stream-usage", "POST", pathCompletions, withMember(pathCompletions, `"stream":true,"stream_options":{"include_usage":true}`), says("x")},
		{"fault-contended", "POST", pathChat, withMember(pathChat, ""), broken(&fault.Fault{Kind: fault.Contended, Message: "all is busy", RetryAfter: 2500e6})},
		{"fault-engine", "POST", pathChat, withMember(pathChat, `"stream":true`), broken(&fault.Fault{Kind: fault.EngineRefused, Status: 422, Message: "no", Param: "seed"})},
		{"fault-late", "POST", pathChat, withMember(pathChat, ""), broken(fault.New(fault.EngineFailed, "the engine broke"), "x")},
		{"models", "GET", "/v1/models", "", nil},
		{"model", "GET", "/v1/models/org/sim", "", nil},
		{"model-escaped", "GET", "/v1/models/org%2Fsim", "", nil},
		{"model-unknown", "GET", "/v1/models/org/\"x", "", nil},
		{"health", "GET", "/health", "", nil},
		{"ready", "GET", "/ready", "", nil},
		{"no-route", "GET", "/v1/chat", "", nil},
		{"no-method", "GET", pathChat, "", nil},
		{"no-method-head", "DELETE", "/v1/models", "", nil},
		{"options", "OPTIONS", pathChat, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			front := newFront(nil)
			front.played = c.script
			checkGolden(t, c.name, dump(newEdge(t, testConfig(), front).do(c.method, c.path, c.body)))
		})
	}
}

func dump(rec *httptest.ResponseRecorder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", rec.Code)
	names := make([]string, 0, len(rec.Header()))
	for name := range rec.Header() {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(rec.Header()[name], " | "))
	}
	fmt.Fprintf(&b, "\n%s", rec.Body)
	return b.String()
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "answers", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// spoken is what a client gets of a streamed answer.
type spoken struct {
	text, reason map[int]string
	tokens       map[int][]openai.TokenLogprob
	events, done int
	usage        *openai.Usage
	fault        *openai.Error
}

// hear reads a stream as a client does.
func hear(t require.TestingT, body string) spoken {
	s := spoken{text: map[int]string{}, reason: map[int]string{}, tokens: map[int][]openai.TokenLogprob{}}
	for block := range strings.SplitSeq(body, "\n\n") {
		if block == "" || strings.HasPrefix(block, ":") {
			continue
		}
		data, ok := strings.CutPrefix(block, "data: ")
		require.True(t, ok && !strings.ContainsAny(data, "\n\r"), "one data line an event: %q", block)
		if data == "[DONE]" {
			s.done++
			continue
		}
		require.Zero(t, s.done, "nothing follows the end")
		s.events++
		var c struct {
			Choices []struct {
				Index        int
				Text         string
				Delta        struct{ Content string }
				Logprobs     *openai.ChatLogprobs
				FinishReason *string `json:"finish_reason"`
			}
			Usage *openai.Usage
			Error *openai.Error
		}
		require.NoError(t, json.Unmarshal([]byte(data), &c), "%q", data)
		if c.Usage != nil {
			s.usage = c.Usage
		}
		s.fault = c.Error
		for _, ch := range c.Choices {
			require.Empty(t, s.reason[ch.Index], "nothing follows a choice's end")
			s.text[ch.Index] += ch.Text + ch.Delta.Content
			if ch.Logprobs != nil {
				s.tokens[ch.Index] = append(s.tokens[ch.Index], ch.Logprobs.Content...)
			}
			if ch.FinishReason != nil {
				s.reason[ch.Index] = *ch.FinishReason
			}
		}
	}
	return s
}

// TestStreamedEqualsWhole cuts a text into tokens anywhere and interleaves legs anyhow: what streaming clients put together
// is what others get at once.
func TestStreamedEqualsWhole(t *testing.T) {
	runes := rapid.SampledFrom([]rune(nasty + "abc xyz"))
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(rt, "n")
		pieces := make([][]string, n)
		for i := range pieces {
			pieces[i] = rapid.SliceOfN(rapid.Map(rapid.SliceOfN(runes, 0, 5), func(r []rune) string { return string(r) }), 0, 12).Draw(rt, "pieces")
		}
		script := func(_ *stream.Request, resp *stream.Response) {
			var u stream.Usage
			for step, open := 0, true; open; step++ {
				open = false
				for leg := range pieces {
					if step < len(pieces[leg]) {
						open = true
						u.CompletionTokens++
						resp.Append(leg, []stream.Entry{{ID: 'x', Text: pieces[leg][step]}}, u)
					} else if step == len(pieces[leg]) {
						open = true
						resp.Finish(leg, stream.Finish{Reason: stream.StopLength, Text: "end"}, u)
					}
				}
			}
			resp.End(nil)
		}
		e := newEdge(t, testConfig(), newFront(script))
		s := hear(rt, e.do("POST", pathChat, withMember(pathChat, fmt.Sprintf(`"stream":true,"stream_options":{"include_usage":true},"n":%d`, n))).Body.String())
		require.Equal(rt, 1, s.done)
		var whole openai.ChatCompletion
		require.NoError(rt, json.Unmarshal(e.do("POST", pathChat, withMember(pathChat, fmt.Sprintf(`"n":%d`, n))).Body.Bytes(), &whole))
		require.Len(rt, whole.Choices, n)
		for i, c := range whole.Choices {
			want := strings.Join(pieces[i], "") + "end"
			require.Equal(rt, want, *c.Message.Content)
			require.Equal(rt, want, s.text[i])
			require.Equal(rt, openai.FinishLength, c.FinishReason)
			require.Equal(rt, openai.FinishLength, s.reason[i])
		}
		require.Equal(rt, whole.Usage, s.usage)
	})
}

// TestLogprobsSpellTheText draws tokens, holds text back as a detokenizer and a stop string do, and requires one entry a
// token whose bytes are the text, streamed and whole.
func TestLogprobsSpellTheText(t *testing.T) {
	ids := rapid.SampledFrom([]uint32{'a', 'b', idThe, idEuro, idEnd, 0xe2, 0x82, 0xac, 0xf0, 0x80})
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(ids, 1, 20).Draw(rt, "ids")
		cut := rapid.IntRange(0, 3).Draw(rt, "bytes that a stop string cuts off")
		entries := make([]stream.Entry, len(list))
		given, full := 0, ""
		for i := range list {
			full, _ = bytesTokenizer{}.Decode(list[:i+1], true)
			entries[i].ID = list[i]
			safe := len(strings.TrimRight(full, "\ufffd"))
			if safe > given && rapid.Bool().Draw(rt, "given out") {
				entries[i].Text = full[given:safe]
				given = safe
			}
		}
		text := full[:max(given, len(strings.ToValidUTF8(full[:max(given, len(full)-cut)], "")))]
		script := spells(entries, stream.Finish{Text: text[given:]})
		e := newEdge(t, testConfig(), newFront(script))

		s := hear(rt, e.do("POST", pathChat, withMember(pathChat, `"stream":true,"logprobs":true,"top_logprobs":1`)).Body.String())
		requireSpelled(rt, text, len(list), s.tokens[0])
		require.Equal(rt, text, s.text[0])

		var whole openai.ChatCompletion
		require.NoError(rt, json.Unmarshal(e.do("POST", pathChat, withMember(pathChat, `"logprobs":true,"top_logprobs":1`)).Body.Bytes(), &whole))
		requireSpelled(rt, text, len(list), whole.Choices[0].Logprobs.Content)

		var c openai.Completion
		require.NoError(rt, json.Unmarshal(e.do("POST", pathCompletions, withMember(pathCompletions, `"logprobs":1`)).Body.Bytes(), &c))
		l := c.Choices[0].Logprobs
		require.Len(rt, l.Tokens, len(list))
		require.Len(rt, l.TextOffset, len(list))
		require.Len(rt, l.TopLogprobs, len(list))
		require.Len(rt, l.TokenLogprobs, len(list))
		require.True(rt, sort.IntsAreSorted(l.TextOffset))
		require.LessOrEqual(rt, l.TextOffset[len(list)-1], len([]rune(text)))
	})
}

func requireSpelled(t require.TestingT, text string, tokens int, got []openai.TokenLogprob) {
	require.Len(t, got, tokens)
	var b []byte
	for _, g := range got {
		b = append(b, g.Bytes...)
		require.NotEmpty(t, g.Token)
		require.Len(t, g.TopLogprobs, 1)
	}
	require.Equal(t, text, string(b))
}

// TestAWholeAnswerThatBeginsAnew has nothing of its first beginning in it.
func TestAWholeAnswerThatBeginsAnew(t *testing.T) {
	entry := func(text string) []stream.Entry {
		return []stream.Entry{{ID: 'x', Text: text, Logprob: &engine.Logprob{Logprob: -1}}}
	}
	e := newEdge(t, testConfig(), newFront(func(_ *stream.Request, resp *stream.Response) {
		resp.Append(0, entry("lost"), stream.Usage{PromptTokens: 3, CompletionTokens: 1})
		resp.Append(1, entry("x"), stream.Usage{PromptTokens: 3, CompletionTokens: 2})
		resp.Restart(0, stream.Usage{PromptTokens: 3, CompletionTokens: 1})
		resp.Append(0, entry("y"), stream.Usage{PromptTokens: 3, CompletionTokens: 2})
		for leg := range 2 {
			resp.Finish(leg, stream.Finish{CompletionTokens: 1}, stream.Usage{PromptTokens: 3, CompletionTokens: 2})
		}
		resp.End(nil)
	}))
	for _, path := range []string{pathChat, pathCompletions} {
		member := `"n":2,"logprobs":true`
		if path == pathCompletions {
			member = `"n":2,"logprobs":0`
		}
		rec := e.do("POST", path, withMember(path, member))
		require.Equal(t, 200, rec.Code, rec.Body)
		require.NotContains(t, rec.Body.String(), "lost")
		var answer struct {
			Choices []struct {
				Index    int
				Logprobs struct {
					Content []any
					Tokens  []any
				}
			}
			Usage openai.Usage
		}
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &answer))
		require.Equal(t, 2, answer.Usage.CompletionTokens)
		for _, c := range answer.Choices {
			require.Equal(t, 1, len(c.Logprobs.Content)+len(c.Logprobs.Tokens), "one entry a token")
		}
	}
}
