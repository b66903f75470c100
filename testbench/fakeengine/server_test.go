package fakeengine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sim"
	"plimsoll/testbench/fakeengine"
	"plimsoll/testbench/shared"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/simmodel"
)

// fake is a served engine of the embedded model.
type fake struct {
	*fakeengine.Server
	web    *httptest.Server
	source sim.TokenSource
}

// embedded loads the embedded model and its text; the caller closes the model.
func embedded(tb testing.TB) (*tokenizer.Model, sim.TokenSource) {
	tb.Helper()
	model, err := tokenizer.Load(simmodel.FS(), "embedded", time.Now)
	require.NoError(tb, err)
	source, err := simmodel.NewSource(model.Tokenizer)
	require.NoError(tb, err)
	return model, source
}

// serve starts a small engine; change alters its configuration.
func serve(t *testing.T, change func(*fakeengine.Config)) fake {
	t.Helper()
	model, source := embedded(t)
	cfg := fakeengine.DefaultConfig()
	cfg.Engine.Speed = 20
	if change != nil {
		change(&cfg)
	}
	s, err := fakeengine.New(cfg, fakeengine.Deps{Model: model, Source: source, Entropy: entropy(), Now: time.Now})
	require.NoError(t, err)
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		require.NoError(t, s.Close())
		require.NoError(t, model.Close())
	})
	return fake{s, web, source}
}

// reply is an answer that is being sent; it ends with the test.
type reply struct {
	status int
	*bufio.Reader
}

// open sends a request and leaves its answer to the caller.
func (f fake) open(t *testing.T, method, path, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.web.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := f.web.Client().Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return reply{resp.StatusCode, bufio.NewReader(resp.Body)}
}

// call returns status and body of a whole answer.
func (f fake) call(t *testing.T, method, path, body string, header ...string) (int, string) {
	t.Helper()
	r := f.open(t, method, path, body, header...)
	raw, err := io.ReadAll(r)
	require.NoError(t, err)
	return r.status, string(raw)
}

