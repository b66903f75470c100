package ingress

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/stream"
	"plimsoll/engine/openai"
	"plimsoll/scoring/queue"
)

const (
	pathChat        = "/v1/chat/completions"
	pathCompletions = "/v1/completions"
)

// withMember puts a member into a request that is else right.
func withMember(path, member string) string {
	base := `"model":"org/sim","messages":[{"role":"user","content":"hi"}]`
	if path == pathCompletions {
		base = `"model":"org/sim","prompt":"hi"`
	}
	if member == "" {
		return "{" + base + "}"
	}
	return "{" + base + "," + member + "}"
}

// requireParam checks that an answer is a 400 that names the parameter in its object and its words.
func requireParam(t *testing.T, status int, body []byte, param string) {
	t.Helper()
	require.Equal(t, 400, status, "%s", body)
	var e openai.ErrorBody
	require.NoError(t, json.Unmarshal(body, &e))
	require.NotNil(t, e.Error.Param, "%s", body)
	require.Equal(t, param, *e.Error.Param)
	require.Contains(t, e.Error.Message, param)
	require.Equal(t, "invalid_request_error", e.Error.Type)
}

func TestEveryBadParameterIsNamed(t *testing.T) {
	both := []struct{ param, member string }{
		{"model", `"model":7`},
		{"n", `"n":0`},
		{"n", `"n":129`},
		{"n", `"n":1.5`},
		{"n", `"n":"2"`},
		{"min_tokens", `"min_tokens":2147483648`},
		{"n", `"n":true`},
		{"stream", `"stream":"yes"`},
		{"stream", `"stream":1`},
		{"stream_options", `"stream_options":{"include_usage":true}`},
		{"stream_options", `"stream":true,"stream_options":[]`},
		{"stream_options.include_usage", `"stream":true,"stream_options":{"include_usage":1}`},
		{"stream_options.include_obfuscation", `"stream":true,"stream_options":{"include_obfuscation":1}`},
		{"stream_options.continuous_usage_stats", `"stream":true,"stream_options":{"continuous_usage_stats":1}`},
		{"temperature", `"temperature":-0.1`},
		{"temperature", `"temperature":2.1`},
		{"temperature", `"temperature":"1"`},
		{"temperature", `"temperature":1e999`},
		{"top_p", `"top_p":-0.1`},
		{"top_p", `"top_p":1.01`},
		{"top_k", `"top_k":-2`},
		{"top_k", `"top_k":0.5`},
		{"min_p", `"min_p":-0.1`},
		{"min_p", `"min_p":1.1`},
		{"presence_penalty", `"presence_penalty":-2.1`},
		{"frequency_penalty", `"frequency_penalty":2.1`},
		{"repetition_penalty", `"repetition_penalty":0`},
		{"repetition_penalty", `"repetition_penalty":11`},
		{"seed", `"seed":1.5`},
		{"seed", `"seed":9223372036854775808`},
		{"seed", `"seed":"1"`},
		{"logit_bias", `"logit_bias":[]`},
		{"logit_bias", `"logit_bias":{"x":1}`},
		{"logit_bias", `"logit_bias":{"259":1}`},
		{"logit_bias", `"logit_bias":{"-1":1}`},
		{"logit_bias", `"logit_bias":{"1":101}`},
		{"logit_bias", `"logit_bias":{"1":null}`},
		{"logit_bias", `"logit_bias":{"1":"5"}`},
		{"stop", `"stop":5`},
		{"stop", `"stop":""`},
		{"stop", `"stop":["a",""]`},
		{"stop[1]", `"stop":["a",null]`},
		{"stop[0]", `"stop":[7]`},
		{"stop", `"stop":["` + strings.Repeat(strings.Repeat("x", 1024)+`","`, 16) + `x"]`},
		{"stop", `"stop":"` + strings.Repeat("x", 1025) + `"`},
		{"stop_token_ids", `"stop_token_ids":5`},
		{"stop_token_ids", `"stop_token_ids":[259]`},
		{"stop_token_ids[1]", `"stop_token_ids":[1,-1]`},
		{"stop_token_ids[0]", `"stop_token_ids":[null]`},
		{"stop_token_ids[0]", `"stop_token_ids":[1.5]`},
		{"stop_token_ids[0]", `"stop_token_ids":[4294967296]`},
		{"stop_token_ids", `"stop_token_ids":[` + strings.Repeat("1,", 128) + `1]`},
		{"include_stop_str_in_output", `"include_stop_str_in_output":1`},
		{"ignore_eos", `"ignore_eos":"x"`},
		{"skip_special_tokens", `"skip_special_tokens":0`},
		{"min_tokens", `"min_tokens":-1`},
		{"min_tokens", `"max_tokens":2,"min_tokens":5`},
		{"max_tokens", `"max_tokens":0`},
		{"max_tokens", `"max_tokens":-1`},
		{"max_tokens", `"max_tokens":1.5`},
		{"max_tokens", `"max_tokens":99999999999`},
		{"cache_salt", `"cache_salt":""`},
		{"cache_salt", `"cache_salt":5`},
		{"cache_salt", `"cache_salt":"` + strings.Repeat("x", 1025) + `"`},
		{"service_tier", `"service_tier":"gold"`},
		{"prompt_cache_key", `"prompt_cache_key":"` + strings.Repeat("x", 257) + `"`},
	}
	chat := []struct{ param, member string }{
		{"messages", `"messages":null`},
		{"messages", `"messages":[]`},
		{"messages", `"messages":[ ]`},
		{"messages", `"messages":"hi"`},
		{"tools", `"tools":{}`},
		{"tool_choice", `"tool_choice":"auto"`},
		{"tool_choice", `"tools":[{}],"tool_choice":"required"`},
		{"tool_choice", `"tools":[{}],"tool_choice":{"type":"function","function":{"name":"f"}}`},
		{"max_completion_tokens", `"max_completion_tokens":0`},
		{"max_tokens", `"max_completion_tokens":5,"max_tokens":6`},
		{"logprobs", `"logprobs":1`},
		{"top_logprobs", `"top_logprobs":2`},
		{"top_logprobs", `"logprobs":true,"top_logprobs":21`},
		{"top_logprobs", `"logprobs":true,"top_logprobs":-1`},
		{"reasoning_effort", `"reasoning_effort":5`},
		{"chat_template_kwargs", `"chat_template_kwargs":"x"`},
		{"documents", `"documents":[]`},
		{"add_special_tokens", `"add_special_tokens":true`},
		{"add_generation_prompt", `"add_generation_prompt":true,"continue_final_message":true`},
	}
	completions := []struct{ param, member string }{
		{"prompt", `"prompt":null`},
		{"prompt", `"prompt":""`},
		{"prompt", `"prompt":[]`},
		{"prompt", `"prompt":[[]]`},
		{"prompt", `"prompt":["a",""]`},
		{"prompt", `"prompt":{}`},
		{"prompt", `"prompt":5`},
		{"prompt", `"prompt":[true]`},
		{"prompt", `"prompt":[1,259]`},
		{"prompt", `"prompt":[[1],[259]]`},
		{"prompt[1]", `"prompt":[1,"a"]`},
		{"prompt[1]", `"prompt":["a",1]`},
		{"prompt[1]", `"prompt":[1,-1]`},
		{"prompt[1]", `"prompt":[[1],2]`},
		{"prompt[1][0]", `"prompt":[[1],["a"]]`},
		{"n", `"n":128,"prompt":["a","b","c"]`},
		{"best_of", `"best_of":2`},
		{"best_of", `"n":2,"best_of":1`},
		{"logprobs", `"logprobs":true`},
		{"logprobs", `"logprobs":21`},
		{"logprobs", `"logprobs":-1`},
	}
	front := newFront(nil)
	e := newEdge(t, testConfig(), front)
	check := func(path string, list []struct{ param, member string }) {
		for _, c := range list {
			t.Run(path+"/"+c.member[:min(60, len(c.member))], func(t *testing.T) {
				rec := e.do("POST", path, withMember(path, c.member))
				requireParam(t, rec.Code, rec.Body.Bytes(), c.param)
			})
		}
	}
	check(pathChat, both)
	check(pathCompletions, both)
	check(pathChat, chat)
	check(pathCompletions, completions)
	require.Empty(t, front.submitted(), "no bad request reaches a router")
}

