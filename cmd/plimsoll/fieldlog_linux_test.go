package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startInto runs plimsoll serve with its log going into a pipe, which is read up to the address that it serves on and no further.
func startInto(t *testing.T, args ...string) (s *server, log *os.File) {
	t.Helper()
	log, to, err := os.Pipe()
	require.NoError(t, err)
	s = &server{Cmd: exec.CommandContext(t.Context(), os.Args[0], append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)}
	s.Env, s.Stderr = append(os.Environ(), asProgram+"=1"), to
	require.NoError(t, s.Start())
	require.NoError(t, to.Close())
	t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait()
		_ = log.Close()
	})
	for lines := bufio.NewScanner(log); s.url == ""; {
		require.True(t, lines.Scan(), "the server ended before it listened")
		var line struct{ Msg, URL string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line), lines.Text())
		if line.Msg == "listening" {
			s.url = line.URL
		}
	}
	s.awaitReady(t)
	return s, log
}

// droppedLines is what the server has counted, over all causes.
func (s *server) droppedLines(t *testing.T) (lines int) {
	t.Helper()
	code, metrics := s.status(t, http.MethodGet, "/metrics", "")
	require.Equal(t, http.StatusOK, code)
	for _, found := range regexp.MustCompile(`(?m)^plimsoll_log_dropped_lines_total\{cause="\w+"\} (\d+)$`).FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		lines += n
	}
	return lines
}

func (s *server) listsModels(t *testing.T) {
	t.Helper()
	code, body := s.status(t, http.MethodGet, "/v1/models", "", "X-Request-Id", strings.Repeat("long", 32))
	require.Equal(t, http.StatusOK, code, body)
}

// Field input 1.
func TestField1TheLogsReaderIsGone(t *testing.T) {
	s, log := startInto(t)
	require.NoError(t, log.Close())
	s.listsModels(t)
	require.Eventually(t, func() bool { return s.droppedLines(t) > 0 }, time.Minute, time.Millisecond)
	s.listsModels(t)
	s.signal(t, syscall.SIGTERM)
	_ = s.Wait() // the code says it
	require.Zero(t, s.ProcessState.ExitCode(), s.ProcessState.String())
}

// Field input 2. The engine is a process that is killed: its replica's state is a change that is logged.
func TestField2TheLogsReaderStalls(t *testing.T) {
	engine := launch(t, "sim")
	s, _ := startInto(t, "--replica", "vllm="+engine.url, "--tokenizer", modelDir)
	for more := true; more; more = s.droppedLines(t) == 0 {
		for range 500 {
			s.listsModels(t)
		}
	}
	require.NoError(t, engine.Process.Kill())
	require.Eventually(t, func() bool {
		code, _ := s.status(t, http.MethodGet, "/ready", "")
		return code == http.StatusServiceUnavailable
	}, time.Minute, 10*time.Millisecond)
	s.signal(t, syscall.SIGTERM)
	_ = s.Wait() // the code says it
	require.Zero(t, s.ProcessState.ExitCode(), s.ProcessState.String())
}

// A last word of a failure does not wait for its reader either.
func TestAFailureEndsThoughNobodyReads(t *testing.T) {
	log, to, err := os.Pipe()
	require.NoError(t, err)
	defer log.Close() //nolint:errcheck // nothing is read
	fd := int(to.Fd())
	require.NoError(t, syscall.SetNonblock(fd, true))
	full := make([]byte, 4096)
	for err == nil {
		_, err = syscall.Write(fd, full)
	}
	require.ErrorIs(t, err, syscall.EAGAIN)
	require.NoError(t, syscall.SetNonblock(fd, false))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--tokenizer", t.TempDir())
	cmd.Env, cmd.Stderr = append(os.Environ(), asProgram+"=1"), to
	require.NoError(t, cmd.Start())
	require.NoError(t, to.Close())
	_ = cmd.Wait() // the code says it
	require.Equal(t, 1, cmd.ProcessState.ExitCode(), cmd.ProcessState.String())
}
