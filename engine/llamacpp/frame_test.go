package llamacpp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// told runs frames through one decoder, each a data line.
func told(tb testing.TB, maxTokens int, frames ...string) *enginetest.Heard {
	tb.Helper()
	return protocol(tb).Hear(tb, enginetest.Request(maxTokens), "data: "+strings.Join(frames, "\n\ndata: ")+"\n\n")
}

func TestFrames(t *testing.T) {
	const last = `{"tokens":[],"stop":true,"stop_type":"limit"}`
	text := func(s string) *string { return &s }
	cases := []struct {
		name   string
		frames []string
		want   []engine.Token
		kind   *engine.FailKind
	}{
		{"a token", []string{`{"content":" x","tokens":[5],"stop":false,"tokens_predicted":1}`, last}, []engine.Token{{ID: 5}}, nil},
		{
			"progress frames carry a token that is none",
			[]string{`{"content":"","tokens":[0],"stop":false,"tokens_predicted":0,"prompt_progress":{"total":9,"cache":3}}`, last},
			nil, nil,
		},
		{"nor is one before the first", []string{`{"content":"","tokens":[0],"stop":false,"tokens_predicted":0}`, last}, nil, nil},
		{"null is nothing", []string{"null", last}, nil, nil},
		{"nor is what is no frame of an answer", []string{"", "7", "[]", `"ping"`, `{"type":"ping"}`, `{"usage":{"prompt_tokens":3}}`, last}, nil, nil},
		{"nor what follows the end", []string{last, `{"content":"a","tokens":[5]}`, "{"}, nil, nil},
		{
			"IDs lost inside a character",
			[]string{`{"content":"y","tokens":[5],"stop":false,"tokens_predicted":1}`, `{"content":"猫","tokens":[7],"stop":false,"tokens_predicted":4}`, last},
			[]engine.Token{{ID: 5}, {ID: 7, LostIDs: 2, Text: text("猫")}},
			nil,
		},
		{
			"IDs lost before the first token",
			[]string{`{"content":"猫","tokens":[7],"stop":false,"tokens_predicted":3}`, last},
			[]engine.Token{{ID: 7, LostIDs: 2, Text: text("猫")}},
			nil,
		},
		{
			"several tokens a frame",
			[]string{`{"content":"ab","tokens":[5,6],"stop":false,"tokens_predicted":2}`, last},
			[]engine.Token{{ID: 5}, {ID: 6}},
			nil,
		},
		{
			"no count: no hole is seen",
			[]string{`{"content":"a","tokens":[5],"stop":false}`, `{"content":"b","tokens":[6],"stop":false}`, last},
			[]engine.Token{{ID: 5}, {ID: 6}},
			nil,
		},
		{
			"an empty frame with its token, as for special tokens",
			[]string{`{"content":"","tokens":[106],"stop":false,"tokens_predicted":1}`, last},
			[]engine.Token{{ID: 106}},
			nil,
		},
		{
			"a frame with neither text nor token",
			[]string{`{"content":"","tokens":[],"stop":false,"tokens_predicted":1}`, `{"content":"猫","tokens":[7],"stop":false,"tokens_predicted":2}`, last},
			[]engine.Token{{ID: 7, LostIDs: 1, Text: text("猫")}},
			nil,
		},
		{
			"tokens with the last frame",
			[]string{`{"content":"a","tokens":[5],"stop":true,"stop_type":"eos","tokens_predicted":1}`},
			[]engine.Token{{ID: 5}},
			nil,
		},
		{
			"a last frame that repeats the answer",
			[]string{
				`{"content":"a","tokens":[5],"stop":false,"tokens_predicted":1}`, `{"content":"b","tokens":[6],"stop":false,"tokens_predicted":2}`,
				`{"content":"ab","tokens":[5,6],"stop":true,"stop_type":"limit","tokens_predicted":2}`,
			},
			[]engine.Token{{ID: 5}, {ID: 6}},
			nil,
		},
		{
			"figures of no use do not break an answer",
			[]string{
				`{"content":"","tokens":[0],"stop":false,"tokens_predicted":0,"prompt_progress":{"total":9,"cache":"3"}}`,
				`{"content":"a","tokens":[5],"stop":true,"stop_type":"eos","tokens_predicted":1,"timings":{"cache_n":1.5}}`,
			},
			[]engine.Token{{ID: 5}},
			nil,
		},
		{"nor do those of another shape", []string{`{"tokens":[],"stop":true,"stop_type":"eos","timings":"quick"}`}, nil, nil},
		{"an error of null is none", []string{`{"error":null,"tokens":[],"stop":true,"stop_type":"eos"}`}, nil, nil},
		{"text without a token", []string{`{"content":"a","tokens":[],"stop":false,"tokens_predicted":1}`, last}, nil, ptr(engine.Broken)},
		{"a count that goes back", []string{`{"content":"a","tokens":[5],"stop":false,"tokens_predicted":3}`, `{"content":"a","tokens":[5],"stop":false,"tokens_predicted":2}`}, []engine.Token{{ID: 5, LostIDs: 2, Text: text("a")}}, ptr(engine.Broken)},
		{"a token twice", []string{`{"content":"a","tokens":[5],"stop":false,"tokens_predicted":1}`, `{"content":"a","tokens":[5],"stop":false,"tokens_predicted":1}`}, []engine.Token{{ID: 5}}, ptr(engine.Broken)},
		{"more than was asked for", []string{`{"content":"a","tokens":[5],"stop":false,"tokens_predicted":9}`}, nil, ptr(engine.Broken)},
		{"an index we did not ask for", []string{`{"index":1,"content":"a","tokens":[5],"stop":false,"tokens_predicted":1}`}, nil, ptr(engine.Broken)},
		{"no stop", []string{`{"content":"a","tokens":[5]}`}, nil, ptr(engine.Broken)},
		{"a stop without a reason", []string{`{"tokens":[],"stop":true}`}, nil, ptr(engine.Broken)},
		{"a stop for no reason", []string{`{"tokens":[],"stop":true,"stop_type":"none"}`}, nil, ptr(engine.Broken)},
		{"no stop at all", []string{`{"content":"a","tokens":[5],"stop":false,"tokens_predicted":1}`}, []engine.Token{{ID: 5}}, ptr(engine.Broken)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := told(t, 8, c.frames...)
			require.Equal(t, c.want, h.Tokens)
			h.Check(t)
			if c.kind != nil {
				enginetest.FailureIn(t, h.Err, *c.kind)
				return
			}
			require.NoError(t, h.Err)
		})
	}
}

