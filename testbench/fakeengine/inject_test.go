package fakeengine_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/fakeengine"
)

const endless = `{"prompt":"Hello","max_tokens":30000,"ignore_eos":true,"stream":true}`

func p[T any](v T) *T { return &v }

// line reads until a line of data comes.
func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	for {
		text, err := r.ReadString('\n')
		require.NoError(t, err)
		if data, ok := strings.CutPrefix(text, "data: "); ok {
			return data
		}
	}
}

func TestInjectedStatus(t *testing.T) {
	f := serve(t, nil)
	require.NoError(t, f.SetFaults(fakeengine.Faults{Status: p(429), RetryAfterSeconds: p(7)}))
	for path, body := range map[string]string{
		"/v1/completions":        endless,
		"/v1/chat/completions":   `{"messages":[{"role":"user","content":"hi"}]}`,
		"/inference/v1/generate": `{"token_ids":[1],"sampling_params":{"max_tokens":1}}`,
	} {
		status, said := f.call(t, "POST", path, body)
		require.Equal(t, 429, status)
		require.Contains(t, said, `"code":429`)
	}
	status, _ := f.call(t, "GET", "/health", "")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, f.SetFaults(fakeengine.Faults{}))
	status, _ = f.call(t, "POST", "/v1/completions", `{"prompt":"Hello","max_tokens":1}`)
	require.Equal(t, http.StatusOK, status)
}

// TestInjectedRefusals: some requests are refused, for what they are or because they come first, and others are served.
func TestInjectedRefusals(t *testing.T) {
	f := serve(t, func(c *fakeengine.Config) { c.Engine.Sim.Adapters = []string{"lora-a"} })
	ask := func(model, prompt string) (int, string) {
		return f.call(t, "POST", "/v1/completions", `{"model":"`+model+`","prompt":"`+prompt+`","max_tokens":1}`)
	}
	base := fakeengine.DefaultConfig().Engine.Sim.Model
	require.NoError(t, f.SetFaults(fakeengine.Faults{Refuses: &fakeengine.Refusal{Status: 403, Text: p("harbour")}}))
	status, _ := ask(base, "Tell me about the harbour.")
	require.Equal(t, 403, status)
	status, _ = ask(base, "Tell me about the sea.")
	require.Equal(t, 200, status)
	require.NoError(t, f.SetFaults(fakeengine.Faults{Refuses: &fakeengine.Refusal{Status: 404, Model: p("lora-a")}}))
	status, said := ask("lora-a", "Hello")
	require.Equal(t, 404, status)
	require.Contains(t, said, `"param":"model"`)
	status, _ = ask(base, "Hello")
	require.Equal(t, 200, status)
	_, said = f.call(t, "GET", "/v1/models", "")
	require.Contains(t, said, "lora-a", "it lists it all the same")
	require.NoError(t, f.SetFaults(fakeengine.Faults{Status: p(429), Times: p(2)}))
	for _, want := range []int{429, 429, 200} {
		status, _ = ask(base, "Hello")
		require.Equal(t, want, status)
	}
}

// TestInjectedEnds: an answer without a finish, and one that goes on after it.
func TestInjectedEnds(t *testing.T) {
	f := serve(t, nil)
	ask := func(faults fakeengine.Faults) string {
		require.NoError(t, f.SetFaults(faults))
		status, said := f.call(t, "POST", "/v1/completions", `{"prompt":"Hello","max_tokens":3,"ignore_eos":true,"stream":true}`)
		require.Equal(t, 200, status)
		return said
	}
	said := ask(fakeengine.Faults{EndAfterTokens: p(2)})
	require.Equal(t, 2, strings.Count(said, `"text"`))
	require.NotContains(t, said, `"length"`)
	require.NotContains(t, said, "[DONE]")
	said = ask(fakeengine.Faults{Trailing: p(true)})
	_, after, finished := strings.Cut(said, `"length"`)
	require.True(t, finished)
	require.Contains(t, after, `"index":1`)
	require.Contains(t, after, "[DONE]")
}

