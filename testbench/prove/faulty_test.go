//go:build prove

package prove

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/wire"
	"plimsoll/testbench/load"
	"plimsoll/testbench/report"
)

// The figures of the promise about one faulty engine of two.
const (
	faultyRequests  = 250
	faultyEvery     = 20 * time.Millisecond // 50 a second
	faultyPrompt    = 256
	faultyOutput    = 16
	reachedMax      = 10                    // requests that an engine gets which refuses all
	addedMax        = 50 * time.Millisecond // to the 99th percentile of the time to the first token
	addedHungMax    = 1500 * time.Millisecond
	backMax         = 5 * time.Second // after SIGCONT
	openStreams     = 16              // run when it is stopped
	longOutput      = 400
	burst           = 50
	burstDifference = 2 // from half of it
)

// door stands before an engine: it counts what is generated behind it, and can be shut.
type door struct {
	url     string
	reached atomic.Int64 // requests to generate, canaries included
	refuses atomic.Int64 // the status that they get; 0: what the engine says
}

// isGeneration tells requests to generate from the one by which the adapter finds out whether the route is there.
func isGeneration(r *http.Request) bool { return r.Method == http.MethodPost && r.ContentLength > 2 }

func newDoor(t *testing.T, engine string) *door {
	t.Helper()
	target, err := url.Parse(engine)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1024},
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	d := &door{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isGeneration(r) {
			d.reached.Add(1)
			if status := d.refuses.Load(); status != 0 {
				http.Error(w, `{"error":{"message":"no","type":"no","code":`+strconv.FormatInt(status, 10)+`}}`, int(status))
				return
			}
		}
		// The whole body goes on at once: an engine that answers before it has read it all ends the proxy's connection.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

// pair is a plimsoll before a good engine, and a bad one unless it is to serve alone.
type pair struct {
	node, admin string
	bad         *program
	door        *door // before the bad one
	client      *http.Client
	rng         *rand.Rand
}

func newPair(t *testing.T, replicas int) *pair {
	t.Helper()
	p := &pair{admin: freeAddress(t), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}, rng: rand.New(rand.NewPCG(1, 2))}
	args := []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", p.admin, "--tokenizer", simFolder(t)}
	for i := range replicas {
		engine := launch(t, 1, "sim", "--listen", "127.0.0.1:0")
		d := newDoor(t, engine.urls[0])
		args = append(args, "--replica", fmt.Sprintf("vllm=%s,name=%s,slots=64", d.url, []string{"good", "bad"}[i]))
		p.bad, p.door = engine, d
	}
	p.node = launch(t, 1, args...).urls[0]
	t.Cleanup(p.client.CloseIdleConnections)
	awaitReady(t, p.node, replicas)
	return p
}

// longCalls are requests whose answers take seconds.
func (p *pair) longCalls(n int) []load.Call { return p.callsFor(n, 10*time.Millisecond, longOutput) }

// calls are requests of one length that share nothing.
func (p *pair) calls(n int, every time.Duration) []load.Call {
	return p.callsFor(n, every, faultyOutput)
}