// TestAnAnswerWithoutAStopIsUnfinished: nothing shows that the engine failed.
func TestAnAnswerWithoutAStopIsUnfinished(t *testing.T) {
	const one = `{"content":"a","tokens":[5],"stop":false,"tokens_predicted":1}`
	require.True(t, enginetest.FailureIn(t, told(t, 8, one).Err, engine.Broken).Unfinished)
	require.True(t, enginetest.FailureIn(t, told(t, 8, one, "[DONE]").Err, engine.Broken).Unfinished)
	require.False(t, enginetest.FailureIn(t, told(t, 8, one, `{"error":"boom"}`).Err, engine.Broken).Unfinished)
}

func TestErrorFrames(t *testing.T) {
	const token = `{"content":"a","tokens":[5],"stop":false,"tokens_predicted":1}`
	for _, c := range []struct {
		frame         string
		first, inside engine.FailKind
		status        int
		words         string
	}{
		{`{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`, engine.Broken, engine.Broken, 500, "Context size has been exceeded."},
		{`{"error":{"code":400,"message":"bad grammar"}}`, engine.Client, engine.Client, 400, "bad grammar"},
		{`{"error":{"code":503,"message":"busy"}}`, engine.Shed, engine.Broken, 503, "busy"},
		{`{"error":{"code":401,"message":"no"}}`, engine.Operator, engine.Operator, 401, "no"},
		{`{"error":{"code":"400","message":"as text"}}`, engine.Client, engine.Client, 400, "as text"},
		{`{"error":{"message":"no code"}}`, engine.Broken, engine.Broken, 0, "no code"},
		{`{"error":"plain words"}`, engine.Broken, engine.Broken, 0, "plain words"},
		{`{"error":{}}`, engine.Broken, engine.Broken, 0, ""},
		{`{"error":[1]}`, engine.Broken, engine.Broken, 0, ""},
		{`{"error":{"code":500,"message":7}}`, engine.Broken, engine.Broken, 500, ""},
	} {
		for kind, h := range map[*engine.FailKind]*enginetest.Heard{&c.first: told(t, 8, c.frame), &c.inside: told(t, 8, token, c.frame)} {
			h.Check(t)
			failure := enginetest.FailureIn(t, h.Err, *kind)
			require.True(t, failure.FromEngine)
			require.Equal(t, c.status, failure.Status)
			require.Contains(t, h.Err.Error(), c.words)
		}
	}
}

func TestCachedTokensComeWithTheFirstTokenAndWithTheFinish(t *testing.T) {
	rec := named(t, "completion/progress-stream-cached")
	var events []engine.Event
	e := open(t, configAt(enginetest.Serve(t, rec.Replay)), (&net.Dialer{}).DialContext)
	require.NoError(t, e.Generate(t.Context(), requestIn(rec), func(ev engine.Event) error {
		events = append(events, ev)
		return nil
	}))
	require.NoError(t, e.Close())
	require.Len(t, events, 3, "progress frames are no events")
	require.Equal(t, 701, *events[0].CachedTokens)
	require.Nil(t, events[1].CachedTokens)
	require.Equal(t, 701, *events[2].CachedTokens)
}

