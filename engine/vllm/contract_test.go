package vllm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/wire"
	"plimsoll/testbench/shared"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	w := completionsProtocol(t)
	w.Recorded = recorded(t)
	enginetest.Run(t, enginetest.Subject{Wire: w})
}

func TestContractOfGenerate(t *testing.T) {
	enginetest.Run(t, enginetest.Subject{Wire: generateProtocol(t)})
}

// recordedDir holds what a real server said.
var recordedDir = filepath.Join("testdata", "recorded")

const (
	completionsFinish = `data: {"id":"cmpl-1","object":"text_completion","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":[]}]}` + "\n\n"
	generateFinish    = `data: {"request_id":"generate-tokens-1","usage":null,"choices":[{"index":0,"finish_reason":"length","stop_reason":null,"token_ids":[],"logprobs":null}]}` + "\n\n"
	trailer           = `data: {"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":2}}}` + "\n\ndata: [DONE]\n\n"
)

// completionsProtocol is how a server speaks at /v1/completions.
func completionsProtocol(tb testing.TB) *enginetest.Wire {
	tb.Helper()
	return &enginetest.Wire{
		Open:      opener(APICompletions),
		Token:     completionsToken,
		Finish:    completionsFinish,
		Trailer:   trailer,
		Error:     errorBody,
		MaxTokens: func(body []byte) int { return askedIn(body).MaxTokens },
		FirstID:   func(body []byte) uint32 { return askedIn(body).Prompt[0] },
		Info:      info(tb),
		Quiet: []string{
			": keep-alive\n\n", "data: null\n\n",
			`data: {"choices":[{"index":0,"text":"","finish_reason":null,"token_ids":null}]}` + "\n\n",
			`data: {"choices":[],"usage":{"prompt_tokens":3,"total_tokens":3,"completion_tokens":0}}` + "\n\n",
		},
		Foreign: []string{
			`data: {"index":0,"content":" x","tokens":[5],"stop":false}` + "\n\n", "event: message_start\ndata: {\"type\":\"message_start\"}\n\n",
			"data: []\n\n", "data: 7\n\n", "data: {\n\n", `data: {"choices":[{"index":0,"token_ids":[-1]}]}` + "\n\n",
			`data: {"choices":[{"index":0,"token_ids":[4294967296]}]}` + "\n\n", `data: {"choices":"x"}` + "\n\n",
			`data: {"choices":[{"index":1,"token_ids":[5]}]}` + "\n\n", `data: {"choices":[{"index":0,"token_ids":[],"finish_reason":"error"}]}` + "\n\n",
			"data: [DONE]\n\n", "",
		},
	}
}

// recorded are the exchanges of all three routes.
func recorded(tb testing.TB) *enginetest.Recorded {
	tb.Helper()
	return &enginetest.Recorded{
		Dir:    recordedDir,
		Shared: func(tb testing.TB) string { tb.Helper(); return shared.Path(tb, "testdata", "engines", "vllm") },
		Path:   "/v1/completions",
		Ask:    requestIn,
		Open: func(tb testing.TB, cfg wire.Config, dial wire.Dial, rec enginetest.Recording) engine.Engine {
			tb.Helper()
			if rec.Request.Path == "/inference/v1/generate" {
				return opener(APIGenerate)(tb, cfg, dial)
			}
			return opener(APICompletions)(tb, cfg, dial)
		},
		Conclusions: conclusions(tb),
	}
}

// generateProtocol is how a server speaks at /inference/v1/generate.
func generateProtocol(tb testing.TB) *enginetest.Wire {
	tb.Helper()
	w := completionsProtocol(tb)
	w.Open, w.Token, w.Finish = opener(APIGenerate), generateToken, generateFinish
	return w
}

// opener returns adapters that the caller closes.
func opener(api API) func(tb testing.TB, cfg wire.Config, dial wire.Dial) engine.Engine {
	return func(tb testing.TB, cfg wire.Config, dial wire.Dial) engine.Engine {
		tb.Helper()
		c := DefaultConfig()
		c.Config, c.API = cfg, api
		d := deps()
		d.Dial = dial
		e, err := New(c, d)
		require.NoError(tb, err)
		return e
	}
}

func completionsToken(id uint32, _ int) string {
	return enginetest.Frame(fmt.Sprintf(`{"id":"cmpl-1","choices":[{"index":0,"text":" x","logprobs":null,"finish_reason":null,"token_ids":[%d]}]}`, id))
}

func generateToken(id uint32, _ int) string {
	return enginetest.Frame(fmt.Sprintf(`{"request_id":"g-1","usage":null,"choices":[{"index":0,"finish_reason":null,"token_ids":[%d],"logprobs":null}]}`, id))
}

func errorBody(status int, words string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":"Error","param":null,"code":%d}}`, words, status)
}

// info is what the recorded server said of itself under load.
func info(tb testing.TB) map[string]enginetest.Answer {
	tb.Helper()
	out := map[string]enginetest.Answer{"/metrics": {Status: 200, Body: metricsText(tb, "metrics-loaded")}}
	for path, name := range map[string]string{"/health": "info/health", "/v1/models": "info/v1-models", "/version": "info/version"} {
		rec := named(tb, name)
		out[path] = rec.Answer()
	}
	return out
}

func metricsText(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(recordedDir, "info", name+".txt"))
	require.NoError(tb, err)
	return string(text)
}

// named returns one of the recordings.
func named(tb testing.TB, name string) enginetest.Recording {
	tb.Helper()
	return enginetest.Named(tb, recordedDir, name)
}

// asking is what an answer depends on, in the words of any of the routes.
type asking struct {
	Prompt         []uint32 `json:"prompt"`
	TokenIDs       []uint32 `json:"token_ids"`
	MaxTokens      int      `json:"max_tokens"`
	Logprobs       any      `json:"logprobs"`
	ReturnTokenIDs bool     `json:"return_token_ids"`
	SamplingParams *asking  `json:"sampling_params"`
}

// askedIn reads the body of a request of either route.
func askedIn(body []byte) asking {
	var out asking
	_ = json.Unmarshal(body, &out) // a body that is no object asks for nothing
	if out.SamplingParams != nil {
		out.MaxTokens, out.Logprobs, out.Prompt = out.SamplingParams.MaxTokens, out.SamplingParams.Logprobs, out.TokenIDs
	}
	return out
}

// requestIn is the recorded request in the contract's words.
func requestIn(rec enginetest.Recording) engine.Request {
	req, asked := enginetest.Request(1<<20), askedIn(rec.Request.Body)
	if asked.MaxTokens > 0 {
		req.MaxTokens = asked.MaxTokens
	}
	if top, ok := asked.Logprobs.(float64); ok {
		n := int(top)
		req.TopLogprobs = &n
	}
	if rec.Request.Path == "/v1/chat/completions" {
		req.PromptTokens, req.ChatBody = nil, rec.Request.Body
	}
	return req
}
