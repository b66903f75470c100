package managed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/engine"
	"plimsoll/engine/llamacpp"
	"plimsoll/engine/process"
	"plimsoll/testbench/printed"
)

// TestMain makes the test binary a guard or an engine, if its first argument says so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "guard":
			code, err := process.Guard(os.Args[2:])
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 2
			}
			os.Exit(code)
		case "serve":
			os.Exit(serve(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// serve is an engine with as much of llama-server's API as its adapter needs: PORT [MARKER [REFUSALS-FILE]]. While the file has
// bytes it takes one away and ends instead.
func serve(arguments []string) int {
	if len(arguments) > 2 {
		if left, err := os.ReadFile(arguments[2]); err == nil && len(left) > 0 {
			_ = os.WriteFile(arguments[2], left[1:], 0o600)
			fmt.Println("no memory left")
			return 3
		}
	}
	fmt.Println("pid", os.Getpid())
	marker := ""
	if len(arguments) > 1 {
		marker = arguments[1]
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"status":"ok"}`) })
	mux.HandleFunc("GET /props", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"default_generation_settings": map[string]int{"n_ctx": 1024}, "total_slots": 2, "model_alias": "fake", "media_marker": marker,
		})
	})
	mux.HandleFunc("GET /metrics", http.NotFound)
	mux.HandleFunc("POST /completion", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"index":0,"content":"a","tokens":[7],"stop":false,"id_slot":0,"tokens_predicted":1,"tokens_evaluated":1}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		_ = syscall.Pause() // until it is killed
	})
	l, err := net.Listen("tcp", "127.0.0.1:"+arguments[0]) //nolint:noctx // it ends with the process
	if err != nil {
		fmt.Println(err)
		return 1
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	go func() {
		<-asked
		_ = server.Close()
	}()
	_ = server.Serve(l)
	return 0
}

// rig is a started engine.
type rig struct {
	*Engine

	log   *printed.Text
	ports *process.Ports
}

func configOf(arguments ...string) Config {
	cfg := DefaultConfig()
	cfg.Name, cfg.Command = "own", process.Command{Words: append([]string{os.Args[0], "serve", "{port}"}, arguments...)}
	cfg.Backoff.First, cfg.Backoff.Cap, cfg.Grace = 10*time.Millisecond, 50*time.Millisecond, 5*time.Second
	return cfg
}

func startRig(t *testing.T, cfg Config, change func(*Deps)) *rig {
	t.Helper()
	r := &rig{log: &printed.Text{}, ports: process.NewPorts(7)}
	deps := Deps{
		Guard: []string{os.Args[0], "guard"}, Ports: r.ports, Log: slog.New(slog.NewTextHandler(r.log, nil)), Seed: 1,
		Connect: func(url string) (engine.Engine, error) {
			cfg := llamacpp.DefaultConfig()
			cfg.URL = url
			return llamacpp.New(cfg, llamacpp.Deps{Dial: new(net.Dialer).DialContext, Log: slog.New(slog.DiscardHandler)})
		},
	}
	if change != nil {
		change(&deps)
	}
	var err error
	r.Engine, err = New(cfg, deps)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close()) // maybe for the second time
		require.Equal(t, Closed, r.Status().Phase)
		if t.Failed() {
			t.Log(r.log)
		}
	})
	return r
}

// serves probes until the start with that number, or a later one, answers.
func (r *rig) serves(t *testing.T, start int) (engine.Status, Status) {
	t.Helper()
	var answer engine.Status
	require.Eventually(t, func() bool {
		var err error
		answer, err = r.Probe(t.Context())
		s := r.Status()
		return err == nil && s.Starts >= start && s.Phase == Serving && s.PID != 0
	}, time.Minute, 2*time.Millisecond)
	return answer, r.Status()
}

func TestAStartedEngineServesAndIsStartedAgainAfterACrash(t *testing.T) {
	r := startRig(t, configOf("marker-a"), nil)
	answer, first := r.serves(t, 1)
	require.Equal(t, "fake", answer.Model)
	require.Equal(t, "start:1", answer.Incarnation)
	require.Equal(t, "llamacpp", r.Capabilities().Kind)

	// A call that runs when the process is killed reads what there is and then fails; one that comes later is refused at once.
	var got []uint32
	err := r.Generate(t.Context(), engine.Request{PromptTokens: []uint32{1}, MaxTokens: 9}, func(ev engine.Event) error {
		for _, token := range ev.Tokens {
			got = append(got, token.ID)
		}
		return syscall.Kill(first.PID, syscall.SIGKILL)
	})
	require.Equal(t, engine.Broken, engine.KindOf(err), "%v", err)
	require.Equal(t, []uint32{7}, got)

	answer, second := r.serves(t, 2)
	require.Equal(t, "start:2", answer.Incarnation)
	require.NotEqual(t, first.Port, second.Port, "a new port at every start")
	require.NotEqual(t, first.PID, second.PID)
	require.Equal(t, "ended by signal: killed", second.LastExit)
	require.Contains(t, r.log.String(), "last words")
	require.Contains(t, r.log.String(), fmt.Sprintf("pid %d", first.PID))
}

func TestCallsAreRefusedWhileNoProcessIsThere(t *testing.T) {
	cfg := configOf()
	cfg.Backoff.First, cfg.Backoff.Cap = time.Hour, time.Hour
	cfg.Command.Words = []string{"no-such-program", "{port}"}
	r := startRig(t, cfg, nil)
	require.Eventually(t, func() bool { return r.Status().Phase == Waiting && r.Status().Starts == 1 }, time.Minute, time.Millisecond)
	_, err := r.Probe(t.Context())
	require.Equal(t, engine.Refused, engine.KindOf(err))
	require.ErrorContains(t, err, "its process is waiting; the last one: it cannot be started")
	err = r.Generate(t.Context(), engine.Request{}, func(engine.Event) error { return nil })
	require.Equal(t, engine.Refused, engine.KindOf(err))
	require.Equal(t, engine.Refused, engine.KindOf(r.Subscribe(t.Context(), nil)))
}

// Each start that fails is followed by another, on another port; what the engine said last is in the log.
func TestAnEngineThatDoesNotComeUpIsTriedAgain(t *testing.T) {
	refusals := filepath.Join(t.TempDir(), "refusals")
	require.NoError(t, os.WriteFile(refusals, []byte("xxx"), 0o600))
	r := startRig(t, configOf("m", refusals), nil)
	_, s := r.serves(t, 4)
	require.Equal(t, 4, s.Starts)
	require.Equal(t, 3, s.Strikes)
	require.Equal(t, "exit code 3", s.LastExit)
	require.Contains(t, r.log.String(), "no memory left")
}

// clash hands out a busy port first.
type clash struct {
	Ports

	busy int
}

func (c *clash) Take(ctx context.Context) (int, error) {
	if port := c.busy; port != 0 {
		c.busy = 0
		return port, nil
	}
	return c.Ports.Take(ctx)
}

func TestABusyPortIsAFailedStart(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // nothing was sent
	busy := l.Addr().(*net.TCPAddr).Port
	r := startRig(t, configOf(), func(d *Deps) { d.Ports = &clash{d.Ports, busy} })
	_, s := r.serves(t, 2)
	require.NotEqual(t, busy, s.Port)
	require.Contains(t, r.log.String(), "address already in use")
}

func TestOneThatHangsIsStartedAgain(t *testing.T) {
	r := startRig(t, configOf(), nil)
	answer, first := r.serves(t, 1)
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGSTOP))
	r.Restart("", "of no life")
	r.Restart("start:7", "of another life")
	require.Equal(t, Serving, r.Status().Phase)
	r.Restart(answer.Incarnation, "it hangs")
	_, second := r.serves(t, 2)
	require.NotEqual(t, first.PID, second.PID)
	require.Equal(t, "it hangs; ended by signal: killed", second.LastExit)
	r.Restart(answer.Incarnation, "of the life before")
	require.Equal(t, 2, r.Status().Starts)
	require.Equal(t, Serving, r.Status().Phase)
}

func TestCloseEndsTheProcessAndItsCalls(t *testing.T) {
	r := startRig(t, configOf(), nil)
	_, s := r.serves(t, 1)
	began := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- r.Generate(t.Context(), engine.Request{PromptTokens: []uint32{1}, MaxTokens: 9}, func(engine.Event) error {
			close(began)
			return nil
		})
	}()
	select {
	case <-began:
	case err := <-ended:
		require.Fail(t, "it ended before it began", "%v", err)
	}
	require.NoError(t, r.Close())
	require.Equal(t, engine.Broken, engine.KindOf(<-ended))
	_, err := os.Stat("/proc/" + strconv.Itoa(s.PID))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = r.Probe(t.Context())
	require.Equal(t, engine.Refused, engine.KindOf(err))
}

// A fault of ours ends the process and begins anew.
func TestAKeeperThatPanicsIsFollowedByAnother(t *testing.T) {
	calls := 0
	r := startRig(t, configOf(), func(d *Deps) {
		connect := d.Connect
		d.Connect = func(url string) (engine.Engine, error) {
			if calls++; calls == 2 { // the first one tells the capabilities
				panic("planted")
			}
			return connect(url)
		}
	})
	_, s := r.serves(t, 2)
	require.Equal(t, 2, s.Starts)
	require.Contains(t, r.log.String(), "planted")
}

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"needs a name":          func(c *Config) { c.Name = "" },
		"must be positive":      func(c *Config) { c.Grace = 0 },
		"size must be positive": func(c *Config) { c.LogBytes = 0 },
		"the back-off":          func(c *Config) { c.Backoff.Cap = 0 },
		"has no {port}":         func(c *Config) { c.Command.Words = []string{"x"} },
		"log cannot be opened":  func(c *Config) { c.LogFile = filepath.Join("none", "x") },
		"no adapter for this":   func(*Config) {},
	} {
		cfg := configOf()
		change(&cfg)
		_, err := New(cfg, Deps{Log: slog.New(slog.DiscardHandler), Connect: func(string) (engine.Engine, error) {
			if want == "no adapter for this" {
				return nil, errors.New(want)
			}
			return llamacpp.New(llamacpp.Config{}, llamacpp.Deps{})
		}})
		require.Error(t, err, want)
	}
}

// The evidence of an incarnation names the start; what changes within a start, if anything, stands behind it.
func TestEvidence(t *testing.T) {
	l := newLife(3, nil)
	defer l.over()
	for _, step := range []struct{ own, want string }{
		{"", "start:3"}, {"a", "start:3"}, {"", "start:3"}, {"a", "start:3"}, {"b", "start:3:b"}, {"", "start:3:b"}, {"a", "start:3"},
	} {
		require.Equal(t, step.want, l.evidence(step.own), "%q", step.own)
		require.True(t, l.owns(step.want))
	}
	require.False(t, l.owns("start:2"))
	require.False(t, l.owns(""))
}