// piece is a frame of a completion or of generate, as far as tests look at it.
type piece struct {
	ID      string
	Choices []struct {
		Index      int
		Text       string
		TokenIDs   []uint32 `json:"token_ids"`
		Finish     *string  `json:"finish_reason"`
		StopReason any      `json:"stop_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error *struct {
		Type string
		Code int
	}
}

func pieces(t *testing.T, raw string) []piece {
	t.Helper()
	var list []piece
	for _, frame := range frames(t, []byte(raw)) {
		var p piece
		require.NoError(t, json.Unmarshal([]byte(frame), &p))
		list = append(list, p)
	}
	return list
}

// told is what a stream said in all.
type told struct {
	text, finish string
	ids          []uint32
	stop         any
}

func gather(t *testing.T, raw string) (sum told, lags []int) {
	t.Helper()
	for _, p := range pieces(t, raw) {
		require.Nil(t, p.Error)
		for _, c := range p.Choices {
			sum.text += c.Text
			sum.ids = append(sum.ids, c.TokenIDs...)
			if c.Finish != nil {
				sum.finish, sum.stop = *c.Finish, c.StopReason
			}
			lags = append(lags, len(sum.text))
		}
	}
	return sum, lags
}

const greedy = `"prompt":"The tide at Hull","temperature":0,"ignore_eos":true,"stream":true,"return_token_ids":true`

func TestStops(t *testing.T) {
	f := serve(t, nil)
	_, raw := f.call(t, "POST", "/v1/completions", `{`+greedy+`,"max_tokens":40}`)
	plain, at := gather(t, raw)
	require.Equal(t, "length", plain.finish)
	require.Len(t, plain.ids, 40)
	word := plain.text[at[20]-3 : at[20]+2]
	end := strings.Index(plain.text, word)
	require.Positive(t, end)
	quoted, err := json.Marshal([]string{"never said", word})
	require.NoError(t, err)

	t.Run("a string ends it, and text lags as the longest of them", func(t *testing.T) {
		_, raw := f.call(t, "POST", "/v1/completions", `{`+greedy+`,"max_tokens":40,"stop":`+string(quoted)+`}`)
		got, behind := gather(t, raw)
		require.Equal(t, told{text: plain.text[:end], finish: "stop", ids: plain.ids[:len(got.ids)], stop: word}, got)
		for i := range len(behind) - 1 {
			require.Equal(t, max(0, at[i]-len("never said")+1), behind[i], "frame %d", i)
		}
	})
	t.Run("include keeps it", func(t *testing.T) {
		_, raw := f.call(t, "POST", "/v1/completions",
			`{`+greedy+`,"max_tokens":40,"include_stop_str_in_output":true,"stop":`+string(quoted)+`}`)
		got, _ := gather(t, raw)
		require.Equal(t, plain.text[:end+len(word)], got.text)
	})
	t.Run("an ID ends it and is told, without text", func(t *testing.T) {
		id := plain.ids[7]
		_, raw := f.call(t, "POST", "/v1/completions", `{`+greedy+`,"max_tokens":40,"stop_token_ids":[`+strconv.Itoa(int(id))+`]}`)
		got, _ := gather(t, raw)
		require.Equal(t, "stop", got.finish)
		require.InDelta(t, float64(id), got.stop, 0)
		require.Equal(t, id, got.ids[len(got.ids)-1])
		require.Equal(t, plain.text[:at[len(got.ids)-2]], got.text)
	})
	t.Run("generate cuts nothing and says which", func(t *testing.T) {
		_, raw := f.call(t, "POST", "/tokenize", `{"prompt":"The tide at Hull"}`)
		var prompt struct{ Tokens json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(raw), &prompt))
		_, raw = f.call(t, "POST", "/inference/v1/generate", `{"token_ids":`+string(prompt.Tokens)+
			`,"stream":true,"sampling_params":{"temperature":0,"ignore_eos":true,"max_tokens":40,"stop":`+string(quoted)+`}}`)
		got, _ := gather(t, raw)
		require.Equal(t, told{finish: "stop", ids: plain.ids[:len(got.ids)], stop: word}, got)
	})
	t.Run("min_tokens holds them off", func(t *testing.T) {
		_, raw := f.call(t, "POST", "/v1/completions", `{`+greedy+`,"max_tokens":40,"min_tokens":39,"stop":`+string(quoted)+`}`)
		got, _ := gather(t, raw)
		require.Equal(t, "length", got.finish)
	})
}

func TestSeveralChoices(t *testing.T) {
	f := serve(t, nil)
	_, raw := f.call(t, "POST", "/v1/completions", `{"prompt":[[1,2,3],[4,5]],"n":2,"seed":7,"max_tokens":5,"stream":true,
		"return_token_ids":true,"stream_options":{"include_usage":true}}`)
	ids := map[int][]uint32{}
	list := pieces(t, raw)
	for _, p := range list {
		for _, c := range p.Choices {
			ids[c.Index] = append(ids[c.Index], c.TokenIDs...)
		}
	}
	require.Len(t, ids, 4)
	require.NotEqual(t, ids[0], ids[1], "each draws with a seed of its own")
	last := list[len(list)-1].Usage
	require.Equal(t, 5, last.Prompt, "a prompt counts once")
	require.Equal(t, 20, last.Completion)
}

func TestAbort(t *testing.T) {
	f := serve(t, func(c *fakeengine.Config) { c.Engine.Speed = 1 })
	for id, call := range map[string][2]string{
		"generate-tokens-me": {"/inference/v1/generate", `{"token_ids":[1,2,3],"stream":true,"sampling_params":{"ignore_eos":true},"stream_options":{"include_usage":true}}`},
		"cmpl-me-0":          {"/v1/completions", `{"prompt":[1,2,3],"stream":true,"ignore_eos":true,"max_tokens":9999,"return_token_ids":true,"stream_options":{"include_usage":true}}`},
	} {
		reader := f.open(t, "POST", call[0], call[1], "X-Request-Id", "me")
		first, err := reader.ReadString('\n')
		require.NoError(t, err)
		status, body := f.call(t, "POST", "/inference/v1/abort_requests", `{"request_ids":["nobody","`+id+`"]}`)
		require.Equal(t, 200, status)
		require.Empty(t, body)
		rest, err := io.ReadAll(reader)
		require.NoError(t, err)
		list := pieces(t, first+string(rest))
		require.GreaterOrEqual(t, len(list), 3)
		ended := list[len(list)-2].Choices[0]
		require.Equal(t, "abort", *ended.Finish)
		require.NotNil(t, ended.TokenIDs)
		require.Empty(t, ended.TokenIDs)
		require.Positive(t, list[len(list)-1].Usage.Completion)
	}
	status, body := f.call(t, "POST", "/inference/v1/abort_requests", `{}`)
	require.Equal(t, 400, status)
	require.JSONEq(t, `{"error":{"message":"Missing 'request_ids' in request body","type":"Bad Request","param":null,"code":400}}`, body)
}

// value reads one sample of /metrics.
func (f fake) value(t *testing.T, name string) float64 {
	t.Helper()
	_, text := f.call(t, "GET", "/metrics", "")
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(?:\{[^}]*\})? (\S+)$`).FindStringSubmatch(text)
	require.NotNil(t, m, "no %s in\n%s", name, text)
	v, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	return v
}

