package trial_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/testbench/fleet"
	"plimsoll/testbench/trace"
	"plimsoll/testbench/trial"
)

// answered is a request that came at 1 s.
func answered(wait, ttft, perToken time.Duration, prompt, output int) fleet.Sample {
	at := time.Second
	return fleet.Sample{
		Outcome: fleet.Finished, At: at, Dispatched: at + wait, First: at + ttft, Last: at + ttft + time.Duration(output-1)*perToken,
		PromptTokens: prompt, OutputTokens: output, Produced: output,
	}
}

func TestWhatIsRefusedIsInfinite(t *testing.T) {
	var samples []fleet.Sample
	for range 98 {
		samples = append(samples, answered(100*time.Millisecond, 500*time.Millisecond, 20*time.Millisecond, 1000, 11))
	}
	refused := fleet.Sample{Outcome: fleet.Refused, At: 2 * time.Second, PromptTokens: 1000, OutputTokens: 10, Replica: -1}
	s := trial.Summarize(append(samples, answered(time.Second, 2*time.Second, time.Second, 1000, 2), refused), trial.DefaultSLO(), 1)
	require.Equal(t, 100, s.Requests)
	require.Equal(t, 1, s.Refused)
	require.InDelta(t, 2, float64(s.TTFTP99), 1e-9, "the slowest that was served is the 99th of 100")
	require.InDelta(t, 0.98, s.Good, 1e-9)
	require.InDelta(t, 49, s.GoodRate, 1e-9, "the last one came after two seconds")

	s = trial.Summarize(append(samples, refused, refused), trial.DefaultSLO(), 1)
	for _, v := range []trial.Seconds{s.WaitP99, s.TTFTP99, s.TPOTP99, s.EndP99} {
		require.True(t, math.IsInf(float64(v), 1))
	}
	require.InDelta(t, 0.5, float64(s.TTFTP90), 1e-9)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(text), `"ttft_p99":null`)
	var back trial.Summary
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, s, back)
}

func TestGoodIsWithinTheSLO(t *testing.T) {
	slo := trial.DefaultSLO()
	for name, tc := range map[string]struct {
		sample fleet.Sample
		good   float64
	}{
		"at both limits":          {answered(0, 2100*time.Millisecond, 50*time.Millisecond, 1000, 5), 1},
		"first token too late":    {answered(0, 2101*time.Millisecond, 50*time.Millisecond, 1000, 5), 0},
		"tokens too slow":         {answered(0, time.Second, 51*time.Millisecond, 1000, 5), 0},
		"one token has no pace":   {answered(0, time.Second, time.Hour, 1000, 1), 1},
		"a longer prompt may be":  {answered(0, 2101*time.Millisecond, 50*time.Millisecond, 1010, 5), 1},
		"failed after some words": {fleet.Sample{Outcome: fleet.Failed, At: 1, First: 2, Last: 3, PromptTokens: 9}, 0},
	} {
		require.InDelta(t, tc.good, trial.Summarize([]fleet.Sample{tc.sample}, slo, 1).Good, 0, name)
	}
	slo.TPOT = 0
	require.Error(t, slo.Validate())
}

func TestTheBusiestReplicaIsComparedWithTheMean(t *testing.T) {
	var samples []fleet.Sample
	for i := range 4 {
		s := answered(0, time.Second, 0, 100, 1)
		s.Replica, s.CachedTokens = i/3, 25
		samples = append(samples, s)
	}
	s := trial.Summarize(samples, trial.DefaultSLO(), 2)
	require.InDelta(t, 1.5, s.BusiestPart, 1e-9)
	require.InDelta(t, 0.25, s.HitShare, 1e-9)
}

func TestBootstrap(t *testing.T) {
	require.Equal(t, trial.Interval{Mean: 3, Low: 3, High: 3}, trial.Bootstrap([]float64{3}))
	inf := trial.Bootstrap([]float64{3, math.Inf(1)})
	require.True(t, math.IsInf(inf.Mean, 1) && math.IsInf(inf.High, 1))
	require.True(t, math.IsNaN(trial.Bootstrap(nil).Mean))
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), 2, 30).Draw(t, "values")
		i := trial.Bootstrap(values)
		require.LessOrEqual(t, i.Low, i.Mean+1e-9)
		require.GreaterOrEqual(t, i.High, i.Mean-1e-9)
		require.Equal(t, i, trial.Bootstrap(values))
	})
	// Of 25 draws of a variance of 1 the mean lies within 0.39 of theirs, 19 times in 20.
	values := make([]float64, 25)
	for i := range values {
		values[i] = math.Sqrt2 * math.Sin(float64(i)*2*math.Pi/25)
	}
	i := trial.Bootstrap(values)
	require.InDelta(t, 2*1.96/5, i.High-i.Low, 0.08)
}

