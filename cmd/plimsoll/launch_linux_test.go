package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// simulatedEngine is the command of an engine that this binary simulates.
func simulatedEngine(options string) string {
	return "vllm" + options + "=" + os.Args[0] + " sim --listen 127.0.0.1:{port} --profile tiny --speed 10"
}

// started is what the operators' edge says of a started engine.
type started struct {
	Name, State string
	Incarnation uint64
	Process     struct {
		Phase    string
		PID      int
		Port     int
		Starts   int
		LastExit string `json:"last_exit"`
	}
}

// engines asks the operators' edge.
func (s *server) engines(t *testing.T, admin string) map[string]started {
	t.Helper()
	edge := *s
	edge.url = admin
	_, body := edge.status(t, http.MethodGet, "/admin/replicas", "")
	var report struct{ Replicas []started }
	require.NoError(t, json.Unmarshal([]byte(body), &report), body)
	engines := map[string]started{}
	for _, r := range report.Replicas {
		engines[r.Name] = r
	}
	return engines
}

// awaitEngine waits until an engine is as said.
func (s *server) awaitEngine(t *testing.T, admin, name string, is func(started) bool) (found started) {
	t.Helper()
	require.Eventually(t, func() bool {
		found = s.engines(t, admin)[name]
		return is(found)
	}, time.Minute, 10*time.Millisecond)
	return found
}

func ready(e started) bool { return e.State == "ready" && e.Process.Phase == "serving" }

// runs says whether there is a process with an ID.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// startLaunched serves two engines that it starts itself.
func startLaunched(t *testing.T, args ...string) (s *server, admin string) {
	t.Helper()
	admin = freePorts(t, 1)[0]
	s = start(t, append([]string{
		"--tokenizer", modelDir, "--admin-listen", "127.0.0.1:" + admin, "--launch-grace", "5s", "--launch-count", "2",
		"--launch", simulatedEngine(",name=own"),
	}, args...)...)
	admin = "http://127.0.0.1:" + admin
	for _, name := range []string{"own-1", "own-2"} {
		s.awaitEngine(t, admin, name, ready)
	}
	return s, admin
}

func TestAStartedEngineComesBackAfterACrash(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own-{index}.log")
	s, admin := startLaunched(t, "--hang-restart", "2s", "--launch", simulatedEngine(",count=1,name=logged,log-file="+file))
	before := s.awaitEngine(t, admin, "own-1", ready)
	other := s.engines(t, admin)["own-2"]
	require.NotEqual(t, before.Process.Port, other.Process.Port)
	require.NoError(t, syscall.Kill(before.Process.PID, syscall.SIGKILL))
	// The process is there before the replica has heard of it: only then is it another life.
	another := func(than started) func(started) bool {
		return func(e started) bool {
			return ready(e) && e.Process.Starts == than.Process.Starts+1 && e.Incarnation > than.Incarnation
		}
	}
	after := s.awaitEngine(t, admin, "own-1", another(before))
	require.NotEqual(t, before.Process.PID, after.Process.PID)
	require.NotEqual(t, before.Process.Port, after.Process.Port, "a new port at every start")
	require.Equal(t, "ended by signal: killed", after.Process.LastExit)
	require.Equal(t, other.Process, s.engines(t, admin)["own-2"].Process, "the other one goes on")

	// One that hangs is found by its probes, and started again too.
	require.NoError(t, syscall.Kill(after.Process.PID, syscall.SIGSTOP))
	again := s.awaitEngine(t, admin, "own-1", another(after))
	require.Contains(t, again.Process.LastExit, "ended by signal: killed")
	require.False(t, runs(after.Process.PID))
	code, body := s.status(t, http.MethodPost, "/v1/chat/completions", chatBody("model", "4"))
	require.Equal(t, http.StatusOK, code, body)

	s.awaitEngine(t, admin, "logged", ready)
	text, err := os.ReadFile(strings.ReplaceAll(file, "{index}", "0"))
	require.NoError(t, err)
	require.Contains(t, string(text), "plimsoll: start 1 of logged: ")
	require.Contains(t, string(text), "listening")
	s.signal(t, syscall.SIGTERM)
	require.Zero(t, s.exit(t))
	require.False(t, runs(again.Process.PID), "the engines end with their server")
	require.False(t, runs(other.Process.PID))
}

func TestStartedEnginesEndWithAServerThatIsKilled(t *testing.T) {
	s, admin := startLaunched(t)
	engines := s.engines(t, admin)
	running := s.call(t, http.MethodPost, "/v1/chat/completions", chatBody("model", "100000")) //nolint:bodyclose // call closes it with the test
	require.Equal(t, http.StatusOK, running.StatusCode)
	require.NoError(t, s.Process.Kill())
	_, err := io.ReadAll(running.Body)
	require.Error(t, err)
	for _, e := range engines {
		require.Eventually(t, func() bool { return !runs(e.Process.PID) }, time.Minute, 10*time.Millisecond, e.Name)
	}
}

func TestARemovedReplicasEngineEnds(t *testing.T) {
	s, admin := startLaunched(t)
	gone := s.engines(t, admin)["own-2"]
	edge := *s
	edge.url = admin
	code, body := edge.status(t, http.MethodDelete, "/admin/replicas/own-2", "")
	require.Equal(t, http.StatusAccepted, code, body)
	require.Eventually(t, func() bool { return !runs(gone.Process.PID) }, time.Minute, 10*time.Millisecond)
	s.awaitReady(t)
	require.Len(t, s.engines(t, admin), 1)
}

func TestACommandThatCannotBeStartedIsTriedAgain(t *testing.T) {
	// It is there, and of another machine.
	program := filepath.Join(t.TempDir(), "llama-server")
	require.NoError(t, os.WriteFile(program, []byte{0x7f, 'E', 'L', 'F'}, 0o700)) //nolint:gosec // it is to be started
	s := start(t, "--tokenizer", modelDir, "--launch", "llamacpp="+program+" --port {port}")
	s.awaitLog(t, "it cannot be started")
	s.awaitLog(t, "(strike 2)")
	code, body := s.status(t, http.MethodGet, "/ready", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, `"llamacpp"`)
	s.signal(t, syscall.SIGTERM)
	require.Zero(t, s.exit(t))
}
