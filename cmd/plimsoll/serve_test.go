package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/enginetest"
)

// asProgram makes the test binary the program itself, so that signals and exit codes are the real ones.
const asProgram = "RUN_AS_PLIMSOLL"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// server is a plimsoll serve of its own process.
type server struct {
	*exec.Cmd
	url string
	log chan string // what it logged; closed at its end
}

// start runs plimsoll serve on a free port until the test ends.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	return launch(t, "serve", args...)
}

// launch runs a command that serves, on a free port, until the test ends.
func launch(t *testing.T, command string, args ...string) *server {
	t.Helper()
	return launchUnder(t, nil, command, args...)
}

// launchUnder is launch by another program, whose command line ends in ours.
func launchUnder(t *testing.T, program []string, command string, args ...string) *server {
	t.Helper()
	s := &server{log: make(chan string, 1000)}
	words := slices.Concat(program, []string{os.Args[0], command, "--listen", "127.0.0.1:0", "--log-format", "json"}, args)
	s.Cmd = exec.CommandContext(t.Context(), words[0], words[1:]...)
	s.Env = append(os.Environ(), asProgram+"=1")
	stderr, err := s.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.Start())
	t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait()
	})
	lines := bufio.NewScanner(stderr)
	for s.url == "" {
		require.True(t, lines.Scan(), "the server ended before it listened")
		var line struct{ Msg, URL string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line), lines.Text())
		if line.Msg == "listening" {
			s.url = line.URL
		}
		s.log <- lines.Text() // a replica may be ready before its server listens
	}
	go func() {
		defer close(s.log)
		for lines.Scan() {
			s.log <- lines.Text()
		}
	}()
	return s
}

// signal sends one to the server.
func (s *server) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	require.NoError(t, s.Process.Signal(sig))
}

// awaitLog returns once the server has logged a text.
func (s *server) awaitLog(t *testing.T, text string) {
	t.Helper()
	s.awaitLine(t, text)
}

// awaitLine returns the next line that holds a text.
func (s *server) awaitLine(t *testing.T, text string) string {
	t.Helper()
	for line := range s.log {
		if strings.Contains(line, text) {
			return line
		}
	}
	require.Fail(t, "the server ended without a word of it", text)
	return ""
}

// exit waits for the server's end and returns its exit code.
func (s *server) exit(t *testing.T) int {
	t.Helper()
	for range s.log {
		continue
	}
	_ = s.Wait() // the code says it
	return s.ProcessState.ExitCode()
}

// call sends a request and returns the answer, whose body is open until the test ends.
func (s *server) call(t *testing.T, method, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// status returns the status of a request and reads its answer to the end.
func (s *server) status(t *testing.T, method, path, body string, header ...string) (int, string) {
	t.Helper()
	res := s.call(t, method, path, body, header...) //nolint:bodyclose // call closes it with the test
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

func (s *server) awaitReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		code, _ := s.status(t, http.MethodGet, "/ready", "")
		return code == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
}

// chat is a streamed request for an answer of that many tokens.
func chatBody(model string, tokens string) string {
	return `{"model":"` + model + `","stream":true,"ignore_eos":true,"max_tokens":` + tokens + `,"messages":[{"role":"user","content":"hello"}]}`
}

// stream begins a chat and returns after its first event.
func (s *server) stream(t *testing.T, tokens string) *bufio.Reader {
	t.Helper()
	res := s.call(t, http.MethodPost, "/v1/chat/completions", chatBody("plimsoll-sim", tokens)) //nolint:bodyclose // call closes it with the test
	require.Equal(t, http.StatusOK, res.StatusCode)
	events := bufio.NewReader(res.Body)
	line, err := events.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "data: {")
	return events
}

// The engine says no more of its answer than the first token until all else has been looked at.
func TestSIGTERMLetsRunningRequestsEnd(t *testing.T) {
	engine := launch(t, "sim", "--faults", "on")
	s := start(t, "--replica", "vllm="+engine.url, "--tokenizer", modelDir, "--model", "plimsoll-sim")
	s.awaitReady(t)
	code, body := engine.status(t, http.MethodPut, "/faults", `{"hang_after_tokens":1}`)
	require.Equal(t, http.StatusOK, code, body)
	running := s.stream(t, "20")
	s.signal(t, syscall.SIGTERM)
	s.awaitLog(t, "shutting down")
	require.Eventually(t, func() bool {
		code, _ := s.status(t, http.MethodGet, "/ready", "")
		return code == http.StatusServiceUnavailable
	}, time.Minute, time.Millisecond)
	code, body = s.status(t, http.MethodPost, "/v1/chat/completions", chatBody("plimsoll-sim", "1"))
	require.Equal(t, http.StatusServiceUnavailable, code, body)
	code, body = engine.status(t, http.MethodPut, "/faults", `{}`)
	require.Equal(t, http.StatusOK, code, body)
	rest, err := io.ReadAll(running)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(rest), `"finish_reason":"length"`))
	require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"), "the running answer has its end")
	require.Zero(t, s.exit(t))
}

