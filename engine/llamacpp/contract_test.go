package llamacpp

import (
	"encoding/json"
	"fmt"
	"log/slog"
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
	enginetest.Run(t, enginetest.Subject{Wire: protocol(t)})
}

// recordedDir holds what real servers said.
var recordedDir = filepath.Join("testdata", "recorded")

const lastFrame = `data: {"index":0,"content":"","tokens":[],"stop":true,"stop_type":"limit","timings":{"cache_n":2}}` + "\n\n"

// protocol is how a llama-server speaks.
func protocol(tb testing.TB) *enginetest.Wire {
	tb.Helper()
	info := map[string]enginetest.Answer{}
	for path, name := range map[string]string{"/health": "info/health", "/props": "info/props", "/metrics": "info/metrics-busy"} {
		rec := named(tb, name)
		info[path] = rec.Answer()
	}
	return &enginetest.Wire{
		Open:   open,
		Token:  tokenFrame,
		Finish: lastFrame,
		Error: func(status int, words string) string {
			return fmt.Sprintf(`{"error":{"code":%d,"message":%q}}`, status, words)
		},
		MaxTokens: func(body []byte) int { return askedIn(body).NPredict },
		FirstID:   func(body []byte) uint32 { return askedIn(body).Prompt[0] },
		Info:      info,
		Quiet: []string{
			":\n\n", "data: null\n\n",
			`data: {"content":"","tokens":[0],"stop":false,"tokens_predicted":0,"prompt_progress":{"total":3,"cache":2}}` + "\n\n",
		},
		Foreign: []string{
			`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\ndata: [DONE]\n\n",
			"event: message_start\ndata: {\"type\":\"message_start\"}\n\n",
			"data: []\n\n", "data: 7\n\n", "data: {\n\n", "data: {\"tokens\":[-1],\"stop\":false}\n\n",
			"data: {\"tokens\":[4294967296],\"stop\":false}\n\n", "data: {\"tokens\":\"x\",\"stop\":false}\n\n", "data: {\"stop\":\"yes\"}\n\n",
		},
		Recorded: &enginetest.Recorded{
			Dir:         recordedDir,
			Shared:      func(tb testing.TB) string { tb.Helper(); return shared.Path(tb, "testdata", "engines", "llamacpp") },
			Path:        "/completion",
			Ask:         requestIn,
			Conclusions: conclusions(),
		},
	}
}

// open returns an adapter that the caller closes.
func open(tb testing.TB, cfg wire.Config, dial wire.Dial) engine.Engine {
	tb.Helper()
	c := DefaultConfig()
	c.Config = cfg
	e, err := New(c, Deps{Dial: dial, Log: slog.New(slog.DiscardHandler)})
	require.NoError(tb, err)
	return e
}

// tokenFrame is the frame of the n-th token.
func tokenFrame(id uint32, n int) string {
	return enginetest.Frame(fmt.Sprintf(`{"index":0,"content":" x","tokens":[%d],"stop":false,"id_slot":-1,"tokens_predicted":%d,"tokens_evaluated":3}`, id, n))
}

// named returns one of the recordings.
func named(tb testing.TB, name string) enginetest.Recording {
	tb.Helper()
	return enginetest.Named(tb, recordedDir, name)
}

// asking is what an answer depends on.
type asking struct {
	Prompt   []uint32 `json:"prompt"`
	NPredict int      `json:"n_predict"`
	NProbs   *int     `json:"n_probs"`
}

// askedIn is what a body asks for, as far as an answer depends on it.
func askedIn(body []byte) (out asking) {
	_ = json.Unmarshal(body, &out) // a body that is no object, or of another route, asks for nothing
	return out
}

// requestIn is the recorded request in the contract's words.
func requestIn(rec enginetest.Recording) engine.Request {
	req := enginetest.Request(1 << 20)
	body := map[string]json.RawMessage{}
	_ = json.Unmarshal(rec.Request.Body, &body)
	if _, ok := body["n_predict"]; ok && askedIn(rec.Request.Body).NPredict >= 0 {
		req.MaxTokens = max(1, askedIn(rec.Request.Body).NPredict)
	}
	req.TopLogprobs = askedIn(rec.Request.Body).NProbs
	return req
}