// Three tokens come; the others when the fault is lifted.
func TestInjectedHangAfterTokens(t *testing.T) {
	f := serve(t, nil)
	require.NoError(t, f.SetFaults(fakeengine.Faults{HangAfterTokens: p(3)}))
	r := f.open(t, "POST", "/v1/completions", `{"prompt":"Hello","max_tokens":5,"ignore_eos":true,"stream":true}`)
	for range 3 {
		require.Contains(t, line(t, r.Reader), `"text"`)
	}
	require.Eventually(t, func() bool { return f.Engine().Status().Running == 0 }, time.Minute, time.Millisecond, "the engine made them all")
	require.LessOrEqual(t, r.Buffered(), 1, "no more than the frame's last line end")
	require.NoError(t, f.SetFaults(fakeengine.Faults{}))
	for range 2 {
		require.Contains(t, line(t, r.Reader), `"text"`)
	}
	require.Equal(t, "[DONE]\n", line(t, r.Reader))
}

func TestInjectedBreakAndCore(t *testing.T) {
	f := serve(t, func(c *fakeengine.Config) { c.Faults = true })
	broken := func(fault string) string {
		r := f.open(t, "POST", "/v1/completions", endless)
		line(t, r.Reader) // it runs
		status, said := f.call(t, "PUT", "/faults", fault)
		require.Equal(t, http.StatusOK, status, said)
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		return string(rest)
	}
	for _, fault := range []string{`{"break_streams":true}`, `{"core":"dead"}`} {
		rest := broken(fault)
		require.Contains(t, rest, `"type":"InternalServerError"`)
		require.True(t, strings.HasSuffix(rest, "data: [DONE]\n\n"))
	}
	status, _ := f.call(t, "GET", "/health", "")
	require.Equal(t, http.StatusServiceUnavailable, status)
	f.call(t, "PUT", "/faults", `{}`)
	status, _ = f.call(t, "GET", "/health", "")
	require.Equal(t, http.StatusOK, status)

	f.call(t, "PUT", "/faults", `{"core":"hangs"}`)
	before := f.Engine().Status().Steps
	r := f.open(t, "POST", "/v1/completions", endless)
	status, _ = f.call(t, "GET", "/health", "")
	require.Equal(t, http.StatusOK, status, "a hang is not seen")
	require.Equal(t, before, f.Engine().Status().Steps)
	f.call(t, "PUT", "/faults", `{"slow":2.5}`)
	require.Contains(t, line(t, r.Reader), `"text"`)

	for _, wrong := range []string{`{"status":200}`, `{"times":1}`, `{"status":429,"times":0}`, `{"refuses":{"status":200}}`, `{"end_after_tokens":-1}`, `{"core":"asleep"}`, `{"slow":0}`, `{"more":1}`, `{"hang_after_tokens":-1}`, `{"retry_after_seconds":-1}`} {
		status, said := f.call(t, "PUT", "/faults", wrong)
		require.Equal(t, http.StatusBadRequest, status, said)
	}
}

func TestFaultsAreNotServedUnlessAsked(t *testing.T) {
	f := serve(t, nil)
	status, _ := f.call(t, "PUT", "/faults", `{}`)
	require.Equal(t, http.StatusNotFound, status)
}

// The clock of the engine's host jumps: batches bear its time. Then batches are lost: their numbers are spent.
func TestInjectedClockAndCacheEvents(t *testing.T) {
	f := serve(t, publishing)
	sub := f.subscribe(t)
	ask := func(text string) {
		status, _ := f.call(t, "POST", "/v1/completions", `{"prompt":"`+strings.Repeat(text, 40)+`","max_tokens":1}`)
		require.Equal(t, http.StatusOK, status)
	}
	require.NoError(t, f.SetFaults(fakeengine.Faults{ClockSeconds: p(1e9)}))
	ask("one ")
	m, err := sub.Recv()
	require.NoError(t, err)
	stamp := math.Float64frombits(binary.BigEndian.Uint64(m.Frames[2][2:10]))
	require.Greater(t, stamp, float64(time.Now().Unix())+9e8)

	require.NoError(t, f.SetFaults(fakeengine.Faults{KV: &fakeengine.KVFaults{Seed: 1, Lose: 1}}))
	before := f.KVEvents().NextSeq()
	ask("two ")
	require.Eventually(t, func() bool { return f.KVEvents().NextSeq() > before }, time.Minute, time.Millisecond)
	require.NoError(t, f.SetFaults(fakeengine.Faults{}))
	ask("three ")
	seq, _ := batch(t, sub)
	require.Greater(t, seq, before, "nothing of what was lost comes")
}
