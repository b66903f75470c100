//go:build prove

package prove

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/wire"
	"plimsoll/testbench/load"
	"plimsoll/testbench/report"
	"plimsoll/testbench/shared"
	"plimsoll/testbench/trace"
	"plimsoll/tokenizer/simmodel"
)

// scenario is what is replayed on what. Its figures can be set by environment variables (PROVE_REQUESTS, PROVE_SQUEEZE,
// PROVE_SPEED, PROVE_PROFILE, PROVE_CAPACITY_TOKENS, PROVE_SLOTS), and what is compared by PROVE_POLICIES, parted by
// blanks; the defaults run in some three minutes on two cores.
//
// All lengths of the trace are divided by Squeeze and the GPUs are A10s, eight times slower in prefill than the H100s that
// would take the trace as it is: the same load on the engines for an eighth of the bytes. Each replica's cache is larger than
// an A10's, because in this trace a conversation goes on after a minute: in a cache of 26 s of traffic nobody hits anything.
type scenario struct {
	Requests       int
	Squeeze        int     // lengths are divided by it
	Speed          float64 // the engines, and the trace, run so many times as fast as real ones
	Replicas       int
	Profile        string
	CapacityTokens int // of each replica
	Slots          int
}

func configured(t *testing.T) scenario {
	t.Helper()
	return scenario{
		Requests: number(t, "REQUESTS", 1500), Squeeze: number(t, "SQUEEZE", 8), Speed: float64(number(t, "SPEED", 6)), Replicas: 4,
		Profile: word("PROFILE", "a10-8b"), CapacityTokens: number(t, "CAPACITY_TOKENS", 160_000), Slots: number(t, "SLOTS", 64),
	}
}

// word reads an environment variable of the proofs.
func word(name, otherwise string) string {
	if text := os.Getenv("PROVE_" + name); text != "" {
		return text
	}
	return otherwise
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(word(name, strconv.Itoa(otherwise)))
	require.NoError(t, err, "PROVE_%s", name)
	return n
}

// requests is the slice of the trace.
func (s scenario) requests(t *testing.T) []trace.Request {
	t.Helper()
	list, err := trace.Read(shared.Open(t, shared.Path(t, "testdata", "traces", "mooncake-conversation.jsonl.gz")), s.Requests)
	require.NoError(t, err)
	require.Len(t, list, s.Requests)
	list, err = trace.Squeeze(list, s.Squeeze)
	require.NoError(t, err)
	return trace.Faster(list, s.Speed)
}

// What is proven, and what it is compared with.
const (
	ownPolicy   = "token-load"
	blindPolicy = "round-robin"
)

// outcome is what one policy made of the trace.
type outcome struct {
	policy             string
	samples            []load.Sample
	engines            []wire.Metrics // at the end
	node               wire.Metrics
	clientCPU, nodeCPU time.Duration
	simCPU             time.Duration
}

func TestReplay(t *testing.T) {
	s := configured(t)
	list := s.requests(t)
	prompt, output := 0, 0
	for _, r := range list {
		prompt += r.PromptTokens
		output += r.OutputTokens
	}
	last := list[len(list)-1].At
	t.Logf("%d requests in %s, %d prompt and %d output tokens, %.1f %% of the prompts shared; %d x %s at %g times its speed, %d tokens of cache each",
		len(list), last.Round(time.Second), prompt, output, 100*trace.Shared(list), s.Replicas, s.Profile, s.Speed, s.CapacityTokens)
	policies := strings.Fields(word("POLICIES", blindPolicy+" "+ownPolicy))
	require.Subset(t, policies, []string{blindPolicy, ownPolicy})
	results := make([]outcome, len(policies))
	by := map[string]outcome{}
	for i, policy := range policies {
		results[i] = s.run(t, policy, list)
		by[policy] = results[i]
	}
	t.Log("\n" + table(t, results))
	for _, o := range results {
		o.check(t)
	}
	require.Greater(t, by[ownPolicy].hits(t), by[blindPolicy].hits(t), "cache hits")
	require.Less(t, by[ownPolicy].firstToken(t, 0.5), by[blindPolicy].firstToken(t, 0.5), "median time to first token")
}

