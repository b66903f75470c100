//go:build e2e

package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Status asks for an address and returns the status, 0 if nobody answers.
func Status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// FreePort returns a port that was free a moment ago.
func FreePort(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return port
}

// Metric reads one number of an address's Prometheus text, summed over labels.
func Metric(t *testing.T, url, name string) float64 {
	t.Helper()
	text := string(Exchange(t, http.MethodGet, url+"/metrics", nil))
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		var value float64
		_, err := fmt.Sscan(rest[strings.LastIndexByte(strings.TrimSpace(rest), ' ')+1:], &value)
		require.NoError(t, err, line)
		sum += value
		found = true
	}
	require.True(t, found, "no metric %s at %s", name, url)
	return sum
}

// Exchange sends JSON and returns the body of an answer with status 200.
func Exchange(t *testing.T, method, url string, body any) []byte {
	t.Helper()
	code, text := Send(t, method, url, body)
	require.Equal(t, http.StatusOK, code, "%s %s: %s", method, url, text)
	return text
}

// Send sends JSON and returns status and body.
func Send(t *testing.T, method, url string, body any) (code int, text []byte) {
	t.Helper()
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, payload)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, text
}

// As decodes JSON.
func As[T any](t *testing.T, text []byte) T {
	t.Helper()
	var out T
	require.NoError(t, json.Unmarshal(text, &out), "%s", text)
	return out
}
