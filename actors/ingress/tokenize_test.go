package ingress

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/testbench/shared"
)

// recording is a request and its answer as they were recorded from vLLM.
type recording struct {
	Request struct {
		Method, Path string
		Headers      map[string]string
		Body         json.RawMessage
		BodyText     *string `json:"body_text"`
	}
	Response struct {
		Status int
		Body   json.RawMessage
	}
}

func readRecording(t *testing.T, path string) recording {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var r recording
	require.NoError(t, json.Unmarshal(raw, &r))
	return r
}

func (r recording) body() string {
	if r.Request.BodyText != nil {
		return *r.Request.BodyText
	}
	return string(r.Request.Body)
}

// TestTokenizeHasTheShapeOfRecordings: a front that finds the recorded IDs gives the recorded answer, member by member.
func TestTokenizeHasTheShapeOfRecordings(t *testing.T) {
	seen := 0
	for _, path := range shared.Glob(t, "testdata", "engines", "vllm", "tokenize", "*.json") {
		r := readRecording(t, path)
		if r.Request.Path != "/tokenize" || r.Response.Status != 200 {
			continue
		}
		seen++
		t.Run(filepath.Base(path), func(t *testing.T) {
			var want struct {
				Tokens    []uint32
				TokenStrs []string `json:"token_strs"`
			}
			require.NoError(t, json.Unmarshal(r.Response.Body, &want))
			front := newFront(nil)
			front.models[0].Name, front.models[0].ContextTokens = "tiny", 2048
			spelling := recordedTokenizer{}
			for i, s := range want.TokenStrs {
				spelling[want.Tokens[i]] = s
			}
			front.models[0].Tokenizer = spelling
			var asked stream.Input
			front.tokenize = func(in stream.Input) ([]Encoded, error) {
				asked = in
				return []Encoded{{IDs: want.Tokens}}, nil
			}
			rec := newEdge(t, testConfig(), front).do("POST", r.Request.Path, r.body())
			require.Equal(t, 200, rec.Code, "%s", rec.Body)
			require.JSONEq(t, string(r.Response.Body), rec.Body.String())
			if strings.Contains(r.body(), `"messages"`) {
				require.NotNil(t, asked.Chat)
			} else {
				require.True(t, asked.AddSpecial)
				require.Len(t, asked.Texts, 1)
			}
		})
	}
	require.Positive(t, seen)
}

// recordedTokenizer spells what a recording spells.
type recordedTokenizer map[uint32]string

func (r recordedTokenizer) Decode([]uint32, bool) (string, error) { return "", nil }
func (r recordedTokenizer) VocabSize() int                        { return 4096 }
func (r recordedTokenizer) Token(id uint32) (string, bool)        { s, ok := r[id]; return s, ok }

// TestRecordedRequestsAreNeverOurFault: whatever was once sent to a real engine gets an answer or a 4xx.
func TestRecordedRequestsAreNeverOurFault(t *testing.T) {
	seen := 0
	for _, folder := range []string{"chat", "completions", "errors", "tokenize"} {
		for _, path := range shared.Glob(t, "testdata", "engines", "vllm", folder, "*.json") {
			r := readRecording(t, path)
			if r.Request.Path == "" {
				continue
			}
			seen++
			front := newFront(says("x"))
			front.models[0].Name, front.models[0].Tokenizer = "tiny", recordedTokenizer{}
			front.tokenize = func(stream.Input) ([]Encoded, error) { return []Encoded{{}}, nil }
			var header []string
			for name, value := range r.Request.Headers {
				header = append(header, name, value)
			}
			rec := newEdge(t, testConfig(), front).do(r.Request.Method, r.Request.Path, r.body(), header...)
			require.Contains(t, []int{200, 400, 404, 405, 415}, rec.Code, "%s: %s", path, rec.Body)
			// A body without a type is taken as JSON; broken UTF-8 could not be recorded.
			taken := r.Request.Headers["Content-Type"] == "" || strings.Contains(r.body(), "\ufffd")
			if folder == "errors" && r.Response.Status >= 400 && rec.Code == 200 && !taken {
				require.Greater(t, len(r.body()), 2048, "%s: only what exceeds the engine's context is left to others", path)
			}
		}
	}
	require.Positive(t, seen)
}

func TestDetokenize(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(nil))
	rec := e.do("POST", "/detokenize", `{"model":"org/sim","tokens":[104,105,256,257,258,226]}`)
	require.JSONEq(t, `{"prompt":"hi the€<|end|>\ufffd"}`, rec.Body.String())
	require.JSONEq(t, `{"prompt":""}`, e.do("POST", "/detokenize", `{"tokens":[]}`).Body.String())
	for param, body := range map[string]string{
		"tokens":    `{"tokens":[259]}`,
		"tokens[0]": `{"tokens":[-1]}`,
		"tokens[1]": `{"tokens":[1,"a"]}`,
	} {
		rec := e.do("POST", "/detokenize", body)
		requireParam(t, rec.Code, rec.Body.Bytes(), param)
	}
	rec = e.do("POST", "/detokenize", `{}`)
	requireParam(t, rec.Code, rec.Body.Bytes(), "tokens")
	require.Equal(t, 404, e.do("POST", "/detokenize", `{"model":"x","tokens":[1]}`).Code)
}

func TestTokenizeFaults(t *testing.T) {
	front := newFront(nil)
	front.tokenize = func(stream.Input) ([]Encoded, error) {
		return nil, fault.Invalid("messages[0].content", "messages[0].content holds NUL")
	}
	e := newEdge(t, testConfig(), front)
	rec := e.do("POST", "/tokenize", `{"messages":[{}]}`)
	requireParam(t, rec.Code, rec.Body.Bytes(), "messages[0].content")
	for param, body := range map[string]string{
		"prompt":             `{"prompt":"a","messages":[{}]}`,
		"messages":           `{}`,
		"chat_template":      `{"messages":[{}],"chat_template":"x"}`,
		"add_special_tokens": `{"messages":[{}],"add_special_tokens":true}`,
		"return_token_strs":  `{"prompt":"a","return_token_strs":1}`,
	} {
		rec := e.do("POST", "/tokenize", body)
		requireParam(t, rec.Code, rec.Body.Bytes(), param)
	}
	front.tokenize = func(stream.Input) ([]Encoded, error) { return []Encoded{{IDs: []uint32{1, 257}}}, nil }
	rec = e.do("POST", "/tokenize", `{"prompt":"","return_token_strs":true}`)
	require.JSONEq(t, `{"count":2,"max_model_len":4096,"tokens":[1,257],"token_strs":["ā","âĤ¬"]}`, rec.Body.String())
}