// run replays the trace on new engines.
func (s scenario) run(t *testing.T, policy string, list []trace.Request) outcome {
	t.Helper()
	sims := launch(t, s.Replicas, "sim", "--listen", "127.0.0.1:0", "--replicas", strconv.Itoa(s.Replicas), "--profile", s.Profile,
		"--speed", strconv.FormatFloat(s.Speed, 'g', -1, 64), "--capacity-tokens", strconv.Itoa(s.CapacityTokens), "--slots", strconv.Itoa(s.Slots))
	args := []string{"serve", "--listen", "127.0.0.1:0", "--policy", policy, "--admission", "strict", "--queue-timeout", "5m", "--tokenizer", simFolder(t)}
	for i, url := range sims.urls {
		args = append(args, "--replica", fmt.Sprintf("vllm=%s,name=sim-%d,slots=%d", url, i+1, s.Slots))
	}
	node := launch(t, 1, args...)
	awaitReady(t, node.urls[0], s.Replicas)

	text := trace.Text{VocabSize: 4096} // the embedded model's ordinary IDs
	calls := make([]load.Call, len(list))
	for i, r := range list {
		calls[i] = load.Call{At: r.At, Body: func() []byte { return body(text, r) }}
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 4096}
	defer transport.CloseIdleConnections()
	before := ownCPU(t)
	samples, err := load.Run(t.Context(), load.Config{URL: node.urls[0] + "/v1/completions", InFlightMax: 4096, Timeout: 10 * time.Minute},
		&http.Client{Transport: transport}, calls)
	require.NoError(t, err)
	o := outcome{policy: policy, samples: samples, clientCPU: ownCPU(t) - before}
	awaitIdle(t, node.urls[0])
	o.node = scrape(t, node.urls[0])
	for _, url := range sims.urls {
		o.engines = append(o.engines, scrape(t, url))
	}
	o.nodeCPU = node.stop(t)
	o.simCPU = sims.stop(t)
	return o
}

// simFolder lays the embedded model out as a folder: engines of other processes need one.
func simFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, simmodel.FS()))
	return dir
}

