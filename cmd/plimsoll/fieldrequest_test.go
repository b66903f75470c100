package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/fakeengine"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/simmodel"
)

// fakes are simulated vLLM servers that misbehave as they are told, and the flags that have them served.
func fakes(t *testing.T, n int, change func(*fakeengine.Config)) (engines []*fakeengine.Server, flags []string) {
	t.Helper()
	model, err := tokenizer.Load(simmodel.FS(), "embedded", time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, model.Close()) })
	source, err := simmodel.NewSource(model.Tokenizer)
	require.NoError(t, err)
	flags = []string{"--tokenizer", modelDir}
	for i := range n {
		cfg := fakeengine.DefaultConfig()
		cfg.Engine.Speed = 20
		if change != nil {
			change(&cfg)
		}
		e, err := fakeengine.New(cfg, fakeengine.Deps{Model: model, Source: source, Entropy: rand.Uint64, Now: time.Now})
		require.NoError(t, err)
		web := httptest.NewServer(e)
		t.Cleanup(func() {
			web.CloseClientConnections()
			web.Close()
			require.NoError(t, e.Close())
		})
		engines = append(engines, e)
		flags = append(flags, "--replica", fmt.Sprintf("vllm=%s,name=r%d,events=off", web.URL, i))
	}
	return engines, flags
}

// wrong makes all engines faulty.
func wrong(t *testing.T, engines []*fakeengine.Server, f fakeengine.Faults) {
	t.Helper()
	for _, e := range engines {
		require.NoError(t, e.SetFaults(f))
	}
}

// chat asks for a whole answer of four tokens.
func (s *server) chat(t *testing.T, model, words string) (status int, body string) {
	t.Helper()
	return s.status(t, http.MethodPost, "/v1/chat/completions",
		`{"model":"`+model+`","max_tokens":4,"ignore_eos":true,"messages":[{"role":"user","content":"`+words+`"}]}`)
}

// serves has others' chats answered, one after the other, so that each replica would have its turn if it were let.
func (s *server) serves(t *testing.T, replicas int) {
	t.Helper()
	for i := range 4 {
		code, body := s.chat(t, simmodel.Name, fmt.Sprintf("Number %d: say something nice.", i))
		require.Equal(t, http.StatusOK, code, body)
	}
	require.Equal(t, map[string]int{"ready": replicas}, s.states(t))
}

// TestField3AnAdapterIsGone: the engines list it and do not know it. That is that request's 404, and nobody else's trouble.
func TestField3AnAdapterIsGone(t *testing.T) {
	engines, flags := fakes(t, 2, func(c *fakeengine.Config) { c.Engine.Sim.Adapters = []string{"lora-a"} })
	s := start(t, flags...)
	s.awaitStates(t, map[string]int{"ready": 2})
	code, body := s.chat(t, "lora-a", "Tell me about the harbour.")
	require.Equal(t, http.StatusOK, code, body)
	wrong(t, engines, fakeengine.Faults{Refuses: &fakeengine.Refusal{Status: http.StatusNotFound, Model: new("lora-a")}})
	for range 3 {
		code, body = s.chat(t, "lora-a", "Tell me about the harbour.")
		require.Equal(t, http.StatusNotFound, code, body)
		require.Contains(t, body, `"code":"model_not_found"`)
		s.serves(t, 2)
	}
	wrong(t, engines, fakeengine.Faults{})
	require.Eventually(t, func() bool {
		code, _ := s.chat(t, "lora-a", "Tell me about the harbour.")
		return code == http.StatusOK
	}, time.Minute, 10*time.Millisecond, "it is offered again after a while")
}

// TestField4AFilterDislikesOneText: whatever it answers to that, it is an error of that chat alone, however often it is sent.
func TestField4AFilterDislikesOneText(t *testing.T) {
	engines, flags := fakes(t, 2, nil)
	s := start(t, flags...)
	s.awaitStates(t, map[string]int{"ready": 2})
	for _, status := range []int{401, 403, 307, 404, 405, 501} {
		wrong(t, engines, fakeengine.Faults{Refuses: &fakeengine.Refusal{Status: status, Text: new("harbour")}})
		for range 4 {
			code, body := s.chat(t, simmodel.Name, "Tell me about the harbour.")
			require.Equal(t, http.StatusBadGateway, code, body)
			require.Contains(t, body, fmt.Sprintf("status %d", status))
		}
		s.serves(t, 2)
	}
}

