package process

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// said collects output and lets a test wait for it.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newSaid() *said { return &said{more: make(chan struct{}, 1)} }

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// pid waits until a role has said its process ID.
func (s *said) pid(t *testing.T, role string) int {
	t.Helper()
	for {
		for line := range strings.Lines(s.String()) {
			if text, ok := strings.CutPrefix(line, role+" "); ok && strings.HasSuffix(text, "\n") {
				pid, err := strconv.Atoi(strings.TrimSpace(text))
				require.NoError(t, err)
				return pid
			}
		}
		select {
		case <-s.more:
		case <-time.After(time.Minute):
			t.Fatalf("%s did not start: %s", role, s)
		}
	}
}

// begin starts an engine of the test binary.
func begin(t *testing.T, grace time.Duration, words ...string) (*Process, *said) {
	t.Helper()
	out := newSaid()
	p, err := Start(Config{
		Guard:   []string{os.Args[0], "guard"},
		Command: Command{Words: append([]string{os.Args[0]}, words...), Environment: []string{"OF_THE_TEST=indeed"}, Folder: t.TempDir()},
		Grace:   grace, Output: out,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		p.Wait()
	})
	return p, out
}

// alive says whether a process runs.
func alive(pid int) bool {
	r, ok := relationOf(pid)
	return ok && !r.zombie
}

func TestAnEngineRunsUnderItsGuard(t *testing.T) {
	p, out := begin(t, time.Minute, "exit", "3", "two words", "$HOME")
	pid, ok := <-p.Started()
	require.True(t, ok)
	require.Positive(t, pid)
	require.Equal(t, Exit{Code: 3}, <-p.Exited())
	p.Wait()
	require.Equal(t, "hello [two words $HOME] indeed\n", out.String())
	require.Equal(t, 3, p.cmd.ProcessState.ExitCode(), "the guard's exit code is the engine's")
}

func TestAnEngineThatCannotBeStartedHasEnded(t *testing.T) {
	out := newSaid()
	p, err := Start(Config{
		Guard: []string{os.Args[0], "guard"}, Command: Command{Words: []string{"no-such-program"}}, Grace: time.Minute, Output: out,
	})
	require.NoError(t, err)
	_, ok := <-p.Started()
	require.False(t, ok)
	exit := <-p.Exited()
	require.Contains(t, exit.String(), "it cannot be started")
	require.Contains(t, exit.String(), "no-such-program")
	p.Wait()
	require.Equal(t, cannotStart, p.cmd.ProcessState.ExitCode())

	_, err = Start(Config{Guard: []string{"no-such-guard"}, Command: Command{Words: []string{"x"}}, Grace: time.Minute, Output: out})
	require.ErrorContains(t, err, "the engine's guard cannot be started")
}

func TestEndAsksFirst(t *testing.T) {
	p, out := begin(t, time.Hour, "polite")
	out.pid(t, "polite")
	p.End()
	require.Equal(t, Exit{Code: 7}, <-p.Exited(), "it ended by itself")
	p.Wait()
}

func TestEndMakesWhoDoesNotHear(t *testing.T) {
	p, out := begin(t, 50*time.Millisecond, "stubborn")
	out.pid(t, "stubborn")
	p.End()
	require.Equal(t, Exit{Signal: "killed"}, <-p.Exited())
	p.Wait()
	require.Equal(t, signalled+int(syscall.SIGKILL), p.cmd.ProcessState.ExitCode())
}

func TestKillTakesStoppedOnesToo(t *testing.T) {
	p, out := begin(t, time.Hour, "polite")
	pid := out.pid(t, "polite")
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	p.Kill()
	require.Equal(t, Exit{Signal: "killed"}, <-p.Exited())
	p.Wait()
}

func TestAStoppedOneHearsThatItIsAskedToEnd(t *testing.T) {
	p, out := begin(t, time.Hour, "polite")
	require.NoError(t, syscall.Kill(out.pid(t, "polite"), syscall.SIGSTOP))
	p.End()
	require.Equal(t, Exit{Code: 7}, <-p.Exited())
	p.Wait()
}

