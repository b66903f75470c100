package vllm

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// conclusions reads every recording without an eye on how the adapter does: by its status, its request, and its frames as
// plain JSON. What the recordings were made to show is written out below.
func conclusions(tb testing.TB) map[string]enginetest.Conclusion {
	tb.Helper()
	out := map[string]enginetest.Conclusion{}
	for _, rec := range enginetest.Recordings(tb, recordedDir) {
		switch {
		case rec.ClientSaw != "", rec.Request.Path == "/v1/completions", rec.Request.Path == "/inference/v1/generate", rec.Request.Path == "/v1/chat/completions":
			out[rec.Name] = conclude(tb, rec)
		}
	}
	return out
}

func conclude(tb testing.TB, rec enginetest.Recording) enginetest.Conclusion {
	tb.Helper()
	switch status := rec.Response.Status; {
	case strings.HasPrefix(words(tb, rec.Body), "data_parallel_rank"): // which no client of ours can name
		return enginetest.Fails(engine.Operator, status, "out of range")
	case status != 200:
		return enginetest.Fails(map[int]engine.FailKind{
			400: engine.Client, 401: engine.Operator, 403: engine.Operator, 404: engine.Operator, 405: engine.Operator, 500: engine.Broken, 503: engine.Shed,
		}[status], status, words(tb, rec.Body))
	case !rec.Streams():
		return enginetest.Fails(engine.Broken, 0, "content type")
	}
	return concludeStream(tb, rec)
}

// words finds what an error says, in any of its forms.
func words(tb testing.TB, body []byte) string {
	tb.Helper()
	var answer map[string]any
	_ = json.Unmarshal(body, &answer)
	for _, key := range []string{"error", "detail"} {
		switch said := answer[key].(type) {
		case string:
			return said
		case map[string]any:
			text := said["message"].(string)
			return text[:min(len(text), 300)]
		}
	}
	return ""
}

