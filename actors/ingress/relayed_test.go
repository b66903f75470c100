package ingress

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/openai"
)

// relays is a script of one leg that an engine renders and reads, in runs of entries.
func relays(reason stream.StopReason, runs ...[]stream.Entry) func(*stream.Request, *stream.Response) {
	return func(_ *stream.Request, resp *stream.Response) {
		u := stream.Usage{PromptTokens: 9}
		for _, run := range runs {
			for i := range run {
				run[i].Relayed = true
			}
			u.CompletionTokens += len(run)
			resp.Append(0, run, u)
		}
		resp.Finish(0, stream.Finish{Reason: reason, CompletionTokens: u.CompletionTokens}, u)
		resp.End(nil)
	}
}

func beside(delta string) stream.Entry {
	return stream.Entry{ID: engine.NoTokenID, ChatDelta: json.RawMessage(delta)}
}

func calls() [][]stream.Entry {
	return [][]stream.Entry{
		{beside(`{"reasoning":"Let me "}`), beside(`{"reasoning":"see."}`)},
		{{ID: 1, Text: "Well, "}, {ID: 2, Text: "now."}},
		{beside(`{"tool_calls":[{"index":0,"id":"call-1","type":"function","function":{"name":"look","arguments":""}}]}`)},
		{beside(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"at\":"}}]}`), beside(`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`)},
	}
}

// TestRelayedAnswers holds what clients get of an engine's own answers to goldens. A response that is read only at its end
// gives one chunk.
func TestRelayedAnswers(t *testing.T) {
	logged := func() []stream.Entry {
		one := func(id uint32, text string) stream.Entry {
			return stream.Entry{ID: id, Text: text, Logprob: &engine.Logprob{Logprob: -0.5}}
		}
		reasoning := one(idThe, "")
		reasoning.ChatDelta = json.RawMessage(`{"reasoning":" the"}`)
		return []stream.Entry{reasoning, one('h', "h"), one(0xe2, ""), one(engine.NoTokenID, "€"), one(idEnd, "")}
	}
	for _, c := range []struct {
		name, body string
		script     func(*stream.Request, *stream.Response)
	}{
		{"relayed-text", "", relays(stream.StopLength, []stream.Entry{{ID: 1, Text: "Hel"}, {ID: engine.NoTokenID, Text: "lo"}})},
		{"relayed-calls", "", relays(stream.StopToolCalls, calls()...)},
		{"relayed-calls-only", "", relays(stream.StopToolCalls, calls()[2:]...)},
		{"relayed-calls-stream", `"stream":true`, relays(stream.StopToolCalls, calls()...)},
		{"relayed-reasoning-stream", `"stream":true,"stream_options":{"include_usage":true}`, relays(stream.StopEnd, calls()[:1]...)},
		{"relayed-logprobs", `"logprobs":true`, relays(stream.StopEnd, logged())},
	} {
		t.Run(c.name, func(t *testing.T) {
			front := newFront(nil)
			front.played = c.script
			checkGolden(t, c.name, dump(newEdge(t, testConfig(), front).do("POST", pathChat, withMember(pathChat, c.body))))
		})
	}
}

// TestRelayedStreamEqualsWhole: the deltas of a stream, however they are cut into chunks, add up to the whole answer.
func TestRelayedStreamEqualsWhole(t *testing.T) {
	front := newFront(relays(stream.StopToolCalls, calls()...))
	e := newEdge(t, testConfig(), front)
	var whole openai.ChatCompletion
	require.NoError(t, json.Unmarshal(e.do("POST", pathChat, withMember(pathChat, "")).Body.Bytes(), &whole))

	var sum openai.Delta
	var reasons []string
	for event := range strings.SplitSeq(e.do("POST", pathChat, withMember(pathChat, `"stream":true`)).Body.String(), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta        json.RawMessage
				FinishReason string `json:"finish_reason"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(data), &chunk))
		require.NoError(t, sum.Add(chunk.Choices[0].Delta))
		if r := chunk.Choices[0].FinishReason; r != "" {
			reasons = append(reasons, r)
		}
	}
	require.Equal(t, []string{openai.FinishToolCalls}, reasons)
	var streamed openai.Message
	require.NoError(t, json.Unmarshal([]byte("{"+string(sum.AppendMembers(nil, true))+"}"), &streamed))
	want, err := json.Marshal(whole.Choices[0].Message)
	require.NoError(t, err)
	got, err := json.Marshal(streamed)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}

// TestUnreadableDelta: what the engine says is never dropped in silence.
func TestUnreadableDelta(t *testing.T) {
	script := relays(stream.StopEnd, []stream.Entry{beside(`[]`)})
	e := newEdge(t, testConfig(), newFront(script))
	rec := e.do("POST", pathChat, withMember(pathChat, ""))
	require.Equal(t, answerOf(&fault.Fault{Kind: fault.EngineFailed}).status, rec.Code)
	rec = e.do("POST", pathChat, withMember(pathChat, `"stream":true`))
	s := hear(t, rec.Body.String())
	require.NotNil(t, s.fault)
	require.Zero(t, s.done)
}

// TestTheBodyGoesAlong: what an engine needs to render a chat itself. A tokenization wants tokens and nothing else.
func TestTheBodyGoesAlong(t *testing.T) {
	front := newFront(says("x"))
	e := newEdge(t, testConfig(), front)
	body := withMember(pathChat, `"metadata":{"a":1}`)
	require.Equal(t, 200, e.do("POST", pathChat, body).Code)
	require.Equal(t, body, string(front.submitted()[0].Input.ChatBody))
	front.tokenize = func(in stream.Input) ([]Encoded, error) {
		require.NotNil(t, in.Chat)
		require.Nil(t, in.ChatBody)
		return []Encoded{{IDs: []uint32{1}}}, nil
	}
	require.Equal(t, 200, e.do("POST", "/tokenize", body).Code)
}

// TestWhatOnlyEnginesServe passes where every chat goes to the engine for sure, and nowhere else.
func TestWhatOnlyEnginesServe(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"f"}}],`
	for member, served := range map[string]bool{
		`"response_format":{"type":"json_object"}`: true,
		`"structured_outputs":{"regex":"a"}`:       true,
		tools + `"parallel_tool_calls":false`:      true,
		`"include_reasoning":false`:                true,
		`"thinking_token_budget":5`:                true,
		tools + `"tool_choice":"required"`:         true,
		`"chat_template":"x"`:                      false,
		`"kv_transfer_params":{"a":1}`:             false,
		`"mm_processor_kwargs":{"a":1}`:            false,
		`"echo":true`:                              false,
		`"prompt":"x"`:                             false,
	} {
		for _, engine := range []bool{false, true} {
			front := newFront(says("x"))
			front.models[0].EngineRenders = engine
			e := newEdge(t, testConfig(), front)
			want := 400
			if engine && served {
				want = 200
			}
			require.Equal(t, want, e.do("POST", pathChat, withMember(pathChat, member)).Code, "%s, engine %v", member, engine)
			if member[:8] != `"prompt"` {
				require.Equal(t, 400, e.do("POST", pathCompletions, withMember(pathCompletions, member)).Code, "%s", member)
			}
		}
	}
}
