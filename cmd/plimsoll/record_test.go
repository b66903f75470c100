package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/trace"
)

// TestARecordingCanBeReplayed: what serve --record wrote is traffic to replay, with the shared prompt seen, and without a word of it.
func TestARecordingCanBeReplayed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "traffic.jsonl")
	s := start(t, "--record", name, "--replica", "sim=tiny", "--replica", "sim=tiny")
	s.awaitReady(t)
	const requests = 8
	for i := range requests {
		code, text := s.status(t, "POST", "/v1/chat/completions", `{"max_tokens":20,"ignore_eos":true,"messages":[`+
			`{"role":"system","content":"You are a lighthouse keeper who answers in short and solemn sentences about ships."},`+
			`{"role":"user","content":"question `+string(rune('a'+i))+`"}]}`, "X-Session-Id", "s1")
		require.Equal(t, 200, code, text)
	}
	code, text := s.status(t, "GET", "/metrics", "")
	require.Equal(t, 200, code)
	require.Contains(t, text, `plimsoll_record_requests_total{outcome="dropped"} 0`)
	s.signal(t, syscall.SIGTERM)
	require.Zero(t, s.exit(t))

	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "lighthouse")
	file, err := trace.Open(name, 1)
	require.NoError(t, err)
	list, err := trace.Take(file, 100)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.Len(t, list, requests)
	for _, r := range list {
		require.Equal(t, 20, r.OutputTokens)
		require.Equal(t, "s1", r.Session)
		require.Equal(t, trace.Finished, r.Outcome)
	}
	require.Positive(t, trace.Shared(list))
	code, out, errs := plimsoll(t, "", "replay", "--trace", name, "--requests", "8", "--replicas", "2", "--speed", "1", "--policy", "token-load")
	require.Zero(t, code, errs)
	require.Contains(t, out, "8 requests")
}

func TestRecordToNoFile(t *testing.T) {
	code, _, errs := plimsoll(t, "", "serve", "--listen", "127.0.0.1:0", "--record", t.TempDir())
	require.NotZero(t, code)
	require.Contains(t, errs, "--record")
}
