package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/enginetest"
)

// scripted is a vLLM server that says what it is told to, and answers every completion with one token.
type scripted struct {
	models  string // of /v1/models
	metrics string

	mu    sync.Mutex
	asked map[string]int // completions by rank, guarded by mu
}

// script is the server, for [enginetest.Serve].
func (v *scripted) script(s *enginetest.Session) {
	for more := true; more; more = s.Next() {
		answer := enginetest.Answer{Status: http.StatusOK}
		switch s.Request.URL.Path {
		case "/health":
		case "/v1/models":
			answer.Body = v.models
		case "/version":
			answer.Body = `{"version":"0.32.0"}`
		case "/metrics":
			answer.Body = v.metrics
		case "/v1/completions":
			v.mu.Lock()
			v.asked[s.Request.Header.Get("X-Data-Parallel-Rank")]++
			v.mu.Unlock()
			_ = s.Say(enginetest.StreamHeader,
				enginetest.Chunk(enginetest.Frame(`{"id":"1","object":"text_completion","choices":[{"index":0,"text":"a","finish_reason":null,"token_ids":[70]}]}`)),
				enginetest.Chunk(enginetest.Frame(`{"id":"1","object":"text_completion","choices":[{"index":0,"text":"","finish_reason":"length","token_ids":[]}]}`)),
				enginetest.Chunk(enginetest.Frame(`{"id":"1","choices":[],"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1}}`)),
				enginetest.Chunk(enginetest.Frame("[DONE]")), enginetest.LastChunk)
			continue
		default:
			answer.Status = http.StatusNotFound
		}
		s.Answer(answer)
	}
}

// scriptedOf is a server of a model with so many data-parallel ranks.
func scriptedOf(ranks int, names ...string) *scripted {
	v := &scripted{asked: map[string]int{}}
	var entries []string
	for _, name := range names {
		entries = append(entries, fmt.Sprintf(`{"id":%q,"object":"model","owned_by":"vllm","root":"/models/x","parent":null,"max_model_len":4096}`, name))
	}
	v.models = `{"object":"list","data":[` + strings.Join(entries, ",") + "]}"
	var metrics strings.Builder
	for rank := range ranks {
		fmt.Fprintf(&metrics, "vllm:cache_config_info{engine=\"%d\",block_size=\"16\",kv_cache_size_tokens=\"65536\"} 1\n", rank)
	}
	v.metrics = metrics.String()
	return v
}

// states are how many replicas are in each state.
func (s *server) states(t *testing.T) map[string]int {
	t.Helper()
	_, body := s.status(t, http.MethodGet, "/ready", "")
	var ready struct{ States map[string]int }
	require.NoError(t, json.Unmarshal([]byte(body), &ready), body)
	return ready.States
}

func (s *server) awaitStates(t *testing.T, want map[string]int) {
	t.Helper()
	require.Eventually(t, func() bool { return fmt.Sprint(s.states(t)) == fmt.Sprint(want) }, time.Minute, 10*time.Millisecond, "states %v", want)
}

// models are the names that are listed.
func (s *server) models(t *testing.T) (names []string) {
	t.Helper()
	_, body := s.status(t, http.MethodGet, "/v1/models", "")
	var list struct{ Data []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(body), &list), body)
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names
}

// collect reads the log until a line completes what is wanted.
func (s *server) collect(t *testing.T, done func(line string) bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line, more := <-s.log:
			require.True(t, more, "the server ended before it had said all")
			if done(line) {
				return
			}
		case <-late:
			require.Fail(t, "it was not said")
		}
	}
}

// operated starts a server with an edge for operators.
func operated(t *testing.T, args ...string) (s *server, operators server) {
	t.Helper()
	at := enginetest.ClosedPort(t)
	s = start(t, append([]string{"--admin-listen", strings.TrimPrefix(at, "http://")}, args...)...)
	operators = *s
	operators.url = at
	return s, operators
}

// order has a replica added.
func (s *server) order(t *testing.T, replica string) (code int, body string) {
	t.Helper()
	return s.status(t, http.MethodPost, "/admin/replicas", `{"replica":"`+replica+`"}`)
}