func TestWhatIsNotServedIsRefusedByName(t *testing.T) {
	front := newFront(says("x"))
	e := newEdge(t, testConfig(), front)
	for path, own := range map[string][]refusal{pathChat: refusalsInChats(), pathCompletions: refusalsInCompletions()} {
		for _, r := range append(refusals(), own...) {
			t.Run(path+"/"+r.param, func(t *testing.T) {
				rec := e.do("POST", path, withMember(path, fmt.Sprintf(`%q:{"some":"thing"}`, r.param)))
				requireParam(t, rec.Code, rec.Body.Bytes(), r.param)
				for _, value := range append([]string{"null"}, r.harmless...) {
					rec := e.do("POST", path, withMember(path, fmt.Sprintf(" %q : %s ", r.param, value)))
					require.Equal(t, 200, rec.Code, "%s: %s", value, rec.Body)
				}
			})
		}
	}
}

func TestWhatTheEnginesLackIsRefusedByName(t *testing.T) {
	front := newFront(nil)
	front.models[0].Logprobs, front.models[0].LogitBias, front.models[0].MinTokens = false, false, false
	e := newEdge(t, testConfig(), front)
	for _, c := range []struct{ path, param, member string }{
		{pathChat, "logprobs", `"logprobs":true`},
		{pathCompletions, "logprobs", `"logprobs":0`},
		{pathChat, "logit_bias", `"logit_bias":{"1":1}`},
		{pathChat, "min_tokens", `"min_tokens":1`},
	} {
		rec := e.do("POST", c.path, withMember(c.path, c.member))
		requireParam(t, rec.Code, rec.Body.Bytes(), c.param)
	}
}

