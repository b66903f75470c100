//go:build prove

package prove

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/openai"
	"plimsoll/engine/wire"
	"plimsoll/testbench/load"
	"plimsoll/testbench/report"
)

// The overload: A10s, of which two cores carry four with thrice what they can take, and the bars.
const (
	overloadReplicas = 4
	overloadProfile  = "a10-8b"
	overloadSlots    = 48
	overloadSLO      = 2 * time.Second        // to the first token
	overloadPerToken = 100 * time.Microsecond // and for each token of the prompt
	acceptedInTime   = 0.95
	goodKept         = 0.85 // of the good requests a second at load 1
	firstTokenAfter  = 1.2  // times as long as before
	healedAfter      = 5 * time.Second
	lagMax           = 100 * time.Millisecond // the generator's, at the 99th percentile: more says nothing of the node
)

// phase is a stretch of arrivals at a part of what saturates the fleet.
type phase struct {
	name string
	load float64
	last time.Duration
	seed uint64 // of arrivals and lengths: what is compared has the same ones
	from time.Duration
	of   []load.Sample
	// prompts are the lengths of theirs.
	prompts []int
}

// TestOverload: thrice of what saturates the fleet comes for a minute. Who is let in is answered in time, nobody else waits, as much
// good work is done as before, and it is over when it is over.
func TestOverload(t *testing.T) {
	o := newOverload(t)
	rate := o.saturation(t)
	phases := []phase{
		{name: "0.5 before", load: 0.5, last: 30 * time.Second, seed: 1},
		{name: "1.0", load: 1, last: 60 * time.Second, seed: 2},
		{name: "3.0", load: 3, last: 60 * time.Second, seed: 3},
		{name: "0.5, first 5 s", load: 0.5, last: healedAfter, seed: 4},
		{name: "0.5 after", load: 0.5, last: 30 * time.Second, seed: 1},
	}
	o.run(t, rate, phases)
	rows := [][]string{{"load", "sent/s", "200", "429", "503", "other", "in time", "% of 200", "good/s", "prompt tokens/s", "Retry-After p50 s", "TTFT p50 ms", "p95 ms", "p99 ms", "lag p99 ms", "max ms"}}
	var wrong []string
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for i := range phases {
		rows = append(rows, phases[i].row())
		for j := range phases[i].of {
			if err := answered(&phases[i].of[j]); err != nil {
				fail("%s: request %d: %s", phases[i].name, j, err)
			}
		}
		if lag, _ := report.Quantile(lags(phases[i].of), 0.99); lag > lagMax {
			fail("%s: the generator lags by %s: the machine is too busy to say anything", phases[i].name, lag)
		}
		if in, all := phases[i].good(), phases[i].status(http.StatusOK); float64(in) < acceptedInTime*float64(all) {
			fail("%s: %d of %d that were let in are answered in time", phases[i].name, in, all)
		}
	}
	one, three := phases[1].goodPerSecond(), phases[2].goodPerSecond()
	before, _ := report.Quantile(firstTokensDue(phases[0].of), 0.5)
	after, _ := report.Quantile(firstTokensDue(phases[4].of), 0.5)
	if three < goodKept*one {
		fail("%.2f good requests a second at load 3, %.2f at load 1", three, one)
	}
	if after.Seconds() > firstTokenAfter*before.Seconds() {
		fail("the first token takes %s from %s after the burst on, %s before it", after, healedAfter, before)
	}
	t.Logf("%d x %s with %d slots; %.2f requests a second saturate them; an SLO of %s and %s a prompt token\n%s\nwho is let in at load 3\n%s\ngood at load 3 ÷ at load 1: %.2f; TTFT p50 after ÷ before: %.2f\nCPU: node %s",
		overloadReplicas, overloadProfile, overloadSlots, rate, overloadSLO, overloadPerToken, report.Table(rows), report.Table(phases[2].letIn()), three/one, after.Seconds()/before.Seconds(), o.node.stop(t))
	if len(wrong) > 20 {
		wrong = append(wrong[:20], fmt.Sprintf("and %d more", len(wrong)-20))
	}
	require.Empty(t, wrong, strings.Join(wrong, "\n"))
}

// overload is a node before its engines.
type overload struct {
	node   *program
	client *http.Client
	rng    *rand.Rand
	// prompts are the lengths of all that was made, in order.
	prompts []int
}

