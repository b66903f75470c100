package fakeengine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sse"
	"plimsoll/testbench/fakeengine"
	"plimsoll/testbench/shared"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/simmodel"
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
		Status   int
		Headers  [][2]string
		Body     json.RawMessage
		BodyFile string `json:"body_file"`
	}
}

func (r recording) body() string {
	if r.Request.BodyText != nil {
		return *r.Request.BodyText
	}
	return string(r.Request.Body)
}

func (r recording) header(name string) string {
	for _, h := range r.Response.Headers {
		if strings.EqualFold(h[0], name) {
			return h[1]
		}
	}
	return ""
}

// recordings calls test for each recorded exchange of a folder; unlike says which ones do not apply, and why.
func recordings(t *testing.T, folder string, unlike map[string]string, test func(t *testing.T, file string, r recording)) {
	t.Helper()
	for _, file := range shared.Glob(t, "testdata", "engines", "vllm", folder, "*.json") {
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "-")
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var r recording
		require.NoError(t, json.Unmarshal(raw, &r))
		if _, skip := unlike[name]; skip {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) { test(t, file, r) })
	}
}

// tinyServer serves as the recorded vLLM did: its tokenizer, context, blocks and seats.
func tinyServer(t *testing.T) *httptest.Server {
	t.Helper()
	dir := filepath.Dir(shared.Path(t, "testdata", "engines", "tiny-tokenizer", "tokenizer.json"))
	model, err := tokenizer.Load(os.DirFS(dir), dir, time.Now)
	require.NoError(t, err)
	source, err := simmodel.NewSource(model.Tokenizer)
	require.NoError(t, err)
	cfg := fakeengine.DefaultConfig()
	cfg.Engine.Sim.Model, cfg.Engine.Sim.Adapters = "tiny", []string{"lora-a", "lora-b"}
	cfg.Engine.Sim.BlockTokens, cfg.Engine.Sim.KVBlocks = 32, 256
	cfg.Engine.Sim.ContextTokens, cfg.Engine.Sim.Seats, cfg.Engine.Sim.BatchTokens = 2048, 16, 2048
	cfg.Engine.Speed = 20
	s, err := fakeengine.New(cfg, fakeengine.Deps{Model: model, Source: source, Entropy: entropy(), Now: time.Now})
	require.NoError(t, err)
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		require.NoError(t, s.Close())
		require.NoError(t, model.Close())
	})
	return web
}

func send(t *testing.T, web *httptest.Server, r recording) (status int, header http.Header, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.Request.Method, web.URL+r.Request.Path, strings.NewReader(r.body()))
	require.NoError(t, err)
	for name, value := range r.Request.Headers {
		req.Header.Set(name, value)
	}
	resp, err := web.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // only read from
	body, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, body
}

// shapeOf turns a JSON value into its form: names and types, lists as their first member's. What differs between two
// answers of one server (numbers, texts) is not in it.
func shapeOf(t *testing.T, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v), "%s", raw)
	return form(v)
}

func form(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			out[name] = form(member)
			if name == "top_logprobs" { // of a text completion: the names are tokens
				out[name] = "top"
			}
		}
		return out
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return []any{form(v[0])}
	case nil:
		return "null"
	default:
		return fmt.Sprintf("%T", v)
	}
}

// frames returns a stream's data, without what ends it.
func frames(t *testing.T, raw []byte) []string {
	t.Helper()
	var list []string
	r := sse.NewReader(bytes.NewReader(raw), sse.DefaultLimits())
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		list = append(list, string(e.Data))
	}
	require.NotEmpty(t, list)
	require.Equal(t, "[DONE]", list[len(list)-1])
	return list[:len(list)-1]
}

// kinds returns the forms of a stream's frames, each once, in the order of their first.
func kinds(t *testing.T, raw []byte) []any {
	t.Helper()
	var list []any
	for _, frame := range frames(t, raw) {
		shape := shapeOf(t, []byte(frame))
		if !slices.ContainsFunc(list, func(x any) bool { return equal(x, shape) }) {
			list = append(list, shape)
		}
	}
	return list
}

