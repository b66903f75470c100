//go:build prove

package prove

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/wire"
)

// binaryEnv names the environment variable with the program to prove.
const binaryEnv = "PLIMSOLL_BIN"

// program is a plimsoll of its own process.
type program struct {
	cmd  *exec.Cmd
	urls []string // where it listens
	log  chan struct{}
}

// launch starts a command and returns when it listens on as many ports as it is to. It ends with the test, if not before.
func launch(t *testing.T, listeners int, args ...string) *program {
	t.Helper()
	binary := os.Getenv(binaryEnv)
	if binary == "" {
		binary = filepath.Join("..", "..", "bin", "plimsoll")
	}
	p := &program{cmd: exec.Command(binary, append(args, "--log-format", "json")...), log: make(chan struct{})} //nolint:noctx // ended by stop
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start(), "make build makes it")
	t.Cleanup(func() { p.stop(t) })
	lines := bufio.NewScanner(stderr)
	for len(p.urls) < listeners {
		require.True(t, lines.Scan(), "%v ended before it listened", args)
		var line struct{ Msg, URL string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line), lines.Text())
		if line.Msg == "listening" {
			p.urls = append(p.urls, line.URL)
		}
	}
	go func() {
		defer close(p.log)
		_, _ = io.Copy(io.Discard, stderr)
	}()
	return p
}

// stop asks the program to end, and makes it after a while. It returns the CPU time that it took.
func (p *program) stop(t *testing.T) time.Duration {
	t.Helper()
	if p.cmd.ProcessState == nil {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		late := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
		<-p.log
		require.NoError(t, p.cmd.Wait())
		late.Stop()
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// scrape reads the metrics of one address.
func scrape(t *testing.T, url string) wire.Metrics {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // only read from
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	m, err := wire.ParseMetrics(body)
	require.NoError(t, err)
	return m
}

// sum adds up all samples of a metric, of which there is at least one.
func sum(t *testing.T, name string, from ...wire.Metrics) float64 {
	t.Helper()
	total, samples := 0.0, 0
	for _, m := range from {
		for _, s := range m.Series(name) {
			v, ok := wire.Series{s}.Number()
			require.True(t, ok, "%s", name)
			total += v
			samples++
		}
	}
	require.Positive(t, samples, "nobody tells %s", name)
	return total
}
