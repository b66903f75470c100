//go:build prove

package prove

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/wire"
	"plimsoll/testbench/load"
	"plimsoll/testbench/report"
)

// front is what stands between client and engine.
type front struct {
	name string
	url  string
	pids []int // whose CPU time counts; none: it is not there
}

// crowd is a wave of streams that all run at once.
type crowd struct {
	streams, tokens int
	every           time.Duration // between two arrivals
}

// TestFront measures what a streamed token costs: CPU seconds of `plimsoll serve` between a client and one simulated
// engine, and of nginx as a plain reverse proxy in the same place, in the same run. The engine paces the streams, as a GPU
// would; nginx copies bytes, serve reads token IDs, detokenizes and writes frames of its own.
func TestFront(t *testing.T) {
	c := crowd{streams: number(t, "STREAMS", 64), tokens: number(t, "TOKENS", 600), every: 10 * time.Millisecond}
	sims := launch(t, 1, "sim", "--listen", "127.0.0.1:0", "--profile", "h100-8b", "--speed", strconv.Itoa(number(t, "SPEED", 1)))
	engine := sims.urls[0]
	// Strict: what is reserved is what is asked for, so that no stream waits for what others were predicted to need.
	node := launch(t, 1, "serve", "--listen", "127.0.0.1:0", "--tokenizer", simFolder(t), "--admission", "strict",
		"--replica", "vllm="+engine+",name=sim")
	awaitReady(t, node.urls[0], 1)
	fronts := []front{{name: "none", url: engine}, {name: "plimsoll serve", url: node.urls[0], pids: []int{node.cmd.Process.Pid}}}
	if proxy, why := nginx(t, engine); why == "" {
		fronts = append(fronts, proxy)
	} else {
		t.Log("without nginx: " + why)
	}
	rows := [][]string{{"front", "request", "tokens", "tokens/s", "CPU s", "tokens/CPU s", "TTFT p50 ms", "TPOT p50 ms", "p99"}}
	for _, route := range []string{"completions", "chat/completions"} {
		for _, f := range fronts {
			f.send(t, crowd{streams: 4, tokens: 16}, route) // connections, caches, code that runs the first time
			rows = append(rows, f.measure(t, c, route))
		}
	}
	t.Logf("%d streams of %d tokens\n%s", c.streams, c.tokens, report.Table(rows))
}

// send runs a crowd through a front and returns what the client saw.
func (f front) send(t *testing.T, c crowd, route string) outcome {
	t.Helper()
	calls := make([]load.Call, c.streams)
	for i := range calls {
		calls[i] = load.Call{At: time.Duration(i) * c.every, Body: func() []byte { return c.body(route, i) }}
	}
	transport := &http.Transport{MaxIdleConnsPerHost: c.streams}
	defer transport.CloseIdleConnections()
	samples, err := load.Run(t.Context(), load.Config{URL: f.url + "/v1/" + route, InFlightMax: c.streams, Timeout: 5 * time.Minute},
		&http.Client{Transport: transport}, calls)
	require.NoError(t, err)
	for i := range samples {
		require.NoError(t, samples[i].Err, "%s: stream %d", f.name, i)
		require.Equal(t, c.tokens, samples[i].CompletionTokens)
	}
	return outcome{samples: samples}
}

// measure sends a crowd and returns a row.
func (f front) measure(t *testing.T, c crowd, route string) []string {
	t.Helper()
	before, began := cpuOf(t, f.pids), time.Now()
	o := f.send(t, c, route)
	spent, took := cpuOf(t, f.pids)-before, time.Since(began)
	tokens := c.streams * c.tokens
	cpu, each := "-", "-"
	if len(f.pids) > 0 {
		require.Positive(t, spent)
		cpu, each = fmt.Sprintf("%.2f", spent.Seconds()), fmt.Sprintf("%.0f", float64(tokens)/spent.Seconds())
	}
	return []string{
		f.name, route, strconv.Itoa(tokens), fmt.Sprintf("%.0f", float64(tokens)/took.Seconds()), cpu, each,
		report.Milliseconds(o.firstTokens(), 0.5), report.Milliseconds(o.perToken(), 0.5), report.Milliseconds(o.perToken(), 0.99),
	}
}

// body is a streaming request for exactly so many tokens, each stream with a prompt of its own.
func (c crowd) body(route string, stream int) []byte {
	rest := fmt.Sprintf(`"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, c.tokens)
	if route == "chat/completions" {
		return fmt.Appendf(nil, `{"messages":[{"role":"user","content":"Tell me of ship %d and its load."}],%s`, stream, rest)
	}
	ids := make([]uint32, 64)
	for i := range ids {
		ids[i] = uint32(100 + stream + 7*i) //nolint:gosec // small and positive
	}
	return fmt.Appendf(wire.AppendIDs([]byte(`{"prompt":`), ids), `,%s`, rest)
}

// clockTicks is USER_HZ, the unit of /proc/PID/stat: 100 a second on Linux.
const clockTicks = 100

// cpuOf is the CPU time that processes have taken so far, user and system.
func cpuOf(t *testing.T, pids []int) time.Duration {
	t.Helper()
	ticks := 0
	for _, pid := range pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(t, err)
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:])) // the name before may hold anything
		for _, at := range []int{11, 12} {
			n, err := strconv.Atoi(fields[at])
			require.NoError(t, err)
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / clockTicks
}

const nginxConf = `
daemon off; master_process off; pid %[1]s/pid; error_log stderr error;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	upstream engine { server %[2]s; keepalive 256; }
	server {
		listen 127.0.0.1:%[3]d;
		location / { proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; proxy_read_timeout 600s; }
	}
}
`

// nginx starts one process of it in front of an engine; why says what is missing. NGINX_BIN names the program (NGINX is a
// variable of its own).
func nginx(t *testing.T, engine string) (f front, why string) {
	t.Helper()
	name := os.Getenv("NGINX_BIN")
	if name == "" {
		name = "nginx"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		if path = "/usr/sbin/nginx"; !exists(path) {
			return front{}, "it is not installed (Debian's package nginx), and NGINX_BIN names no other"
		}
	}
	dir := t.TempDir()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	conf := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, strings.TrimPrefix(engine, "http://"), port), 0o600))
	cmd := exec.Command(path, "-p", dir, "-c", conf) //nolint:noctx // ended below
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	f = front{name: "nginx", url: "http://127.0.0.1:" + strconv.Itoa(port), pids: []int{cmd.Process.Pid}}
	eventually(t, 10*time.Second, "nginx serves", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+"/version", nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode == http.StatusOK
	})
	return f, ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