// Field input 5: two models behind one name. Only that of the replica listed first is served, and the other says both names.
func TestField5TwoModelsBehindOneName(t *testing.T) {
	a, b := scriptedOf(1, "llama-8b", "llama"), scriptedOf(1, "qwen-32b")
	s := start(t, "--tokenizer", modelDir, "--replica", "vllm="+enginetest.Serve(t, a.script)+",name=a",
		"--replica", "vllm="+enginetest.Serve(t, b.script)+",name=b")
	s.collect(t, func(line string) bool {
		return strings.Contains(line, `"replica alarm"`) && strings.Contains(line, `"replica":"b"`) &&
			strings.Contains(line, "llama-8b") && strings.Contains(line, "qwen-32b")
	})
	s.awaitStates(t, map[string]int{"ready": 1, "degraded": 1})
	require.Equal(t, []string{"llama-8b", "llama"}, s.models(t))
	for _, model := range []string{"llama-8b", "llama"} {
		for range 4 {
			res := s.call(t, http.MethodPost, "/v1/chat/completions", chatBody(model, "1")) //nolint:bodyclose // call closes it with the test
			require.Equal(t, http.StatusOK, res.StatusCode, "%s is a name of the model", model)
			require.Equal(t, "a", res.Header.Get("X-Plimsoll-Replica"))
		}
	}
	code, body := s.status(t, http.MethodPost, "/v1/chat/completions", chatBody("qwen-32b", "1"))
	require.Equal(t, http.StatusNotFound, code, body)
	require.Empty(t, b.asked)
}

// Field input 7: an engine of four ranks that is up later than we are is used at all of them, by its own name.
func TestField7AnEngineOfSeveralRanksComesUpLater(t *testing.T) {
	engine := scriptedOf(4, "org/big")
	at, up := enginetest.Late(t, engine.script)
	s := start(t, "--tokenizer", modelDir, "--replica", "vllm="+at)
	s.awaitStates(t, map[string]int{"down": 1})
	require.Equal(t, []string{"model"}, s.models(t), "the tokenizer's folder, for want of another")
	up()
	s.awaitStates(t, map[string]int{"ready": 4})
	require.Equal(t, []string{"org/big"}, s.models(t))
	var chats sync.WaitGroup
	var wrong atomic.Pointer[string]
	for i := range 16 {
		chats.Go(func() {
			body := `{"model":"org/big","max_tokens":1,"messages":[{"role":"user","content":"` + strings.Repeat(fmt.Sprint("word", i, " "), 60) + `"}]}`
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				panic(err)
			}
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			if err != nil || res.StatusCode != http.StatusOK {
				text := fmt.Sprint(res, err)
				wrong.Store(&text)
			}
			if err == nil {
				_ = res.Body.Close()
			}
		})
	}
	chats.Wait()
	require.Nil(t, wrong.Load())
	_, metrics := s.status(t, http.MethodGet, "/metrics", "")
	require.Contains(t, metrics, `plimsoll_router_queued_requests{model="org/big"} 0`)
	require.Contains(t, metrics, `plimsoll_ingress_completion_tokens_total{model="org/big"} 16`)
	require.NotContains(t, metrics, `model="model"`)
	engine.mu.Lock()
	defer engine.mu.Unlock()
	for _, rank := range []string{"0", "1", "2", "3"} {
		require.Positive(t, engine.asked[rank], "rank %s of %v", rank, engine.asked)
	}
}

// Field input 11: a URL as clients write it is understood, and a server of another kind is told by path, status and kind.
func TestField11WhatIsAtTheOtherEnd(t *testing.T) {
	engine := scriptedOf(1, "m")
	args := []string{"--tokenizer", modelDir, "--replica", "vllm=" + enginetest.Serve(t, engine.script) + "//v1/,name=right"}
	want := map[string]string{
		"Ollama":       "asked GET /health, got 404",
		"TGI":          "asked GET /v1/models, got 200 and models that are owned by",
		"SGLang":       "asked GET /metrics, got 404",
		"TensorRT-LLM": "asked GET /metrics, got 200 with",
		"a page":       "asked GET /v1/models, got 200 with",
		"a redirect":   "asked GET /health, got 302",
	}
	strangers := enginetest.Strangers()
	require.Len(t, want, len(strangers))
	for name, stranger := range strangers {
		args = append(args, "--replica", "vllm="+enginetest.Serve(t, stranger.Serve)+",name="+strings.ReplaceAll(name, " ", "-"))
	}
	s := start(t, args...)
	s.collect(t, func(line string) bool {
		for name, words := range want {
			if strings.Contains(line, `"replica state"`) && strings.Contains(line, `"replica":"`+strings.ReplaceAll(name, " ", "-")+`"`) {
				require.Contains(t, line, words)
				require.Contains(t, line, "is this a vllm server? (kinds: llamacpp, vllm, sim)")
				delete(want, name)
			}
		}
		return len(want) == 0
	})
	s.awaitReady(t)
	code, body := s.status(t, http.MethodPost, "/v1/chat/completions", chatBody("m", "1"))
	require.Equal(t, http.StatusOK, code, body)
}