// TestField6AnAbsurdRetryAfter: it is capped, the reason is to be seen, and the replica is used again.
func TestField6AnAbsurdRetryAfter(t *testing.T) {
	engines, flags := fakes(t, 2, nil)
	s, operators := operated(t, append(flags, "--shed-most", "3s")...)
	s.awaitStates(t, map[string]int{"ready": 2})
	wrong(t, engines, fakeengine.Faults{Status: new(429), RetryAfterSeconds: new(3600), Times: new(1)})
	shed := make(chan string, 1)
	go func() { // it is tried on both
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(chatBody(simmodel.Name, "4")))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			shed <- err.Error()
			return
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		shed <- fmt.Sprint(res.StatusCode, string(body), err)
	}()
	s.awaitStates(t, map[string]int{"cooling": 2})
	code, _ := s.status(t, http.MethodGet, "/ready", "")
	require.Equal(t, http.StatusOK, code, "who waits a little is served")
	_, body := operators.status(t, http.MethodGet, "/admin/replicas", "")
	require.Equal(t, 2, strings.Count(body, `"state":"cooling"`), body)
	require.Equal(t, 2, strings.Count(body, "asked to be left alone for 1h0m0s: 3s is the most"), body)
	t.Log(<-shed)
	code, body = s.chat(t, simmodel.Name, "Tell me about the harbour.") // it waits for room
	require.Equal(t, http.StatusOK, code, body)
	s.awaitStates(t, map[string]int{"ready": 2})
	s.serves(t, 2)
}

// TestField13AReaderThatPauses: its engine is let go of meanwhile, and it finds an error event where its answer ends.
func TestField13AReaderThatPauses(t *testing.T) {
	engines, flags := fakes(t, 1, func(c *fakeengine.Config) { c.Engine.Speed = 10_000 })
	s := start(t, append(flags, "--journal-bytes", "100000", "--client-stall", "10m")...)
	s.awaitStates(t, map[string]int{"ready": 1})
	at, err := url.Parse(s.url)
	require.NoError(t, err)
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", at.Host)
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // all was read
	before := engines[0].Engine().Status().Steps
	ask := fmt.Sprintf(`{"model":%q,"stream":true,"ignore_eos":true,"logprobs":true,"top_logprobs":20,"max_tokens":30000,"messages":[{"role":"user","content":"hello"}]}`, simmodel.Name)
	_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(ask), ask)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // it reads nothing while its answer runs, and is cut
		status := engines[0].Engine().Status()
		return status.Steps > before && status.Running+status.Waiting == 0
	}, time.Minute, time.Millisecond)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.NotContains(t, string(body), "[DONE]")
	events := strings.Split(strings.TrimSpace(string(body)), "\n\n")
	var last struct {
		Error struct{ Code, Message string }
	}
	require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(events[len(events)-1], "data: ")), &last))
	require.Equal(t, "slow_reader", last.Error.Code)
	s.awaitLog(t, `"fault":"slow_reader"`)
	_, metrics := s.status(t, http.MethodGet, "/metrics", "")
	require.Contains(t, metrics, `plimsoll_ingress_faults_total{kind="slow_reader",route="chat"} 1`)
	require.Contains(t, metrics, `plimsoll_ingress_faults_total{kind="client_gone",route="chat"} 0`)
}

// TestField15AnAnswerWithoutAFinish: the only engine ends its answers in good order and leaves the finish out. They end with an error
// event at once, though an answer whose engine failed may wait for long, and it is no reason to be without a replica.
func TestField15AnAnswerWithoutAFinish(t *testing.T) {
	engines, flags := fakes(t, 1, nil)
	s := start(t, append(flags, "--resume-wait", "24h")...)
	s.awaitStates(t, map[string]int{"ready": 1})
	wrong(t, engines, fakeengine.Faults{EndAfterTokens: new(3)})
	for range 7 {
		code, body := s.status(t, http.MethodPost, "/v1/chat/completions", chatBody(simmodel.Name, "8"))
		require.Equal(t, http.StatusOK, code, body)
		require.Contains(t, body, `"code":"engine_failed"`)
		require.NotContains(t, body, "[DONE]")
		code, body = s.chat(t, simmodel.Name, "Tell me about the harbour.")
		require.Equal(t, http.StatusBadGateway, code, body)
	}
	require.Equal(t, map[string]int{"ready": 1}, s.states(t))
	wrong(t, engines, fakeengine.Faults{Trailing: new(true)}) // nor is what follows a finish a reason to break an answer
	for range 7 {
		s.serves(t, 1)
	}
}