func (p *pair) callsFor(n int, every time.Duration, output int) []load.Call {
	calls := make([]load.Call, n)
	for i := range calls {
		ids := make([]uint32, faultyPrompt)
		for j := range ids {
			ids[j] = p.rng.Uint32N(4000)
		}
		calls[i] = load.Call{At: time.Duration(i) * every, Body: func() []byte {
			return fmt.Appendf(wire.AppendIDs([]byte(`{"prompt":`), ids),
				`,"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, output)
		}}
	}
	return calls
}

func (p *pair) send(t *testing.T, calls []load.Call) []load.Sample {
	t.Helper()
	samples, err := load.Run(t.Context(), load.Config{URL: p.node + "/v1/completions", InFlightMax: 1024, Timeout: time.Minute}, p.client, calls)
	require.NoError(t, err)
	return samples
}

// warm has the replicas show their pace and open all their seats.
func (p *pair) warm(t *testing.T) {
	t.Helper()
	for range 2 {
		// A third of the answers are long: what they take is expected then, and nobody is overdrawn, who would get nothing more.
		require.NoError(t, failures(p.send(t, append(p.longCalls(20), p.calls(40, 5*time.Millisecond)...))))
		time.Sleep(2 * time.Second) // the ramp
	}
}

// step is the 99th percentile of the bad one's steps, as it was learned.
func (p *pair) step(t *testing.T) time.Duration {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.admin+"/admin/replicas", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // only read from
	var said struct {
		Replicas []struct {
			Step float64 `json:"step_seconds_p99"`
		} `json:"replicas"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&said))
	return time.Duration(said.Replicas[0].Step * float64(time.Second))
}

func failures(samples []load.Sample) error {
	var errs []error
	for i := range samples {
		if samples[i].Err != nil {
			errs = append(errs, fmt.Errorf("request %d: %w", i, samples[i].Err))
		}
	}
	return errors.Join(errs...)
}

func firstTokens(samples []load.Sample) []time.Duration {
	var out []time.Duration
	for i := range samples {
		if samples[i].Err == nil {
			out = append(out, samples[i].First-samples[i].Sent)
		}
	}
	return out
}

func shareOf(samples []load.Sample, replica string) int {
	n := 0
	for i := range samples {
		if samples[i].Replica == replica {
			n++
		}
	}
	return n
}

// verdicts gathers what is printed, and what must not be.
type verdicts struct {
	alone *pair // a good engine without a bad one, which gets the same traffic at the same time
	rows  [][]string
	wrong []string
}

func (v *verdicts) fail(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// judge sends the traffic and says what the bad engine cost: who shares the machine disturbs both halves alike.
func (v *verdicts) judge(t *testing.T, name string, p *pair, reachable int64, added time.Duration) {
	t.Helper()
	before := p.door.reached.Load()
	var with, without []load.Sample
	var both sync.WaitGroup
	both.Go(func() { without = v.alone.send(t, v.alone.calls(faultyRequests, faultyEvery)) })
	both.Go(func() { with = p.send(t, p.calls(faultyRequests, faultyEvery)) })
	both.Wait()
	reached := p.door.reached.Load() - before
	if err := failures(without); err != nil {
		v.fail("%s: without it: %s", name, err)
	}
	failed := 0
	for i := range with {
		if with[i].Err != nil {
			failed++
			v.fail("%s: request %d: %s", name, i, with[i].Err)
		}
	}
	most, _ := report.Quantile(firstTokens(with), 0.99)
	least, _ := report.Quantile(firstTokens(without), 0.99)
	v.rows = append(v.rows, []string{
		name, strconv.Itoa(failed), strconv.FormatInt(reached, 10), report.Milliseconds(firstTokens(with), 0.5),
		report.Milliseconds(firstTokens(with), 0.99), report.Milliseconds(firstTokens(without), 0.99),
		fmt.Sprintf("%.1f", (most-least).Seconds()*1000),
	})
	if reached > reachable {
		v.fail("%s: %d requests reached it, at most %d may", name, reached, reachable)
	}
	if most-least > added {
		v.fail("%s: the first token takes %s longer, at most %s may be", name, most-least, added)
	}
}

// TestFaultyReplica: two engines, one of which always answers 503, or 429, or hangs.
func TestFaultyReplica(t *testing.T) {
	v := &verdicts{
		alone: newPair(t, 1),
		rows:  [][]string{{"bad engine", "failed", "reached it", "TTFT p50 ms", "p99 ms", "p99 without", "added p99 ms"}},
	}
	v.alone.warm(t)
	for _, status := range []int64{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		p := newPair(t, 2)
		p.door.refuses.Store(status)
		v.judge(t, "always "+strconv.FormatInt(status, 10), p, reachedMax, addedMax)
	}
	p := newPair(t, 2)
	p.warm(t)
	step := p.step(t)
	open := make(chan []load.Sample, 1) // streams that it stops in the middle of
	go func() { open <- p.send(t, p.longCalls(openStreams)) }()
	time.Sleep(time.Second)
	require.NoError(t, p.bad.cmd.Process.Signal(syscall.SIGSTOP))
	// What comes within the silence and the canary's time, and the canaries after that.
	within := time.Second + 12*step
	v.judge(t, "hangs (SIGSTOP)", p, int64(within/faultyEvery)+reachedMax, addedHungMax)
	stopped := <-open
	if err := failures(stopped); err != nil {
		v.fail("hangs: a stream that had begun: %s", err)
	}
	hit := 0
	for i := range stopped {
		if strings.Contains(stopped[i].Replica, "bad") {
			hit++
		}
		if stopped[i].CompletionTokens != longOutput {
			v.fail("hangs: a stream that had begun has %d tokens of %d", stopped[i].CompletionTokens, longOutput)
		}
	}
	if hit < openStreams/4 {
		v.fail("hangs: only %d of %d streams ran there", hit, openStreams)
	}
	back := v.back(t, p)
	split := v.burst(t, p)
	t.Logf("%d requests at 50 a second, %d tokens each\n%s\n%d of %d streams that had begun were on the one that was stopped\nafter SIGCONT it is in use again within %s; its steps took up to %s before\n"+
		"a burst of %d unrelated prompts on two idle engines: %d to one, %d to the other",
		faultyRequests, faultyPrompt, report.Table(v.rows), hit, openStreams, back.Round(time.Millisecond), step, burst, split, burst-split)
	require.Empty(t, v.wrong, strings.Join(v.wrong, "\n"))
}

// back lets the stopped engine go on and waits until it serves.
func (v *verdicts) back(t *testing.T, p *pair) time.Duration {
	t.Helper()
	require.NoError(t, p.bad.cmd.Process.Signal(syscall.SIGCONT))
	went := time.Now()
	for served := 0; served == 0 && time.Since(went) < 2*backMax; {
		again := p.send(t, p.calls(8, 5*time.Millisecond))
		if err := failures(again); err != nil {
			v.fail("after it went on: %s", err)
		}
		served = shareOf(again, "bad")
	}
	took := time.Since(went)
	if took > backMax {
		v.fail("back in use after %s, at most %s may pass", took, backMax)
	}
	return took
}

// burst sends unrelated prompts of one length to two idle engines at once and says how many went to one.
func (v *verdicts) burst(t *testing.T, p *pair) int {
	t.Helper()
	p.warm(t)
	sent := p.send(t, p.calls(burst, 0))
	if err := failures(sent); err != nil {
		v.fail("burst: %s", err)
	}
	split := shareOf(sent, "bad")
	if split < burst/2-burstDifference || split > burst/2+burstDifference {
		v.fail("a burst splits %d to %d", split, burst-split)
	}
	return split
}