// body is a streaming completion of exactly the recorded length.
func body(text trace.Text, r trace.Request) []byte {
	ids := wire.AppendIDs([]byte(`{"prompt":`), text.Prompt(nil, r))
	return fmt.Appendf(ids, `,"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, r.OutputTokens)
}

// awaitReady waits until all replicas serve.
func awaitReady(t *testing.T, url string, replicas int) {
	t.Helper()
	eventually(t, time.Minute, "all replicas are ready", func() bool {
		ready := 0
		for _, s := range scrape(t, url).Series("plimsoll_replica_state").With("state", "ready") {
			if v, ok := (wire.Series{s}).Number(); ok && v == 1 {
				ready++
			}
		}
		return ready == replicas
	})
}

// ledger lists the gauges that are 0 when nothing is promised to anybody.
func ledger() []string {
	return []string{
		"plimsoll_replica_booked_blocks", "plimsoll_replica_booked_seats", "plimsoll_replica_lingering_requests",
		"plimsoll_replica_overdraft_blocks", "plimsoll_replica_prefill_tokens", "plimsoll_router_queued_requests", "plimsoll_router_queued_tokens",
	}
}

// awaitIdle waits for the ledgers to be empty; check says it again, of each.
func awaitIdle(t *testing.T, url string) {
	t.Helper()
	eventually(t, 30*time.Second, "the ledgers are empty", func() bool {
		m := scrape(t, url)
		for _, name := range ledger() {
			if sum(t, name, m) != 0 {
				return false
			}
		}
		return true
	})
}

func eventually(t *testing.T, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(100 * time.Millisecond) {
		require.False(t, time.Now().After(deadline), "not within %s: %s", patience, what)
	}
}

// ownCPU is the CPU time of this process.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// check says what holds whatever the policy.
func (o outcome) check(t *testing.T) {
	t.Helper()
	for i := range o.samples {
		require.NoError(t, o.samples[i].Err, "%s: request %d", o.policy, i)
		require.Equal(t, "length", o.samples[i].Finish, "%s: request %d", o.policy, i)
	}
	require.Zero(t, sum(t, "vllm:num_preemptions_total", o.engines...), o.policy)
	require.Zero(t, sum(t, "vllm:num_requests_running", o.engines...), o.policy)
	require.Zero(t, sum(t, "vllm:kv_cache_usage_perc", o.engines...), o.policy)
	for _, name := range ledger() {
		require.Zero(t, sum(t, name, o.node), "%s: %s", o.policy, name)
	}
	require.InDelta(t, float64(len(o.samples)), sum(t, "plimsoll_replica_ticket_ends_total", o.node), 0, "%s: one ticket a request", o.policy)
	require.Zero(t, sum(t, "plimsoll_replica_late_ends_total", o.node), o.policy)
}

// hits is the part of all prompt tokens that the engines found in their caches.
func (o outcome) hits(t *testing.T) float64 {
	t.Helper()
	return sum(t, "vllm:prefix_cache_hits_total", o.engines...) / sum(t, "vllm:prefix_cache_queries_total", o.engines...)
}

func (o outcome) firstTokens() []time.Duration {
	times := make([]time.Duration, 0, len(o.samples))
	for i := range o.samples {
		if o.samples[i].Err == nil {
			times = append(times, o.samples[i].TTFT())
		}
	}
	return times
}

func (o outcome) firstToken(t *testing.T, q float64) time.Duration {
	t.Helper()
	v, ok := report.Quantile(o.firstTokens(), q)
	require.True(t, ok)
	return v
}

func (o outcome) perToken() []time.Duration {
	times := make([]time.Duration, 0, len(o.samples))
	for i := range o.samples {
		if v, ok := o.samples[i].TPOT(); ok && o.samples[i].Err == nil {
			times = append(times, v)
		}
	}
	return times
}

// table lays the outcomes out. late is how late the client sent, a sign of a machine too busy to measure on.
func table(t *testing.T, results []outcome) string {
	t.Helper()
	rows := [][]string{{
		"policy", "errors", "preemptions", "hits %", "TTFT p50 ms", "p90", "p99", "TPOT p50 ms", "p99",
		"busiest %", "late p99 ms", "CPU s: client", "serve", "sims",
	}}
	for _, o := range results {
		failed := 0
		late := make([]time.Duration, 0, len(o.samples))
		for i := range o.samples {
			if o.samples[i].Err != nil {
				failed++
				continue
			}
			late = append(late, o.samples[i].Sent-o.samples[i].At)
		}
		busiest := 0.0
		for _, m := range o.engines {
			busiest = max(busiest, sum(t, "vllm:prompt_tokens_total", m))
		}
		rows = append(rows, []string{
			o.policy, strconv.Itoa(failed), fmt.Sprintf("%.0f", sum(t, "vllm:num_preemptions_total", o.engines...)),
			fmt.Sprintf("%.1f", 100*o.hits(t)),
			report.Milliseconds(o.firstTokens(), 0.5), report.Milliseconds(o.firstTokens(), 0.9), report.Milliseconds(o.firstTokens(), 0.99),
			report.Milliseconds(o.perToken(), 0.5), report.Milliseconds(o.perToken(), 0.99),
			fmt.Sprintf("%.1f", 100*busiest/sum(t, "vllm:prompt_tokens_total", o.engines...)),
			report.Milliseconds(late, 0.99),
			fmt.Sprintf("%.1f", o.clientCPU.Seconds()), fmt.Sprintf("%.1f", o.nodeCPU.Seconds()), fmt.Sprintf("%.1f", o.simCPU.Seconds()),
		})
	}
	return report.Table(rows)
}