// TestTheIntervalOfAFewValuesIsWideEnough: of five draws around 0, one in twenty intervals may miss it, or a little more.
func TestTheIntervalOfAFewValuesIsWideEnough(t *testing.T) {
	const trials = 1000
	rng := rand.New(rand.NewPCG(5, 5))
	missed := 0
	for range trials {
		values := make([]float64, 5)
		for j := range values {
			values[j] = rng.NormFloat64()
		}
		if i := trial.Bootstrap(values); i.Low > 0 || i.High < 0 {
			missed++
		}
	}
	require.Less(t, missed, trials*8/100)
	require.Greater(t, missed, trials*3/100, "it says something")
}

func config() trial.Config {
	c := trial.DefaultConfig(trace.AgentsName)
	c.Traffic.Requests = 150
	c.Fleet.Replicas = 3
	c.Seeds = []uint64{4, 5}
	return c
}

// deps counts the words of progress that speak of saturation.
func deps(path string) (trial.Deps, *int) {
	measured := new(int)
	return trial.Deps{Cache: trial.Cache{Path: path, Build: "b"}, Tell: func(p trial.Progress) {
		if strings.Contains(p.What, "saturation") {
			*measured++
		}
	}}, measured
}

func TestSimulateComparesPoliciesInPairs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache", "saturation.jsonl")
	c := config()
	c.Keep = true
	with, measured := deps(path)
	r, err := trial.Simulate(c, with)
	require.NoError(t, err)
	require.Positive(t, *measured)
	require.Len(t, r.Runs, 4)
	require.Positive(t, r.Saturation)
	for i, run := range r.Runs {
		require.Equal(t, c.Policies[i%2], run.Policy)
		require.Equal(t, c.Seeds[i/2], run.Seed)
		require.Equal(t, 150, run.Summary.Requests)
		require.InDelta(t, 0.8*r.Saturation, run.PerSecond, 1e-6, "the load is that asked for")
		require.Equal(t, i < 2, run.Result != nil, "the first seed's are kept")
	}
	a, b := r.Runs[0].Result.Samples, r.Runs[1].Result.Samples
	for i := range a {
		require.Equal(t, a[i].At, b[i].At)
		require.Equal(t, a[i].PromptTokens, b[i].PromptTokens)
	}
	require.NotEqual(t, r.Runs[0].Digest, r.Runs[1].Digest)

	with, measured = deps(path)
	again, err := trial.Simulate(c, with)
	require.NoError(t, err)
	require.Zero(t, *measured, "it is measured once")
	require.Equal(t, r, again)

	c.Fleet.Replicas = 2
	with, measured = deps(path)
	_, err = trial.Simulate(c, with)
	require.NoError(t, err)
	require.Positive(t, *measured, "another fleet can do other things")

	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = trial.Simulate(c, with)
	require.ErrorContains(t, err, path)
}

func TestSpeedNeedsNoSaturation(t *testing.T) {
	c := config()
	c.Load, c.Speed = nil, new(2.0)
	with, measured := deps("")
	r, err := trial.Simulate(c, with)
	require.NoError(t, err)
	require.Zero(t, *measured)
	require.InDelta(t, 2, r.Runs[0].Speed, 0)
}

func TestTheFleetIsMoreThanBusyBeyondLoadOne(t *testing.T) {
	c := trial.DefaultConfig(trace.SharedPromptName)
	c.Traffic.Requests, c.Fleet.Replicas, c.Policies = 500, 1, []string{"token-load"}
	ttft := map[float64]float64{}
	for _, load := range []float64{0.5, 1.5} {
		c.Load = &load
		with, _ := deps("")
		r, err := trial.Simulate(c, with)
		require.NoError(t, err)
		ttft[load] = float64(r.Runs[0].Summary.TTFTP90)
	}
	require.Greater(t, ttft[1.5], 3*ttft[0.5])
}