func newOverload(t *testing.T) *overload {
	t.Helper()
	o := &overload{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}}, rng: rand.New(rand.NewPCG(7, 11)),
	}
	args := []string{"serve", "--listen", "127.0.0.1:0", "--tokenizer", simFolder(t)}
	for i := range overloadReplicas {
		sim := launch(t, 1, "sim", "--listen", "127.0.0.1:0", "--profile", overloadProfile, "--slots", strconv.Itoa(overloadSlots))
		args = append(args, "--replica", fmt.Sprintf("vllm=%s,name=sim-%d,slots=%d", sim.urls[0], i+1, overloadSlots))
	}
	o.node = launch(t, 1, args...)
	t.Cleanup(o.client.CloseIdleConnections)
	awaitReady(t, o.node.urls[0], overloadReplicas)
	return o
}

// call is a request of its own text: some hundred tokens of prompt, few of them thousands, and some tens of answer.
func (o *overload) call(at time.Duration, lengths *rand.Rand, hurried bool) load.Call {
	prompt := int(min(4000, max(32, 400*math.Exp(0.9*lengths.NormFloat64()))))
	output := int(min(256, max(8, 48*math.Exp(0.6*lengths.NormFloat64()))))
	o.prompts = append(o.prompts, prompt)
	ids := make([]uint32, prompt)
	for i := range ids {
		ids[i] = o.rng.Uint32N(4000)
	}
	c := load.Call{At: at, Body: func() []byte {
		return fmt.Appendf(wire.AppendIDs([]byte(`{"prompt":`), ids),
			`,"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, output)
	}}
	if hurried {
		c.Header = http.Header{"X-Slo-Ttft-Ms": {strconv.FormatInt(slo(prompt).Milliseconds(), 10)}}
	}
	return c
}

func slo(prompt int) time.Duration { return overloadSLO + time.Duration(prompt)*overloadPerToken }

func (o *overload) send(t *testing.T, calls []load.Call, most int) []load.Sample {
	t.Helper()
	samples, err := load.Run(t.Context(), load.Config{URL: o.node.urls[0] + "/v1/completions", InFlightMax: most, Timeout: 2 * time.Minute}, o.client, calls)
	require.NoError(t, err)
	return samples
}

// saturation is how many requests a second are answered while as many as there are seats always want to be. The node learns the
// engines' pace from them.
func (o *overload) saturation(t *testing.T) float64 {
	t.Helper()
	o.send(t, o.crowd(100), overloadReplicas*8) // replicas ramp up
	const crowd = 700
	samples := o.send(t, o.crowd(crowd), overloadReplicas*overloadSlots)
	require.NoError(t, failures(samples))
	ends := make([]time.Duration, 0, len(samples))
	for i := range samples {
		ends = append(ends, samples[i].Last)
	}
	slices.Sort(ends)
	from, to := ends[crowd/4], ends[crowd*3/4]
	return float64(crowd/2) / (to - from).Seconds()
}

func (o *overload) crowd(n int) []load.Call {
	calls := make([]load.Call, n)
	for i := range calls {
		calls[i] = o.call(0, o.rng, false)
	}
	return calls
}

// run sends all phases, one right after the other, and gives each its samples.
func (o *overload) run(t *testing.T, rate float64, phases []phase) {
	t.Helper()
	var calls []load.Call
	o.prompts = nil
	at := time.Duration(0)
	for i := range phases {
		p := &phases[i]
		p.from = at
		drawn := rand.New(rand.NewPCG(p.seed, 13))
		for next := at; ; {
			next += time.Duration(drawn.ExpFloat64() / (p.load * rate) * float64(time.Second))
			if next >= at+p.last {
				break
			}
			calls = append(calls, o.call(next, drawn, true))
		}
		at += p.last
	}
	samples := o.send(t, calls, 1<<14)
	for i := range phases {
		p := &phases[i]
		for j := range samples {
			if s := &samples[j]; s.At >= p.from && s.At < p.from+p.last {
				p.of = append(p.of, *s)
				p.prompts = append(p.prompts, o.prompts[j])
			}
		}
	}
}

// answered says what is wrong with an answer: it is whole, or a refusal that says why and when to come back.
func answered(s *load.Sample) error {
	switch s.Status {
	case http.StatusOK:
		return s.Err
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
	default:
		return fmt.Errorf("status %d: %w", s.Status, s.Err)
	}
	var body openai.ErrorBody
	if err := json.Unmarshal(s.Refusal, &body); err != nil {
		return fmt.Errorf("the body is no error object: %w", err)
	}
	e := body.Error
	switch {
	case e.Message == "" || e.Code == nil:
		return fmt.Errorf("the error object says too little: %s", s.Refusal)
	case s.Status == http.StatusTooManyRequests && (e.Type != "overloaded_error" || *e.Code != "slo_not_met" && *e.Code != "overloaded"):
		return fmt.Errorf("not the error of a busy fleet: %s", s.Refusal)
	}
	if after, err := strconv.Atoi(s.RetryAfter); err != nil || after < 1 || after > 60 {
		return fmt.Errorf("Retry-After is %q", s.RetryAfter)
	}
	return nil
}

func (p *phase) status(status int) int {
	n := 0
	for i := range p.of {
		if p.of[i].Status == status {
			n++
		}
	}
	return n
}

// good counts those that were answered in time.
func (p *phase) good() int {
	n := 0
	for i := range p.of {
		if s := &p.of[i]; s.Err == nil && s.TTFT() <= slo(s.PromptTokens) {
			n++
		}
	}
	return n
}

// promptTokensPerSecond counts the prompts of those.
func (p *phase) promptTokensPerSecond() float64 {
	n := 0
	for i := range p.of {
		if s := &p.of[i]; s.Err == nil && s.TTFT() <= slo(s.PromptTokens) {
			n += s.PromptTokens
		}
	}
	return float64(n) / p.last.Seconds()
}

// retryAfter is the median of what those that were refused were told.
func (p *phase) retryAfter() string {
	var told []int
	for i := range p.of {
		if n, err := strconv.Atoi(p.of[i].RetryAfter); err == nil {
			told = append(told, n)
		}
	}
	n, ok := report.Quantile(told, 0.5)
	if !ok {
		return "-"
	}
	return strconv.Itoa(n)
}

// letIn tells how many were let in, by the length of their prompts.
func (p *phase) letIn() [][]string {
	rows := [][]string{{"prompt tokens", "sent", "let in", "%"}}
	least := 0
	for _, most := range []int{256, 512, 1024, 2048, 4096} {
		sent, in := 0, 0
		for i := range p.of {
			if n := p.prompts[i]; n > least && n <= most {
				sent++
				if p.of[i].Status == http.StatusOK {
					in++
				}
			}
		}
		rows = append(rows, []string{
			fmt.Sprintf("%d to %d", least+1, most), strconv.Itoa(sent), strconv.Itoa(in), fmt.Sprintf("%.0f", 100*float64(in)/float64(max(1, sent))),
		})
		least = most
	}
	return rows
}

func (p *phase) goodPerSecond() float64 { return float64(p.good()) / p.last.Seconds() }

func (p *phase) row() []string {
	ok, busy, none := p.status(http.StatusOK), p.status(http.StatusTooManyRequests), p.status(http.StatusServiceUnavailable)
	first := firstTokensDue(p.of)
	return []string{
		p.name, fmt.Sprintf("%.1f", float64(len(p.of))/p.last.Seconds()), strconv.Itoa(ok), strconv.Itoa(busy), strconv.Itoa(none),
		strconv.Itoa(len(p.of) - ok - busy - none), strconv.Itoa(p.good()), fmt.Sprintf("%.1f", 100*float64(p.good())/float64(max(1, ok))),
		fmt.Sprintf("%.2f", p.goodPerSecond()), fmt.Sprintf("%.0f", p.promptTokensPerSecond()), p.retryAfter(), report.Milliseconds(first, 0.5), report.Milliseconds(first, 0.95), report.Milliseconds(first, 0.99),
		report.Milliseconds(lags(p.of), 0.99), report.Milliseconds(lags(p.of), 1),
	}
}

// firstTokensDue are the times to the first token from when each request was due.
func firstTokensDue(samples []load.Sample) []time.Duration {
	var out []time.Duration
	for i := range samples {
		if samples[i].Err == nil {
			out = append(out, samples[i].TTFT())
		}
	}
	return out
}

// lags are how late requests were sent.
func lags(samples []load.Sample) []time.Duration {
	out := make([]time.Duration, 0, len(samples))
	for i := range samples {
		out = append(out, samples[i].Sent-samples[i].At)
	}
	return out
}
