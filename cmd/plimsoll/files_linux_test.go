package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// line is a connection that stands, for a time in which there can be no other.
type line struct {
	net.Conn

	in *bufio.Reader
}

func lineTo(t *testing.T, url string) *line {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &line{conn, bufio.NewReader(conn)}
}

// asks sends a request and returns the answer, whose body is still to be read.
func (l *line) asks(t *testing.T, method, path, body string) *http.Response {
	t.Helper()
	_, err := fmt.Fprintf(l, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	require.NoError(t, err)
	res, err := http.ReadResponse(l.in, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func (l *line) text(t *testing.T, method, path, body string) (status int, text string) {
	t.Helper()
	res := l.asks(t, method, path, body) //nolint:bodyclose // asks closes it with the test
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(raw)
}

// TestNoOpenFilesAreNoFaultOfTheEngines: while this process may open nothing, the answers that run go on, others get 503 after a
// while, and both engines stay what they are. Connections that came meanwhile are served afterwards.
func TestNoOpenFilesAreNoFaultOfTheEngines(t *testing.T) {
	engines := []*server{launch(t, "sim", "--faults", "on"), launch(t, "sim", "--faults", "on")}
	named := strings.Replace(engines[1].url, "127.0.0.1", "localhost", 1) // to look a name up takes files too
	s := start(t, "--replica", "vllm="+engines[0].url, "--replica", "vllm="+named, "--tokenizer", modelDir, "--model", "plimsoll-sim")
	ready := func(l *line) {
		t.Helper()
		code, body := l.text(t, http.MethodGet, "/ready", "")
		require.Equal(t, http.StatusOK, code, body)
		require.Equal(t, 2, strings.Count(body, `"state":"ready"`), body)
	}
	require.Eventually(t, func() bool {
		_, body := s.status(t, http.MethodGet, "/ready", "")
		return strings.Count(body, `"state":"ready"`) == 2
	}, time.Minute, 10*time.Millisecond)
	faults := func(body string) {
		for _, e := range engines {
			code, text := e.status(t, http.MethodPut, "/faults", body)
			require.Equal(t, http.StatusOK, code, text)
		}
	}
	faults(`{"hang_after_tokens":1}`)
	watch, waits := lineTo(t, s.url), lineTo(t, s.url)
	running := make([]*http.Response, 8) // the kept connections to the engines are taken
	for i := range running {
		running[i] = lineTo(t, s.url).asks(t, http.MethodPost, "/v1/chat/completions", chatBody("plimsoll-sim", "20")) //nolint:bodyclose // asks closes it with the test
		require.Equal(t, http.StatusOK, running[i].StatusCode)
	}
	ready(watch)
	ready(waits)
	var before unix.Rlimit
	require.NoError(t, unix.Prlimit(s.Process.Pid, unix.RLIMIT_NOFILE, nil, &before))
	require.NoError(t, unix.Prlimit(s.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: before.Max}, nil))
	late := lineTo(t, s.url) // the kernel takes it
	for refused := 0; refused < 3; {
		code, body := waits.text(t, http.MethodPost, "/v1/chat/completions", strings.Replace(chatBody("plimsoll-sim", "1"), `"stream":true`, `"stream":false`, 1))
		ready(watch)
		if code == http.StatusOK { // over a connection that was kept
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, code, body)
		require.Contains(t, body, "this node is short of connections to its engines")
		refused++
	}
	_, metrics := watch.text(t, http.MethodGet, "/metrics", "")
	require.Regexp(t, `plimsoll_replica_failures_total\{kind="local",[^}]*\} [1-9]`, metrics)
	require.NotRegexp(t, `plimsoll_replica_(failures|strikes)_total\{kind="(refused|broken|hang|breaks)",[^}]*\} [1-9]`, metrics)

	require.NoError(t, unix.Prlimit(s.Process.Pid, unix.RLIMIT_NOFILE, &before, nil))
	ready(late)
	faults(`{}`)
	for _, r := range running {
		rest, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"))
	}
	s.signal(t, syscall.SIGTERM)
	require.Zero(t, s.exit(t))
}

// TestConnectionsFitTheLimitOfOpenFiles that a shell's ulimit sets. The soft one is raised.
func TestConnectionsFitTheLimitOfOpenFiles(t *testing.T) {
	under := func(limit string) []string { return []string{"sh", "-c", limit + `; exec "$@"`, "sh"} }
	launchUnder(t, under("ulimit -Sn 64"), "serve").awaitReady(t)

	const few = "ulimit -n 512"
	fleet := []string{"--replica", "vllm=http://127.0.0.1:1,slots=100", "--tokenizer", modelDir}
	s := launchUnder(t, under(few), "serve", fleet...)
	require.Contains(t, s.awaitLine(t, "too few open files"), "340 connections are held at most")
	launchUnder(t, under(few), "serve", append(fleet, "--max-connections", "340")...)

	words := append(append(under(few), os.Args[0], "serve", "--max-connections", "341"), fleet...)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "ask for --max-connections 340 at most")
}