func TestAClientThatHangsUpAborts(t *testing.T) {
	f := serve(t, func(c *fakeengine.Config) { c.Engine.Speed = 1 })
	for _, body := range []string{
		`{"prompt":[1,2,3],"stream":true,"ignore_eos":true,"max_tokens":100000}`,
		`{"prompt":[1,2,3],"ignore_eos":true,"max_tokens":100000}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.web.URL+"/v1/completions", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if resp, err := f.web.Client().Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
		require.Eventually(t, func() bool { return f.value(t, "vllm:num_requests_running") == 1 }, time.Minute, time.Millisecond)
		cancel()
		<-gone
		require.Eventually(t, func() bool { return f.value(t, "vllm:num_requests_running") == 0 }, time.Minute, time.Millisecond)
		require.Zero(t, f.value(t, "vllm:kv_cache_usage_perc"))
	}
	_, text := f.call(t, "GET", "/metrics", "")
	require.Contains(t, text, `vllm:request_success_total{engine="0",finished_reason="abort",model_name="plimsoll-sim"} 0`)
}

func TestMetricsCount(t *testing.T) {
	f := serve(t, func(c *fakeengine.Config) { c.Engine.Sim.KVBlocks = 101 })
	prompt := strings.TrimSuffix(strings.Repeat("7,", 40), ",")
	for range 2 {
		status, _ := f.call(t, "POST", "/v1/completions", `{"prompt":[`+prompt+`],"max_tokens":8,"ignore_eos":true}`)
		require.Equal(t, 200, status)
	}
	require.EqualValues(t, 80, f.value(t, "vllm:prompt_tokens_total"))
	require.EqualValues(t, 80, f.value(t, "vllm:prefix_cache_queries_total"))
	require.EqualValues(t, 32, f.value(t, "vllm:prefix_cache_hits_total"))
	require.EqualValues(t, 16, f.value(t, "vllm:generation_tokens_total"))
	require.Zero(t, f.value(t, "vllm:num_preemptions_total"))
	require.GreaterOrEqual(t, f.value(t, "vllm:iteration_tokens_total_count"), 16.0)
	require.InDelta(t, float64(time.Now().Unix()), f.value(t, "process_start_time_seconds"), 600)
	_, text := f.call(t, "GET", "/metrics", "")
	require.Contains(t, text, `num_gpu_blocks="101"`)
	require.Contains(t, text, `kv_cache_size_tokens="1616"`)
	require.Contains(t, text, `block_size="16"`)
}

func TestBrokenUTF8(t *testing.T) {
	status, body := serve(t, nil).call(t, "POST", "/v1/completions", "{\"prompt\":\"\xff\xfe\",\"max_tokens\":1}")
	require.Equal(t, 400, status)
	require.JSONEq(t, `{"detail":"There was an error parsing the body"}`, body)
}

func TestGenerateCanBeOff(t *testing.T) {
	f := serve(t, func(c *fakeengine.Config) { c.Generate = false })
	for _, path := range []string{"/inference/v1/generate", "/inference/v1/abort_requests"} {
		status, body := f.call(t, "POST", path, `{}`)
		require.Equal(t, 403, status)
		require.Contains(t, body, `"type":"PermissionDeniedError"`)
	}
}

func TestAFullQueueSheds(t *testing.T) {
	f := serve(t, func(c *fakeengine.Config) {
		c.Engine.Speed = 1
		c.Engine.Sim.Seats, c.Engine.Sim.WaitingMax = 1, 1
	})
	endless := `{"prompt":[1,2,3],"stream":true,"ignore_eos":true,"max_tokens":100000}`
	f.open(t, "POST", "/v1/completions", endless)
	f.open(t, "POST", "/v1/completions", endless)
	require.Eventually(t, func() bool { return f.value(t, "vllm:num_requests_waiting") == 1 }, time.Minute, time.Millisecond)
	status, body := f.call(t, "POST", "/v1/completions", endless)
	require.Equal(t, 503, status)
	require.Contains(t, body, `"type":"Service Unavailable","param":null,"code":503`)
}

// TestADeadEngine: streams get an error frame and [DONE], the rest 500; /health sees it and /v1/models does not.
func TestADeadEngine(t *testing.T) {
	f := serve(t, func(c *fakeengine.Config) { c.Engine.Speed = 1 })
	reader := f.open(t, "POST", "/v1/completions", `{"prompt":[1,2,3],"stream":true,"ignore_eos":true,"max_tokens":100000}`)
	first, err := reader.ReadString('\n')
	require.NoError(t, err)
	f.Engine().Kill()
	rest, err := io.ReadAll(reader)
	require.NoError(t, err)
	list := pieces(t, first+string(rest))
	require.Equal(t, 500, list[len(list)-1].Error.Code)
	status, _ := f.call(t, "POST", "/v1/completions", `{"prompt":[1]}`)
	require.Equal(t, 500, status)
	status, body := f.call(t, "GET", "/health", "")
	require.Equal(t, 503, status)
	require.Empty(t, body)
	status, _ = f.call(t, "GET", "/v1/models", "")
	require.Equal(t, 200, status)
}

func TestShutdownLetsRunningRequestsEnd(t *testing.T) {
	f := serve(t, nil)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- f.Serve(l) }()
	f.web.URL = "http://" + l.Addr().String()
	reader := f.open(t, "POST", "/v1/completions", `{"prompt":[1,2,3],"stream":true,"ignore_eos":true,"max_tokens":300}`)
	first, err := reader.ReadString('\n')
	require.NoError(t, err)
	down := make(chan error, 1)
	go func() { down <- f.Shutdown(t.Context()) }()
	rest, err := io.ReadAll(reader)
	require.NoError(t, err)
	got, _ := gather(t, first+string(rest))
	require.Equal(t, "length", got.finish)
	require.NoError(t, <-down)
	require.NoError(t, <-served)
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	require.Error(t, err, "nobody listens")
}

func TestShutdownInHasteGivesAnErrorFrame(t *testing.T) {
	f := serve(t, func(c *fakeengine.Config) { c.Engine.Speed = 1 })
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- f.Serve(l) }()
	f.web.URL = "http://" + l.Addr().String()
	reader := f.open(t, "POST", "/v1/completions", `{"prompt":[1,2,3],"stream":true,"ignore_eos":true,"max_tokens":100000}`)
	first, err := reader.ReadString('\n')
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.Shutdown(ctx), context.Canceled)
	rest, err := io.ReadAll(reader)
	require.NoError(t, err)
	list := pieces(t, first+string(rest))
	require.Equal(t, 500, list[len(list)-1].Error.Code)
	require.NoError(t, <-served)
}

func TestConfigIsValidated(t *testing.T) {
	cfg := fakeengine.DefaultConfig()
	require.NoError(t, cfg.Validate())
	cfg.LegsMax = 0
	require.Error(t, cfg.Validate())
	_, err := fakeengine.New(fakeengine.DefaultConfig(), fakeengine.Deps{})
	require.ErrorContains(t, err, "Model")
}

// TestAnyTokenizerWillDo: where a tokenizer has no words for prose, ordinary tokens are drawn and an answer may end; where a
// model has no template, chats are refused as vLLM does.
func TestAnyTokenizerWillDo(t *testing.T) {
	dir := filepath.Dir(shared.Path(t, "testdata", "tokenizers", "llama2", "tokenizer_config.json"))
	model, err := tokenizer.Load(os.DirFS(dir), dir, time.Now)
	require.NoError(t, err)
	source := fakeengine.Source(model)
	require.NotEmpty(t, model.Ends())
	require.Contains(t, model.Ends(), source.EOS())
	ends := 0
	for digest := range uint64(5000) {
		id := source.Next(nil, digest*0x9e3779b97f4a7c15)
		require.Less(t, int(id), source.VocabSize())
		require.False(t, model.IsSpecial(id), "%d", id)
		if source.Ends([]uint32{id}, digest) {
			ends++
		}
	}
	require.Positive(t, ends)

	cfg := fakeengine.DefaultConfig()
	cfg.Engine.Speed = 20
	s, err := fakeengine.New(cfg, fakeengine.Deps{Model: model, Source: source, Entropy: entropy(), Now: time.Now})
	require.NoError(t, err)
	f := fake{Server: s, web: httptest.NewServer(s)}
	t.Cleanup(func() {
		f.web.Close()
		require.NoError(t, s.Close())
		require.NoError(t, model.Close())
	})
	status, body := f.call(t, "POST", "/v1/completions", `{"prompt":"The tide","max_tokens":5,"ignore_eos":true}`)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"completion_tokens":5`)
	status, body = f.call(t, "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}]}`)
	require.Equal(t, 400, status)
	require.Contains(t, body, "chat template")
}