func equal(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// checkAnswer compares status, content type and form with what was recorded.
func checkAnswer(t *testing.T, web *httptest.Server, file string, r recording) {
	t.Helper()
	status, header, body := send(t, web, r)
	require.Equal(t, r.Response.Status, status, "%s", body)
	require.Equal(t, r.header("Content-Type"), header.Get("Content-Type"))
	switch {
	case r.Response.BodyFile != "":
		want, err := os.ReadFile(filepath.Join(filepath.Dir(file), r.Response.BodyFile))
		require.NoError(t, err)
		require.Equal(t, kinds(t, want), kinds(t, body))
	case len(r.Response.Body) == 0:
		require.Empty(t, body)
	default:
		require.Equal(t, shapeOf(t, r.Response.Body), shapeOf(t, body))
	}
}

// TestErrorsAreThoseRecorded: the same status, type, parameter and code, and the same words where they are values' ones.
func TestErrorsAreThoseRecorded(t *testing.T) {
	web := tinyServer(t)
	recordings(t, "errors", map[string]string{
		"30": "a simulated model has no grammars: it refuses structured_outputs in its own words",
		"31": "likewise, and before the stream begins",
		"34": "token IDs have 32 bits here; refused all the same",
		"35": "vllm_xargs are ignored",
		"37": "broken UTF-8 could not be recorded: TestBrokenUTF8",
		"40": "NaN is no JSON",
	}, func(t *testing.T, file string, r recording) {
		if r.Response.BodyFile != "" || r.Response.Status == http.StatusOK {
			checkAnswer(t, web, file, r)
			return
		}
		status, header, body := send(t, web, r)
		require.Equal(t, r.Response.Status, status, "%s", body)
		require.Equal(t, r.header("Allow"), header.Get("Allow"))
		type envelope struct {
			Error *struct {
				Message, Type string
				Param         *string
				Code          int
			}
			Detail string
		}
		var want, got envelope
		require.NoError(t, json.Unmarshal(r.Response.Body, &want))
		require.NoError(t, json.Unmarshal(body, &got))
		if want.Error != nil && strings.Contains(want.Error.Message, "validation error") {
			want.Error.Message, got.Error.Message = "", "" // Python's repr of its own objects
		}
		require.Equal(t, want, got)
	})
}

// Why a recording does not apply.
const (
	ownText   = "what ends the answer depends on the model's text: TestStops and its neighbours"
	notSpoken = "a simulated model is not constrained: refused in its own words"
	aborted   = "somebody aborts it: TestAbort"
)

func many(why string, names ...string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		out[name] = why
	}
	return out
}

func merged(maps ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range maps {
		for name, why := range m {
			out[name] = why
		}
	}
	return out
}

func TestCompletionsHaveTheFormRecorded(t *testing.T) {
	web := tinyServer(t)
	unlike := merged(many(ownText, "12", "13", "14", "15", "16", "18", "62", "64"), many(aborted, "57"),
		many(notSpoken, "24", "27", "28", "32", "51", "52", "56", "61"))
	recordings(t, "completions", unlike, func(t *testing.T, file string, r recording) {
		checkAnswer(t, web, file, r)
	})
}

func TestChatsHaveTheFormRecorded(t *testing.T) {
	web := tinyServer(t)
	recordings(t, "chat", many(notSpoken, "07", "08", "09", "10", "14"), func(t *testing.T, file string, r recording) {
		checkAnswer(t, web, file, r)
	})
}

func TestGenerateHasTheFormRecorded(t *testing.T) {
	web := tinyServer(t)
	unlike := merged(many(ownText, "09", "10", "11", "19", "40"), many(aborted, "36"), many(notSpoken, "18"))
	recordings(t, "generate", unlike, func(t *testing.T, file string, r recording) {
		checkAnswer(t, web, file, r)
	})
}

// TestTokenizeIsAsRecorded: the tokenizer is the recorded server's, so the answers are equal to the letter.
func TestTokenizeIsAsRecorded(t *testing.T) {
	web := tinyServer(t)
	recordings(t, "tokenize", map[string]string{
		"25": "Python's repr of its own objects in the message", "30": "not served: off by default in vLLM too",
	}, func(t *testing.T, _ string, r recording) {
		status, _, body := send(t, web, r)
		require.Equal(t, r.Response.Status, status, "%s", body)
		require.JSONEq(t, string(r.Response.Body), string(body))
	})
}