func TestWhatStillRunsAfterTheDrainTimeEndsWithAnError(t *testing.T) {
	s := start(t, "--drain-timeout", "50ms")
	s.awaitReady(t)
	running := s.stream(t, "100000")
	s.signal(t, os.Interrupt)
	rest, err := io.ReadAll(running)
	require.NoError(t, err)
	require.Contains(t, string(rest), `"error"`)
	require.Zero(t, s.exit(t))
}

func TestASecondSIGTERMEndsAtOnce(t *testing.T) {
	s := start(t, "--drain-timeout", "24h")
	s.awaitReady(t)
	running := s.stream(t, "100000")
	s.signal(t, syscall.SIGTERM)
	s.awaitLog(t, "shutting down")
	// For a second it is the first one again.
	exited := make(chan int, 1)
	go func() { exited <- s.exit(t) }()
	signals, code := time.NewTicker(10*time.Millisecond), -1
	defer signals.Stop()
	for code < 0 {
		select {
		case code = <-exited:
		case <-signals.C:
			_ = s.Process.Signal(syscall.SIGTERM) // it may have ended
		}
	}
	require.Equal(t, 1, code)
	_, err := io.ReadAll(running)
	require.Error(t, err, "the answer is cut off, not ended")
}

func TestABusyPortIsSaid(t *testing.T) {
	busy, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close() //nolint:errcheck // nothing was sent
	for flag, others := range map[string][]string{"--listen": nil, "--admin-listen": {"--listen", "127.0.0.1:0"}} {
		code, _, stderr := plimsoll(t, "", append([]string{"serve", flag, busy.Addr().String()}, others...)...)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, busy.Addr().String()+" is in use: end what listens there, or choose another address with "+flag+" ")
	}
}

// A fleet that is down at the start is served all the same, under a name that can be known, and retried.
func TestDeadReplicasAtTheStart(t *testing.T) {
	s := start(t, "--replica", "llamacpp="+enginetest.ClosedPort(t)+",name=dead", "--tokenizer", modelDir)
	code, body := s.status(t, http.MethodGet, "/ready", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, `"dead"`)
	code, body = s.status(t, http.MethodGet, "/v1/models", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `"id":"model"`, "the name of the tokenizer's folder")
	code, body = s.status(t, http.MethodPost, "/v1/chat/completions", chatBody("model", "1"))
	require.Equal(t, http.StatusServiceUnavailable, code, body)
	s.signal(t, syscall.SIGTERM)
	require.Zero(t, s.exit(t))
}

func TestTheModelCanBeGivenAName(t *testing.T) {
	s := start(t, "--model", "fleet/own", "--replica", "sim=tiny,name=a,slots=2,capacity-tokens=1024")
	s.awaitReady(t)
	code, body := s.status(t, http.MethodPost, "/v1/chat/completions", chatBody("fleet/own", "4"))
	require.Equal(t, http.StatusOK, code, body)
	require.Contains(t, body, `"model":"fleet/own"`)
	code, _ = s.status(t, http.MethodPost, "/v1/chat/completions", chatBody("plimsoll-sim", "4"))
	require.Equal(t, http.StatusNotFound, code)
	code, body = s.status(t, http.MethodPost, "/v1/completions", `{"model":"fleet/own","max_tokens":1,"prompt":"`+strings.Repeat("word ", 1100)+`"}`)
	require.Equal(t, http.StatusBadRequest, code, "more than the capacity that was said")
	require.Contains(t, body, "1024")
}

func TestAPIKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte("team: 0123456789abcdef\n"), 0o600))
	s := start(t, "--api-key-file", file)
	s.awaitReady(t)
	code, _ := s.status(t, http.MethodGet, "/v1/models", "")
	require.Equal(t, http.StatusUnauthorized, code)
	code, _ = s.status(t, http.MethodGet, "/v1/models", "", "Authorization", "Bearer 0123456789abcdef")
	require.Equal(t, http.StatusOK, code)

	code, _, stderr := plimsoll(t, "", "serve", "--api-key-file", file+".none")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "--api-key-file")
}