// A daemon with a session of its own, whose parent has ended, and that ignores TERM, is ended with its engine all the same. An
// engine that may end by itself has all the time it needs; where what is left is to be made to end, the grace is short.
func TestNothingOfAnEngineOutlivesIt(t *testing.T) {
	const short = 50 * time.Millisecond
	for name, c := range map[string]struct {
		grace time.Duration
		role  []string
		end   func(t *testing.T, p *Process, engine int)
		want  Exit
	}{
		"asked to end":         {time.Hour, []string{"polite"}, func(_ *testing.T, p *Process, _ int) { p.End() }, Exit{Code: 7}},
		"asked to end in vain": {short, []string{"stubborn"}, func(_ *testing.T, p *Process, _ int) { p.End() }, Exit{Signal: "killed"}},
		"made to end":          {time.Hour, []string{"polite"}, func(_ *testing.T, p *Process, _ int) { p.Kill() }, Exit{Signal: "killed"}},
		"ends itself":          {short, []string{"exit", "1"}, func(*testing.T, *Process, int) {}, Exit{Code: 1}},
		"killed by -9":         {short, []string{"polite"}, kill9, Exit{Signal: "killed"}},
		"guard is told": {time.Hour, []string{"polite"}, func(t *testing.T, p *Process, _ int) {
			t.Helper()
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		}, Exit{Code: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			p, out := begin(t, c.grace, append([]string{"family"}, c.role...)...)
			daemon := out.pid(t, "daemon")
			engine := 0
			if c.role[0] != "exit" {
				engine = out.pid(t, c.role[0])
			}
			c.end(t, p, engine)
			require.Equal(t, c.want, <-p.Exited())
			if c.grace == time.Hour && c.want.Signal == "" {
				require.True(t, alive(daemon), "it may take its time, too")
				p.Kill()
			}
			p.Wait()
			require.False(t, alive(daemon))
		})
	}
}

func kill9(t *testing.T, _ *Process, engine int) {
	t.Helper()
	require.NoError(t, syscall.Kill(engine, syscall.SIGKILL))
}

// The starter's death is enough. Each process below it holds one end of a pipe: its end is theirs.
func TestNothingOutlivesAStarterThatIsKilled(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			live, theirs, err := os.Pipe()
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "starter", "family", "polite")
			cmd.ExtraFiles = make([]*os.File, liveFile-2)
			cmd.ExtraFiles[liveFile-3] = theirs
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			require.NoError(t, theirs.Close())
			lines := bufio.NewScanner(stdout)
			daemon, engine := 0, 0
			for daemon == 0 || engine == 0 {
				require.True(t, lines.Scan(), "the engine did not start")
				role, id, _ := strings.Cut(lines.Text(), " ")
				pid, err := strconv.Atoi(id)
				require.NoError(t, err, lines.Text())
				if role == "daemon" {
					daemon = pid
				} else {
					engine = pid
				}
			}
			require.True(t, alive(daemon))
			require.True(t, alive(engine))
			require.NoError(t, cmd.Process.Signal(sig))
			_, err = live.Read(make([]byte, 1)) // until the last one is gone
			require.ErrorIs(t, err, io.EOF)
			require.False(t, alive(daemon))
			require.False(t, alive(engine))
			_ = cmd.Wait() // by the signal
			require.NoError(t, live.Close())
		})
	}
}

func TestAGuardThatIsKilledTakesItsEngineAlong(t *testing.T) {
	p, out := begin(t, time.Hour, "stubborn")
	pid := out.pid(t, "stubborn")
	require.NoError(t, p.cmd.Process.Kill())
	require.Contains(t, (<-p.Exited()).String(), "its guard ended: signal: killed")
	p.Wait()
	require.Eventually(t, func() bool { return !alive(pid) }, time.Minute, time.Millisecond)
}

func TestAGuardIsStartedByItsStarterAlone(t *testing.T) {
	for _, arguments := range [][]string{{}, {"1s"}, {"soon", "x"}, {"1s", os.Args[0], "exit", "0"}} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"guard"}, arguments...)...)
		text, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, 2, cmd.ProcessState.ExitCode(), "%v: %s", arguments, text)
		require.Contains(t, string(text), "for plimsoll serve --launch alone")
	}
}