// TestParametersArrive reads them where the router will.
func TestParametersArrive(t *testing.T) {
	front := newFront(says("x"))
	e := newEdge(t, testConfig(), front)
	last := func(path, member string, header ...string) *stream.Request {
		rec := e.do("POST", path, withMember(path, member), header...)
		require.Equal(t, 200, rec.Code, "%s", rec.Body)
		all := front.submitted()
		return all[len(all)-1]
	}

	r := last(pathChat, `"temperature":0,"top_p":1,"top_k":-1,"min_p":0.5,"presence_penalty":-2,"frequency_penalty":2,
		"repetition_penalty":1.5,"seed":-9223372036854775808,"logit_bias":{"3":-100,"4":2.5},"n":2,"max_tokens":8,"min_tokens":8,
		"stop":["a","b"],"stop_token_ids":[5,6],"include_stop_str_in_output":true,"ignore_eos":true,"skip_special_tokens":false,
		"cache_salt":"s","logprobs":true,"top_logprobs":3,"prompt_cache_key":"conv","unknown":{"x":1},"n":3`, "X-Request-Id", "mine")
	require.Equal(t, "mine", r.ID)
	require.Equal(t, "org/sim", r.Model)
	require.Equal(t, 3, r.N, "the last of equal names counts")
	require.Zero(t, *r.Sampling.Temperature)
	require.Zero(t, *r.Sampling.TopK)
	require.Equal(t, 0.5, *r.Sampling.MinP)
	require.Equal(t, int64(-9223372036854775808), *r.Sampling.Seed)
	require.Equal(t, map[uint32]float64{3: -100, 4: 2.5}, r.Sampling.LogitBias)
	require.Equal(t, 8, *r.MaxTokens)
	require.Equal(t, 8, r.MinTokens)
	require.Equal(t, []string{"a", "b"}, r.Stop)
	require.Equal(t, []uint32{5, 6}, r.StopTokenIDs)
	require.True(t, r.IncludeStop && r.IgnoreEOS && !r.SkipSpecialTokens)
	require.Equal(t, 3, *r.TopLogprobs)
	require.Equal(t, "conv", r.Session)
	require.Equal(t, "default", r.Tenant)
	require.Equal(t, queue.Default, r.Class)
	for tier, class := range map[string]queue.Class{
		"auto": queue.Default, "default": queue.Default, "scale": queue.Default, "priority": queue.Priority, "flex": queue.Flex,
	} {
		require.Equal(t, class, last(pathChat, `"service_tier":"`+tier+`"`).Class, tier)
	}
	require.JSONEq(t, `[{"role":"user","content":"hi"}]`, string(r.Input.Chat.Messages))
	require.True(t, *r.Input.Chat.AddGenerationPrompt)

	require.Equal(t, stream.SLO{}, r.SLO)
	r = last(pathChat, "", "X-Slo-Ttft-Ms", "2500", "x-slo-tpot-ms", "0.5")
	require.Equal(t, stream.SLO{TTFT: new(2500 * time.Millisecond), TPOT: new(500 * time.Microsecond)}, r.SLO)

	t.Run("field input 8: seed -1 is none", func(t *testing.T) {
		require.Nil(t, last(pathChat, `"temperature":1,"seed":-1`).Sampling.Seed)
		require.Nil(t, last(pathCompletions, `"temperature":1,"seed":-1`).Sampling.Seed)
		require.Equal(t, int64(-2), *last(pathChat, `"seed":-2`).Sampling.Seed)
	})
	t.Run("field input 12: what asks for nothing passes", func(t *testing.T) {
		r := last(pathChat, `"tools":[],"tool_choice":"auto","parallel_tool_calls":false`)
		require.Nil(t, r.Input.Chat.Tools)
		require.Nil(t, last(pathCompletions, `"tools":[],"parallel_tool_calls":false`).Input.Chat)
		require.Equal(t, "org/sim", last(pathChat, `"model":""`).Model)
		r = last(pathChat, `"top_p":0,"temperature":1`)
		require.Nil(t, r.Sampling.TopP)
		require.Zero(t, *r.Sampling.Temperature, "greedy")
		require.Len(t, last(pathChat, `"stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]`).Stop, 17)
	})
	t.Run("the body that an engine renders says the same", func(t *testing.T) {
		r := last(pathChat, `"tools":[],"tool_choice":"auto","parallel_tool_calls":false,"top_p":0,"temperature":1,"seed":-1,"user":"u"`)
		require.JSONEq(t, `{"model":"org/sim","messages":[{"role":"user","content":"hi"}],"temperature":0,"user":"u"}`, string(r.Input.ChatBody))
		body := withMember(pathChat, `"seed":1`)
		require.Equal(t, body, string(last(pathChat, `"seed":1`).Input.ChatBody), "as it came")
	})

	r = last(pathChat, `"temperature":null,"max_tokens":null,"stop":null,"n":null,"stream":null,"logprobs":null`, "X-Session-Id", "s1")
	require.Nil(t, r.Sampling.Temperature)
	require.Nil(t, r.MaxTokens, "a chat without a limit has the room left")
	require.Nil(t, r.TopLogprobs)
	require.Equal(t, 1, r.N)
	require.Equal(t, "s1", r.Session)
	require.True(t, r.SkipSpecialTokens)
	require.Equal(t, 5, *last(pathChat, `"max_completion_tokens":5,"max_tokens":5`).MaxTokens)
	require.Equal(t, 16, *last(pathChat, `"max_tokens":1.6e1`).MaxTokens)
	require.False(t, *last(pathChat, `"continue_final_message":true`).Input.Chat.AddGenerationPrompt)
	require.Zero(t, *last(pathChat, `"logprobs":true`).TopLogprobs)

	r = last(pathCompletions, "")
	require.Equal(t, 16, *r.MaxTokens)
	require.Equal(t, stream.Input{Texts: []string{"hi"}, AddSpecial: true}, r.Input)
	require.False(t, last(pathCompletions, `"add_special_tokens":false`).Input.AddSpecial)
	require.Equal(t, []string{"a", "b"}, last(pathCompletions, `"prompt":["a","b"]`).Input.Texts)
	require.Equal(t, [][]uint32{{1, 2, 0}}, last(pathCompletions, `"prompt":[ 1,2 , 0 ]`).Input.Tokens)
	require.Equal(t, [][]uint32{{1}, {2, 3}}, last(pathCompletions, `"prompt":[[1],[2,3]]`).Input.Tokens)
	require.Equal(t, 2, *last(pathCompletions, `"logprobs":2`).TopLogprobs)
}