// mute accepts and never answers. Its first client has given up once the channel is closed.
func mute(t *testing.T) (at string, asked, givenUp chan struct{}) {
	t.Helper()
	asked, givenUp = make(chan struct{}), make(chan struct{})
	at = enginetest.Serve(t, func(s *enginetest.Session) {
		if s.Number == 0 {
			close(asked)
			defer close(givenUp)
		}
		s.Gone()
	})
	return at, asked, givenUp
}

// Field input 14: a peer that accepts and never answers keeps nobody waiting, at the start or when it is added.
func TestField14APeerThatNeverAnswers(t *testing.T) {
	at, asked, givenUp := mute(t)
	s := start(t, "--tokenizer", modelDir, "--replica", "vllm="+at, "--replica", "llamacpp="+at+"/other")
	code, body := s.status(t, http.MethodGet, "/health", "")
	require.Equal(t, http.StatusOK, code, body)
	for len(s.log) > 0 {
		require.NotContains(t, <-s.log, `"level":"WARN"`, "nothing was waited for that could have failed")
	}
	<-asked
	select {
	case <-givenUp:
		require.Fail(t, "the answer came after somebody had waited in vain")
	default:
	}
	s.signal(t, syscall.SIGTERM)
	require.Zero(t, s.exit(t))
}

// The same when it is added to a node that runs; and ranks are found then as at the start.
func TestField14APeerThatNeverAnswersIsAdded(t *testing.T) {
	at, asked, givenUp := mute(t)
	engine := scriptedOf(3, "m")
	late, up := enginetest.Late(t, engine.script)
	_, operators := operated(t, "--tokenizer", modelDir, "--replica", "vllm="+enginetest.Serve(t, scriptedOf(1, "m").script))
	code, body := operators.order(t, "vllm="+at)
	require.Equal(t, http.StatusCreated, code, body)
	<-asked
	select {
	case <-givenUp:
		require.Fail(t, "the answer came after somebody had waited in vain")
	default:
	}
	code, body = operators.order(t, "vllm="+late)
	require.Equal(t, http.StatusCreated, code, body)
	up()
	require.Eventually(t, func() bool { return len(operators.engines(t, operators.url)) == 2+3 }, time.Minute, 10*time.Millisecond, "each rank is a replica")
	_, body = operators.status(t, http.MethodGet, "/admin/replicas", "")
	require.Contains(t, body, `"identity":"vllm=`+strings.Replace(late, "127.0.0.1", "localhost", 1)+`#2"`, "an operator is told what a name stands for")
}

// One engine under two names is refused where the names show it, and found out by the process that answers where they do not.
func TestOneEngineUnderTwoNames(t *testing.T) {
	engine := launch(t, "sim", "--listen", "0.0.0.0:0")
	u, err := url.Parse(engine.url)
	require.NoError(t, err)
	at := func(host string) string { return "vllm=http://" + host + ":" + u.Port() }
	code, _, stderr := plimsoll(t, "", "serve", "--tokenizer", modelDir, "--replica", at("127.0.0.1"), "--replica", at("localhost"))
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "are the same engine, at http://127.0.0.1:"+u.Port()+" and http://localhost:"+u.Port())

	s, operators := operated(t, "--tokenizer", modelDir, "--replica", at("127.0.0.1")+",name=a", "--replica", at("127.0.0.2")+",name=b")
	s.collect(t, func(line string) bool {
		return strings.Contains(line, "its engine is that of replica a: the same process answers both")
	})
	s.awaitStates(t, map[string]int{"ready": 1, "degraded": 1})
	for range 4 {
		res := s.call(t, http.MethodPost, "/v1/chat/completions", chatBody("plimsoll-sim", "1")) //nolint:bodyclose // call closes it with the test
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, "a", res.Header.Get("X-Plimsoll-Replica"))
	}
	code, body := operators.order(t, at("localhost")+",name=c")
	require.Equal(t, http.StatusBadRequest, code, body)
	require.Contains(t, body, "are the same engine")
	code, body = operators.order(t, at("127.0.0.3")+",name=d")
	require.Equal(t, http.StatusCreated, code, body)
	s.awaitStates(t, map[string]int{"ready": 1, "degraded": 2})
}
