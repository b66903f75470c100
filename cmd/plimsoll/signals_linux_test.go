package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// heldStream begins an answer that goes on when release is called.
func heldStream(t *testing.T, program []string, args ...string) (s *server, running io.Reader, release func()) {
	t.Helper()
	engine := launch(t, "sim", "--faults", "on")
	s = launchUnder(t, program, "serve", append([]string{"--replica", "vllm=" + engine.url, "--tokenizer", modelDir, "--model", "plimsoll-sim"}, args...)...)
	s.awaitReady(t)
	set := func(faults string) {
		t.Helper()
		code, body := engine.status(t, http.MethodPut, "/faults", faults)
		require.Equal(t, http.StatusOK, code, body)
	}
	set(`{"hang_after_tokens":1}`)
	return s, s.stream(t, "20"), func() { set(`{}`) }
}

func whole(t *testing.T, running io.Reader) {
	t.Helper()
	rest, err := io.ReadAll(running)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"), "the running answer has its end: %s", rest)
}

// Field input 19: timeout(1) signals the process and its group, so that it gets two signals at once, and both are one drain.
func TestField19TimeoutSignalsTheProcessAndItsGroup(t *testing.T) {
	timeout, err := exec.LookPath("timeout")
	if err != nil {
		t.Skip("there is no timeout(1) here")
	}
	s, running, release := heldStream(t, []string{timeout, "1h"})
	s.signal(t, syscall.SIGTERM) // it passes on what it gets as it does its own at the end of the time
	s.signal(t, syscall.SIGINT)  // of two SIGTERMs that are not taken yet the kernel makes one
	s.awaitLog(t, "a signal again so soon changes nothing")
	release()
	whole(t, running)
	require.Equal(t, 0, s.exit(t), "it passes on the program's own code")
}

// Field input 19, SIGHUP: it ends nothing.
func TestField19SIGHUPWithNothingToReload(t *testing.T) {
	s, running, release := heldStream(t, nil)
	s.signal(t, syscall.SIGHUP)
	s.awaitLog(t, "there is nothing to reload")
	release()
	whole(t, running)
	s.signal(t, syscall.SIGTERM)
	require.Zero(t, s.exit(t))
}

// For a second a signal to end is the first one again; then it ends all at once.
func TestTwoSignalsWithinASecondAreOne(t *testing.T) {
	for after, want := range map[time.Duration]error{0: nil, 999 * time.Millisecond: nil, time.Second: errEnded, time.Hour: errEnded} {
		synctest.Test(t, func(t *testing.T) {
			down, ends, got := make(chan error, 1), make(chan os.Signal, 2), make(chan error, 1)
			go func() { got <- endOf(down, ends, slog.New(slog.DiscardHandler)) }()
			synctest.Wait()
			time.Sleep(after) // of the bubble's time
			ends <- syscall.SIGTERM
			synctest.Wait()
			down <- nil
			require.Equal(t, want, <-got, after)
		})
	}
}

func TestShutdownDelayServesOnThoughNotReady(t *testing.T) {
	s := start(t, "--shutdown-delay", "1h")
	s.awaitReady(t)
	running := s.stream(t, "20")
	s.signal(t, syscall.SIGTERM)
	s.awaitLog(t, "serving on, not ready any more")
	code, body := s.status(t, http.MethodGet, "/ready", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "shutting_down")
	code, body = s.status(t, http.MethodPost, "/v1/chat/completions", chatBody("plimsoll-sim", "4"))
	require.Equal(t, http.StatusOK, code, body)
	whole(t, running)
}

func TestAfterTheShutdownDelayNothingNewIsTaken(t *testing.T) {
	s, running, release := heldStream(t, nil, "--shutdown-delay", "1ms")
	s.signal(t, syscall.SIGTERM)
	require.Eventually(t, func() bool {
		code, _ := s.status(t, http.MethodPost, "/v1/chat/completions", chatBody("plimsoll-sim", "1"))
		return code == http.StatusServiceUnavailable
	}, time.Minute, time.Millisecond)
	release()
	whole(t, running)
	require.Zero(t, s.exit(t))
}

// Keys are read again while an answer runs. A file that is broken changes nothing.
func TestSIGHUPReadsKeysAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("team: old-secret-key\nleaver: other-secret-key\n")
	s := start(t, "--api-key-file", file, "--tenant", "team,weight=2")
	s.awaitReady(t)
	takes := func(key string) bool {
		code, _ := s.status(t, http.MethodGet, "/v1/models", "", "Authorization", "Bearer "+key)
		return code == http.StatusOK
	}
	require.True(t, takes("other-secret-key"))
	write("team: old-secret-key\nteam: new-secret-key\n")
	s.signal(t, syscall.SIGHUP)
	s.awaitLog(t, `"msg":"reloaded"`)
	require.True(t, takes("old-secret-key"))
	require.True(t, takes("new-secret-key"))
	require.False(t, takes("other-secret-key"))
	for _, broken := range []string{"", "team: short\n", "others: new-secret-key\n"} { // the last leaves a --tenant without a key
		write(broken)
		s.signal(t, syscall.SIGHUP)
		s.awaitLog(t, "nothing was reloaded")
		require.True(t, takes("new-secret-key"))
	}
}

// A command that does not exist is said at the start, and does not leave a replica that is never there.
func TestALaunchOfNothingFailsAtTheStart(t *testing.T) {
	for _, args := range [][]string{{"--launch", "vllm=no-such-program --port {port}"}, {"--launch", "vllm,folder=/none=x --port {port}"}} {
		code, _, stderr := plimsoll(t, "", append([]string{"serve", "--listen", "127.0.0.1:0", "--tokenizer", modelDir}, args...)...)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "launch vllm: there is no ")
	}
}

func TestWhoeverMayUseAnOpenPortIsWarnedOf(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("team: a-secret-key\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		want int
	}{
		"both open":               {[]string{"--listen", "0.0.0.0:0", "--admin-listen", "0.0.0.0:0"}, 2},
		"the API open":            {[]string{"--listen", "0.0.0.0:0", "--admin-listen", "0.0.0.0:0", "--admin-key-file", keys}, 1},
		"keys for both":           {[]string{"--listen", "0.0.0.0:0", "--admin-listen", "0.0.0.0:0", "--api-key-file", keys}, 0},
		"this machine alone":      {[]string{"--admin-listen", "127.0.0.1:0"}, 0},
		"operators' port is open": {[]string{"--admin-listen", "0.0.0.0:0"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, c.args...)
			warnings := 0
			for line := range s.log {
				var entry struct{ Msg, Level string }
				require.NoError(t, json.Unmarshal([]byte(line), &entry))
				if entry.Level == "WARN" && strings.HasPrefix(entry.Msg, "whoever reaches this address may") {
					warnings++
				}
				if entry.Msg == "listening" {
					break
				}
			}
			require.Equal(t, c.want, warnings)
		})
	}
}