func TestModelMayBeAbsentWhereOneIsServed(t *testing.T) {
	front := newFront(says("x"))
	e := newEdge(t, testConfig(), front)
	body := `{"prompt":"x"}`
	require.Equal(t, 200, e.do("POST", pathCompletions, body).Code)
	front.models = append(front.models, Model{Name: "other", Tokenizer: bytesTokenizer{}})
	rec := e.do("POST", pathCompletions, body)
	requireParam(t, rec.Code, rec.Body.Bytes(), "model")
}

func TestBodiesThatAreNoObject(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(nil))
	for _, c := range []struct{ body, want string }{
		{``, "empty"},
		{` `, "empty"},
		{`{"model":"tiny","prompt":[1,2`, "at byte 29"},
		{`{"a":NaN}`, "at byte 6"},
		{`{"a":1} x`, "at byte 9"},
		{`[1]`, "must be a JSON object, it is a JSON array"},
		{`null`, "must be a JSON object"},
		{"{\"model\":\"\xff\"}", "not valid UTF-8 (at byte 11)"},
		{`{"model":"\ud800"}`, "surrogate pair, which is no character (at byte 11)"},
		{`{"model":"\ud800\u0041"}`, "surrogate"},
		{`{"model":"\udc00"}`, "surrogate"},
	} {
		rec := e.do("POST", pathCompletions, c.body, "Content-Type", "application/json")
		require.Equal(t, 400, rec.Code, c.body)
		require.Contains(t, rec.Body.String(), c.want, c.body)
	}
	rec := e.do("POST", pathCompletions, `{"model":"\\ud800 \ud83d\ude42"}`)
	require.Equal(t, 404, rec.Code, "an escaped backslash and a whole pair are fine: %s", rec.Body)
}