type plainFrame struct {
	Error *struct {
		Message string
		Code    int
	}
	Choices []struct {
		Index        int
		Text         string
		TokenIDs     []uint32 `json:"token_ids"`
		FinishReason string   `json:"finish_reason"`
		Delta        map[string]any
	}
	Usage *struct {
		Details *struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

func concludeStream(tb testing.TB, rec enginetest.Recording) enginetest.Conclusion {
	tb.Helper()
	chat := rec.Request.Path == "/v1/chat/completions"
	c := enginetest.Fails(engine.Broken, 0, "EOF")
	for line := range strings.Lines(string(rec.Body)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var f plainFrame
		require.NoError(tb, json.Unmarshal([]byte(data), &f))
		if f.Error != nil {
			kind := map[int]engine.FailKind{400: engine.Client, 500: engine.Broken}[f.Error.Code]
			return enginetest.Fails(kind, f.Error.Code, f.Error.Message, c.IDs...)
		}
		if len(f.Choices) == 0 && f.Usage != nil && f.Usage.Details != nil {
			c.Cached = []int{f.Usage.Details.CachedTokens}
		}
		for _, choice := range f.Choices {
			ids := choice.TokenIDs
			content, _ := choice.Delta["content"].(string)
			switch {
			case choice.Index != 0:
				return enginetest.Fails(engine.Broken, 0, "choice 1", c.IDs...)
			case len(ids) == 0 && choice.Text != "":
				return enginetest.Fails(engine.Operator, 0, "too old")
			case chat && len(ids) == 0 && (content != "" || choice.Delta["tool_calls"] != nil):
				ids = []uint32{engine.NoTokenID}
			}
			c.IDs, c.Text = append(c.IDs, ids...), c.Text+content
			if choice.FinishReason != "" {
				c.Fail, c.Finish = nil, map[string]engine.FinishReason{
					"length": engine.FinishLength, "tool_calls": engine.FinishToolCalls, "abort": engine.FinishAbort,
				}[choice.FinishReason]
			}
		}
	}
	return c
}

// replayed is what the adapter says to a recorded answer.
func replayed(t *testing.T, name string, change ...func(*engine.Request)) *enginetest.Heard {
	t.Helper()
	rec := named(t, name)
	req := requestIn(rec)
	for _, f := range change {
		f(&req)
	}
	w := completionsProtocol(t)
	if rec.Request.Path == "/inference/v1/generate" {
		w = generateProtocol(t)
	}
	return enginetest.Generate(t, w.Of(t, rec.Replay), req)
}

// The greedy answer to the recorded prompt.
var answer = []uint32{3091, 3934, 1006, 1714, 3682, 3791, 3856, 2121}

func TestSurprisesOfAnAnswer(t *testing.T) {
	stop, length, abort := engine.FinishStop, engine.FinishLength, engine.FinishAbort
	for name, c := range map[string]struct {
		recording string
		reason    engine.FinishReason
		ids       []uint32
	}{
		"cached tokens come with the usage, after the finish":                  {"completions/03-stream", length, answer},
		"cached tokens stand only in the last usage where every frame has one": {"completions/04-stream-continuous-usage", length, answer},
		"a stop token is the last of the tokens":                               {"completions/15-stream-stop-token", stop, answer[:6]},
		"the end token is the last of the tokens":                              {"completions/17-stream-eos", stop, []uint32{4091}},
		"a further end token of generation_config has a stop_reason":           {"completions/18-stream-second-eos", stop, []uint32{4089}},
		"an end token that is ignored does not end":                            {"completions/19-stream-eos-ignored", length, []uint32{4091, 4091, 4091, 4091, 4091, 4091}},
		"an answer of one token is one frame":                                  {"completions/29-stream-one", length, []uint32{answer[0]}},
		"several ids come in a frame":                                          {"completions/37-stream-interval", length, append(answer[:8:8], 3339, 2975, 1930, 134)},
		"an aborted stream ends with a frame without ids, then usage":          {"completions/57-stream-aborted", abort, answer[:4]},
		"an aborted generate stream has its finish too":                        {"generate/36-stream-aborted", abort, answer[:4]},
		"generate tells the same":                                              {"generate/02-stream", length, answer},
		"generate without detokenization tells the same":                       {"generate/13-stream-no-detokenize", length, answer[:4]},
		"a tokens-only server streams too":                                     {"tokens-only/02-generate-stream", length, answer[:4]},
	} {
		t.Run(name, func(t *testing.T) {
			h := replayed(t, c.recording)
			require.NoError(t, h.Err)
			require.Equal(t, c.ids, h.IDs())
			require.Equal(t, c.reason, h.Finish.Reason)
			require.Equal(t, []int{32}, h.Cached)
		})
	}
}

func TestSurprisesOfAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		recording string
		kind      engine.FailKind
		words     string
	}{
		"an id beyond the vocabulary is an error frame under status 200": {"errors/16-id-beyond-vocab-stream", engine.Client, "Token id 5000 is out of vocabulary"},
		"a bad grammar is an error frame under status 200":               {"errors/31-bad-schema-stream", engine.Client, "Grammar error"},
		"a prompt too long is an error frame on generate":                {"generate/42-stream-err-too-long", engine.Client, "longer than the maximum model length"},
		"a prompt too long is a plain 400 on completions":                {"errors/04-too-long-stream", engine.Client, "maximum context length"},
		"[DONE] after an error frame is no end":                          {"faults/kill9-engine-core", engine.Broken, "EngineCore encountered an issue"},
		"a full queue sheds":                                             {"variants/13-queue-full-stream", engine.Shed, ""},
		"the error of a 401 is a string":                                 {"variants/02-wrong-key", engine.Operator, "Unauthorized"},
		"an unknown model is the operator's":                             {"errors/07-unknown-model", engine.Operator, "does not exist"},
		"an unknown adapter is the operator's on generate too":           {"generate/31-err-unknown-model", engine.Operator, "does not exist"},
		"a disabled route is the operator's":                             {"variants/07-generate-off", engine.Operator, "Scale-out endpoints are disabled"},
		"an unknown route is flat":                                       {"errors/26-no-such-route", engine.Operator, "Not Found"},
		"a rank out of range is the operator's":                          {"completions/44-dp-rank-7", engine.Operator, "out of range"},
		"text without ids is a server too old":                           {"completions/05-stream-bare", engine.Operator, "too old for return_token_ids"},
		"a choice that was not asked for is broken":                      {"completions/09-stream-n2", engine.Broken, "choice 1"},
		"a killed server ends the stream without a word":                 {"faults/kill9-api-server", engine.Broken, "EOF"},
		"comments are passed over":                                       {"variants/15-stream-keep-alive", engine.Operator, "too old"},
	} {
		t.Run(name, func(t *testing.T) {
			h := replayed(t, c.recording)
			enginetest.FailureIn(t, h.Err, c.kind)
			require.ErrorContains(t, h.Err, c.words)
		})
	}
}