func TestConfigsThatMakeNoSense(t *testing.T) {
	for want, change := range map[string]func(*trial.Config){
		"unknown policy":       func(c *trial.Config) { c.Policies = []string{"oracle"} },
		"named twice":          func(c *trial.Config) { c.Policies = []string{"random", "round-robin", "round-robin"} },
		"at least one policy":  func(c *trial.Config) { c.Seeds = nil },
		"load or a speed":      func(c *trial.Config) { c.Speed = new(1.0) },
		"a load of -1":         func(c *trial.Config) { c.Load = new(-1.0) },
		"0 replicas":           func(c *trial.Config) { c.Fleet.Replicas = 0 },
		"a trace is needed":    func(c *trial.Config) { c.Traffic.Trace = "" },
		"at least one request": func(c *trial.Config) { c.Traffic.Requests = 0 },
		"squeezed by 1":        func(c *trial.Config) { c.Traffic.Squeeze = 0 },
		"a negative time":      func(c *trial.Config) { c.Traffic.Spread = new(-time.Second) },
		"of an SLO":            func(c *trial.Config) { c.SLO.TTFT = -1 },
	} {
		c := config()
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
	require.NoError(t, config().Validate())
	c := config()
	c.Traffic.Trace = "nowhere.jsonl"
	with, _ := deps("")
	_, err := trial.Simulate(c, with)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestReportsSayTheSame(t *testing.T) {
	c := config()
	c.Keep = true
	with, _ := deps("")
	r, err := trial.Simulate(c, with)
	require.NoError(t, err)
	require.Contains(t, r.Head(), "agents, 150 requests")
	require.Contains(t, r.Head(), "3 x h100-8b; load 0.8 of")
	table := r.Table()
	require.Equal(t, 3, strings.Count(table, "\n"))
	page, err := trial.Page(r, time.Unix(0, 0))
	require.NoError(t, err)
	text := string(page)
	for _, p := range c.Policies {
		require.Contains(t, table, p)
		require.Contains(t, text, p+": cache in use, replica by replica")
	}
	require.Equal(t, 6+2, strings.Count(text, "<svg"))
	require.NotContains(t, text, "http", "the page needs nothing from elsewhere")
	require.NotContains(t, text, "<script")
	require.NotContains(t, text, "BADINDEX")
	require.NotContains(t, text, "NaN")

	var lines bytes.Buffer
	require.NoError(t, r.WriteSamples(&lines))
	require.Equal(t, 2*150, strings.Count(lines.String(), "\n"), "of the first seed")
	for line := range strings.Lines(lines.String()) {
		var x struct {
			Outcome       string
			Wait, TTFT    float64
			PromptTokens  int `json:"prompt_tokens"`
			OutputTokens  int `json:"output_tokens"`
			Replica, Seed int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &x))
		require.Equal(t, "finished", x.Outcome)
		require.Equal(t, 4, x.Seed)
		require.Greater(t, x.TTFT, x.Wait)
		require.Positive(t, min(x.PromptTokens, x.OutputTokens))
	}

	encoded, err := json.Marshal(r)
	require.NoError(t, err)
	var back trial.Report
	require.NoError(t, json.Unmarshal(encoded, &back))
	require.Equal(t, table, back.Table())

	back.Runs = back.Runs[:0]
	_, err = trial.Page(&back, time.Unix(0, 0))
	require.NoError(t, err)
}

func TestBarShowsProgressOnTerminalsOnly(t *testing.T) {
	p := trial.Progress{What: "x, seed 1", Run: 2, Runs: 4, Arrived: 50, Total: 100, Virtual: time.Minute}
	var b bytes.Buffer
	bar := trial.NewBar(&b, true)
	bar.Show(p)
	require.Equal(t, "\r\x1b[K[###############               ] 2/4 x, seed 1: 50 of 100 requests, 1m0s of virtual time", b.String())
	bar.End()
	require.True(t, strings.HasSuffix(b.String(), "time\r\x1b[K"))
	b.Reset()
	bar = trial.NewBar(&b, false)
	bar.Show(p)
	bar.End()
	require.Empty(t, b.String())
}