func TestMediaTypes(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(says("x")))
	require.Equal(t, 200, e.do("POST", pathChat, "\ufeff"+withMember(pathChat, "")).Code, "a byte order mark before the body")
	for _, c := range []struct {
		name, value string
		want        int
	}{
		{"Content-Type", "", 200},
		{"Content-Type", "application/json", 200},
		{"Content-Type", "Application/JSON; charset=UTF-8", 200},
		{"Content-Type", "application/json; charset=utf8", 200},
		{"Content-Type", "application/json; charset=latin1", 200},
		{"Content-Type", "application/json; charset=", 200},
		{"Content-Type", "text/plain", 415},
		{"Content-Type", "application/x-www-form-urlencoded", 415},
		{"Content-Type", "multipart", 415},
		{"Content-Encoding", "identity", 200},
		{"Content-Encoding", "gzip", 415},
	} {
		rec := e.do("POST", pathCompletions, withMember(pathCompletions, ""), c.name, c.value)
		require.Equal(t, c.want, rec.Code, "%s: %s", c.name, c.value)
	}
}

// TestDocNamesWhatIsRefusedAndIgnored keeps the table for readers whole.
func TestDocNamesWhatIsRefusedAndIgnored(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, tail, _ := strings.Cut(string(doc), "# Parameters")
	for _, r := range slices.Concat(refusals(), refusalsInChats(), refusalsInCompletions()) {
		require.Contains(t, tail, r.param)
		for _, h := range r.harmless {
			require.True(t, strings.Contains(tail, r.param+" ("+h) || h == "1.0" || h == `"auto"`, "%s (%s)", r.param, h)
		}
	}
	for _, name := range ignored() {
		require.Contains(t, tail, name)
	}
}

func TestIgnoredParametersChangeNothing(t *testing.T) {
	front := newFront(says("x"))
	e := newEdge(t, testConfig(), front)
	plain := e.do("POST", pathChat, withMember(pathChat, "")).Body.String()
	for _, name := range ignored() {
		if strings.Contains(name, ".") {
			continue
		}
		rec := e.do("POST", pathChat, withMember(pathChat, fmt.Sprintf("%q:{}", name)))
		require.Equal(t, plain, rec.Body.String(), name)
	}
}

// TestNumbersOutOfRangeSayWhichEnd they passed.
func TestNumbersOutOfRangeSayWhichEnd(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(nil))
	for member, want := range map[string]string{
		`"max_tokens":0`:          "max_tokens must be at least 1, not 0",
		`"max_tokens":2147483648`: "max_tokens must be from 1 to 2147483647, not 2147483648",
	} {
		require.Contains(t, e.do("POST", pathChat, withMember(pathChat, member)).Body.String(), want)
	}
}

// TestResumeHeader takes its three words and no other.
func TestResumeHeader(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(says("x")))
	for word, want := range map[string]int{"exact": 200, "best": 200, "Off": 200, "": 200, "maybe": 400, "exact,off": 400} {
		rec := e.do("POST", pathChat, withMember(pathChat, ""), headerResume, word)
		require.Equal(t, want, rec.Code, word)
		if want == 400 {
			requireParam(t, rec.Code, rec.Body.Bytes(), headerResume)
		}
	}
}

// TestWhatAnEnginesFailureMayDo is told to the stream: what the client wants, and whether it has been sent anything.
func TestWhatAnEnginesFailureMayDo(t *testing.T) {
	for word, want := range map[string]stream.Resume{
		"exact": stream.ResumeExact, "EXACT": stream.ResumeExact, "best": stream.ResumeBest, "": stream.ResumeBest, "off": stream.ResumeOff,
	} {
		for member, whole := range map[string]bool{"": true, `"stream":false`: true, `"stream":true`: false} {
			for _, path := range []string{pathChat, pathCompletions} {
				e := newEdge(t, testConfig(), newFront(says("x")))
				e.do("POST", path, withMember(path, member), headerResume, word)
				req := e.front.submitted()[0]
				require.Equal(t, want, req.Resume, word)
				require.Equal(t, whole, req.Whole, member)
			}
		}
	}
}
