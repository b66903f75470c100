//go:build e2e

package llamacpp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	startPatience = 2 * time.Minute
	endPatience   = 3 * time.Second
	pollEvery     = 50 * time.Millisecond
)

// process is one that the test started.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it has
	log   *logBuffer
}

// logBuffer keeps what a process prints.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start starts a program that ends with the test: asked first, then made to.
func start(t *testing.T, program string, arguments ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, arguments...), ended: make(chan struct{}), log: &logBuffer{}} //nolint:noctx // it is ended in two steps below
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(endPatience):
			p.kill()
		}
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(program), tail(p.log.String(), 4000))
		}
	})
	return p
}

// kill ends a process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// eventually waits for a condition that the processes bring about.
func eventually(t *testing.T, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		require.False(t, time.Now().After(deadline), "not within %v: %s", patience, what)
		time.Sleep(pollEvery)
	}
}

// status asks for an address and returns the status, 0 if nobody answers.
func status(t *testing.T, url string) int {
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

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return port
}

// engineServer is one llama-server.
type engineServer struct {
	*process
	name, url string
}

// startEngine starts one and waits until it serves.
func startEngine(t *testing.T, name string) *engineServer {
	t.Helper()
	port := freePort(t)
	e := &engineServer{process: start(t, "./engine.sh", "run", port), name: name, url: "http://127.0.0.1:" + port}
	eventually(t, startPatience, "llama-server "+name+" serves", func() bool {
		require.False(t, e.over(), "it ended")
		return status(t, e.url+"/health") == http.StatusOK
	})
	return e
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// metric reads one number of an address's Prometheus text, summed over labels.
func metric(t *testing.T, url, name string) float64 {
	t.Helper()
	text := string(exchange(t, http.MethodGet, url+"/metrics", nil))
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

// exchange sends JSON and returns the body of an answer with status 200.
func exchange(t *testing.T, method, url string, body any) []byte {
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
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s %s: %s", method, url, text)
	return text
}

// startPlimsoll starts bin/plimsoll before the engines and waits until it is ready.
func startPlimsoll(t *testing.T, tokenizer string, engines ...*engineServer) (url string) {
	t.Helper()
	arguments := []string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--tokenizer", tokenizer}
	for _, e := range engines {
		arguments = append(arguments, "--replica", fmt.Sprintf("llamacpp=%s,name=%s,capacity-tokens=4096", e.url, e.name))
	}
	binary := filepath.Join("..", "..", "..", "bin", "plimsoll")
	_, err := os.Stat(binary)
	require.NoError(t, err, "make build")
	p := start(t, binary, arguments...)
	eventually(t, startPatience, "plimsoll listens", func() bool {
		require.False(t, p.over(), "it ended")
		url = listening(p.log.String())
		return url != ""
	})
	eventually(t, startPatience, "plimsoll is ready", func() bool { return status(t, url+"/ready") == http.StatusOK })
	return url
}

// listening finds the address in a log.
func listening(log string) string {
	for line := range strings.Lines(log) {
		var entry struct{ Msg, URL string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			return entry.URL
		}
	}
	return ""
}

// tokenizerDir installs everything and returns the folder of the model's tokenizer.
func tokenizerDir(ctx context.Context, t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, "./engine.sh", "tokenizer")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