func TestLogprobs(t *testing.T) {
	rec := named(t, "completion/stream-nprobs")
	for _, top := range []int{0, 1, 2, 20} {
		req := requestIn(rec)
		req.TopLogprobs = &top
		h := protocol(t).Hear(t, req, string(rec.Body))
		require.NoError(t, h.Err)
		require.InDelta(t, -1.647446870803833, h.Tokens[0].Logprob.Logprob, 0)
		require.Len(t, h.Tokens[0].Logprob.Top, min(top, 2))
		if top >= 2 {
			require.Equal(t, []engine.RankedToken{{ID: 506, Logprob: -1.647446870803833}, {ID: 496, Logprob: -2.0710556507110596}}, h.Tokens[0].Logprob.Top)
		}
	}
	req := requestIn(rec)
	req.TopLogprobs = nil
	for _, token := range protocol(t).Hear(t, req, string(rec.Body)).Tokens {
		require.Nil(t, token.Logprob, "not asked for")
	}
}

func TestLogprobsOfImpossibleTokensAreFinite(t *testing.T) {
	req := enginetest.Request(8)
	req.TopLogprobs = ptr(3)
	body := `data: {"content":"a","tokens":[5],"stop":false,"tokens_predicted":1,"completion_probabilities":[{"id":5,"logprob":null,
"top_logprobs":[{"id":6,"logprob":-0.5},{"id":5,"logprob":-3.4e38}]}]}` + "\n\n" + lastFrame
	h := protocol(t).Hear(t, req, strings.ReplaceAll(body, ",\n", ","))
	require.NoError(t, h.Err)
	require.Equal(t, &engine.Logprob{Logprob: -9999, Top: []engine.RankedToken{{ID: 6, Logprob: -0.5}, {ID: 5, Logprob: -9999}}}, h.Tokens[0].Logprob)
}

func TestLogprobsOfOtherTokensAreNotTaken(t *testing.T) {
	req := enginetest.Request(8)
	req.TopLogprobs = ptr(1)
	body := `data: {"content":"猫","tokens":[7],"stop":false,"tokens_predicted":3,"completion_probabilities":[{"id":5,"logprob":-1},{"id":6,"logprob":-2},{"id":7,"logprob":-3}]}` +
		"\n\n" + `data: {"content":"a","tokens":[8],"stop":false,"tokens_predicted":4,"completion_probabilities":[{"id":9,"logprob":-1}]}` + "\n\n" + lastFrame
	h := protocol(t).Hear(t, req, body)
	require.NoError(t, h.Err)
	require.InDelta(t, -3.0, h.Tokens[0].Logprob.Logprob, 0)
	require.Nil(t, h.Tokens[1].Logprob)
}

func FuzzStream(f *testing.F) {
	for _, rec := range enginetest.Recordings(f, recordedDir) {
		if rec.Streams() && len(rec.Body) < 1<<13 {
			f.Add(rec.Body, 64)
		}
	}
	f.Add([]byte(`data: {"error":"x"}`+"\n\n"), 1)
	f.Add([]byte(`data: {"content":"a","tokens":[0,1,2],"stop":true,"stop_type":"word","tokens_predicted":2,"timings":{"cache_n":-1}}`+"\n\n"), 3)
	f.Fuzz(func(t *testing.T, body []byte, maxTokens int) {
		h := enginetest.Decode(t, &decoder{maxTokens: max(1, maxTokens)}, body)
		total := len(h.Tokens)
		for _, token := range h.Tokens {
			require.GreaterOrEqual(t, token.LostIDs, 0)
			total += token.LostIDs
		}
		require.LessOrEqual(t, total, max(1, maxTokens))
		for _, cached := range h.Cached {
			require.GreaterOrEqual(t, cached, 0)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	plain := []byte(`{"index":0,"content":" the","tokens":[506],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":6}`)
	var probs struct {
		P []json.RawMessage `json:"completion_probabilities"`
	}
	first, _, _ := bytes.Cut(named(b, "completion/stream-nprobs").Body, []byte("\n"))
	withLogprobs := bytes.TrimPrefix(first, []byte("data: "))
	require.NoError(b, json.Unmarshal(withLogprobs, &probs))
	require.Len(b, probs.P, 1)
	for name, frame := range map[string][]byte{"logprobs=none": plain, "logprobs=2": withLogprobs} {
		b.Run(fmt.Sprintf("%s/bytes=%d", name, len(frame)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d := decoder{maxTokens: 8, topLogprobs: ptr(2)}
				if _, tell, err := d.Frame(frame); err != nil || !tell {
					b.Fatal(tell, err)
				}
			}
		})
	}
}