func TestAStreamThatHangsAfterSIGTERMIsEndedByItsContext(t *testing.T) {
	rec := named(t, "faults/sigterm")
	ctx, cancel := contextThatEnds(t)
	h := &enginetest.Heard{}
	e := completionsProtocol(t).Of(t, func(s *enginetest.Session) {
		_ = s.Say(enginetest.StreamHeader, enginetest.Chunk(string(rec.Body)))
		s.Gone()
	})
	err := e.Generate(ctx, requestIn(rec), func(ev engine.Event) error {
		if err := h.Take(ev); err != nil {
			return err
		}
		if len(h.Tokens) == 29 {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, ctx.Err())
	require.Len(t, h.Tokens, 29, "the last frame carries nine")
}

func TestARepetitionThatTheServerDetectsEndsLikeAnEndToken(t *testing.T) {
	h := replayed(t, "completions/56-repetition")
	require.NoError(t, h.Err)
	require.Equal(t, engine.FinishStop, h.Finish.Reason)
	require.Equal(t, []uint32{400, 400, 400, 400}, h.IDs())
}

func TestAComplaintNamesTheParameterAsTheClientDoes(t *testing.T) {
	for name, param := range map[string]string{
		"errors/27-stop-token-type": "stop_token_ids", "errors/14-negative-id": "prompt", "errors/17-temperature": "temperature",
		"generate/25-err-empty": "prompt", "generate/26-err-negative-id": "prompt", "errors/12-negative-max-tokens": "max_tokens", "errors/28-min-over-max": "",
	} {
		require.Equal(t, param, enginetest.FailureIn(t, replayed(t, name).Err, engine.Client).Param, name)
	}
}

func TestTextThatIsHeldBackOrDroppedDoesNotMatter(t *testing.T) {
	for name, tokens := range map[string]int{
		"completions/27-stream-utf8-held-back": 13, "completions/28-stream-broken-utf8": 10, "completions/62-stop-two-in-one": 4,
		"completions/63-stop-and-length": 4,
	} {
		h := replayed(t, name)
		require.NoError(t, h.Err, name)
		require.Len(t, h.Tokens, tokens, name)
		for _, token := range h.Tokens {
			require.Nil(t, token.Text, "the text is the tokenizer's")
		}
	}
}

func TestLogprobsAreReadByIDsTheBestFirst(t *testing.T) {
	for _, name := range []string{"completions/08-stream-logprobs-as-ids", "generate/08-stream-logprobs"} {
		for _, top := range []int{0, 1, 2, 20} {
			h := replayed(t, name, func(r *engine.Request) { r.TopLogprobs = &top })
			require.NoError(t, h.Err)
			require.InDelta(t, -1.4392849206924438, h.Tokens[0].Logprob.Logprob, 0)
			require.Len(t, h.Tokens[0].Logprob.Top, min(top, 2))
			if top >= 2 {
				require.Equal(t, []engine.RankedToken{{ID: 3091, Logprob: -1.4392849206924438}, {ID: 2300, Logprob: -1.5033832788467407}}, h.Tokens[0].Logprob.Top)
			}
		}
		for _, token := range replayed(t, name, func(r *engine.Request) { r.TopLogprobs = nil }).Tokens {
			require.Nil(t, token.Logprob, "not asked for")
		}
	}
}

func TestAChatsTextIsTheEnginesWithTheIDsItCounts(t *testing.T) {
	h := replayed(t, "chat/03-stream-token-ids")
	require.NoError(t, h.Err)
	require.Equal(t, []uint32{3858, 458, 3627, 2464, 2321, 1256, 2816, 75}, h.IDs())
	require.Equal(t, "ventionable computetestraiseargument customizedl", h.Text())
	require.Equal(t, []int{64}, h.Cached)
	without := replayed(t, "chat/02-stream")
	require.NoError(t, without.Err)
	require.Equal(t, h.Text(), without.Text())
	for _, id := range without.IDs() {
		require.EqualValues(t, engine.NoTokenID, id)
	}
}

func TestAChatsToolCallsPassAsTheyAre(t *testing.T) {
	h := replayed(t, "chat/10-stream-tools-named")
	require.NoError(t, h.Err)
	require.Equal(t, engine.FinishStop, h.Finish.Reason)
	require.NotEmpty(t, h.Deltas)
	require.Contains(t, h.Deltas[0], "get_tide")
	for _, d := range h.Deltas {
		require.NotContains(t, d, "content")
	}
}

func TestLogprobsOfAChatThatNamesTokensByTextAreLeftOut(t *testing.T) {
	two := 2
	h := replayed(t, "chat/04-stream-logprobs", func(r *engine.Request) { r.TopLogprobs = &two })
	require.NoError(t, h.Err)
	for _, token := range h.Tokens {
		require.Nil(t, token.Logprob)
	}
}
