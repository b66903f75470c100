package vllm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/wire"
)

func deps() Deps {
	return Deps{Dial: (&net.Dialer{}).DialContext, Log: slog.New(slog.DiscardHandler), Entropy: rand.Uint64}
}

// recordedAnswer is a script that answers as recorded.
func recordedAnswer(tb testing.TB, name string) func(*enginetest.Session) {
	tb.Helper()
	rec := named(tb, name)
	return rec.Replay
}

// siteOf is the recorded server with the named metrics.
func siteOf(tb testing.TB, metrics string) enginetest.Site {
	tb.Helper()
	return enginetest.Site{
		"/health":    recordedAnswer(tb, "info/health"),
		"/v1/models": recordedAnswer(tb, "info/v1-models"),
		"/version":   recordedAnswer(tb, "info/version"),
		"/metrics":   enginetest.Saying(200, metricsText(tb, metrics)),
	}
}

func TestProbe(t *testing.T) {
	loaded := engine.Status{
		Model: "tiny", Version: "0.32.0", Incarnation: "start:1795982701.76", Adapters: []string{"lora-a", "lora-b"},
		BlockTokens: ptr(32), KVBlocks: ptr(255), Seats: ptr(128), SequenceTokens: ptr(2048),
		Load:  engine.Load{RunningSequences: ptr(16), WaitingSequences: ptr(8), UsedBlocks: ptr(144), Steps: ptr(uint64(1482))},
		Names: []string{"tiny"}, LengthTokens: ptr(2048), Process: "made:1795982926.856558",
	}
	with := func(change func(*engine.Status)) engine.Status {
		st := loaded
		change(&st)
		return st
	}
	instead := func(text string) func(enginetest.Site) {
		return func(s enginetest.Site) { s["/metrics"] = enginetest.Saying(200, text) }
	}
	cacheInfo := func(labels string) func(enginetest.Site) {
		return instead("vllm:cache_config_info{" + labels + `} 1` + "\n")
	}
	noLoad := func(blocks, blockTokens, sequence int) engine.Status {
		return with(func(s *engine.Status) {
			s.Load, s.Incarnation, s.Process = engine.Load{}, "life:0", ""
			s.KVBlocks, s.BlockTokens, s.SequenceTokens = &blocks, &blockTokens, &sequence
		})
	}
	for name, c := range map[string]struct {
		site   func(enginetest.Site)
		config func(*Config)
		want   engine.Status
	}{
		"one block less than reported: the null block":     {nil, nil, loaded},
		"max_num_seqs is the operator's to say":            {nil, func(c *Config) { c.Slots = 16 }, with(func(s *engine.Status) { s.Seats = ptr(16) })},
		"the operator's capacity":                          {nil, func(c *Config) { c.CapacityTokens = ptr(1000) }, with(func(s *engine.Status) { s.KVBlocks, s.SequenceTokens = ptr(31), ptr(992) })},
		"a named model":                                    {nil, func(c *Config) { c.Model = "tiny" }, loaded},
		"an adapter as the model has its parent's context": {nil, func(c *Config) { c.Model = "lora-b" }, with(func(s *engine.Status) { s.Model, s.Names = "lora-b", []string{"tiny", "lora-b"} })},
		"several names of one model": {
			func(s enginetest.Site) {
				s["/v1/models"] = enginetest.Saying(200, `{"data":[{"id":"big","max_model_len":2048},{"id":"tiny","max_model_len":2048},{"id":"a","parent":"big"}]}`)
			},
			func(c *Config) { c.Model = "tiny" }, with(func(s *engine.Status) { s.Names, s.Adapters = []string{"big", "tiny"}, []string{"a"} }),
		},
		"the tokens go before the blocks, which count all ranks": {cacheInfo(`block_size="32",num_gpu_blocks="128",kv_cache_size_tokens="2048",engine="0"`), nil, noLoad(63, 32, 2016)},
		"older servers tell only blocks":                         {cacheInfo(`block_size="16",num_gpu_blocks="1000",engine="0"`), nil, noLoad(999, 16, 2048)},
		"None is no number":                                      {cacheInfo(`block_size="16",num_gpu_blocks="None",kv_cache_size_tokens="None"`), nil, noLoad(128, 16, 2048)},
		"no metrics at all: what every server holds":             {func(s enginetest.Site) { s["/metrics"] = enginetest.Saying(404, `{"detail":"Not Found"}`) }, nil, noLoad(128, 16, 2048)},
		"no metrics, the operator knows":                         {instead("other 1\n"), func(c *Config) { c.CapacityTokens, c.BlockTokens = ptr(64000), 64 }, noLoad(1000, 64, 2048)},
		"more blocks than there can be are not told":             {cacheInfo(`block_size="16",num_gpu_blocks="1000000000000000000"`), nil, noLoad(128, 16, 2048)},
		"nor are blocks that no sequence fills":                  {cacheInfo(`block_size="1099511627777",num_gpu_blocks="1000"`), nil, noLoad(128, 16, 2048)},
		"no version":                                             {func(s enginetest.Site) { s["/version"] = enginetest.Saying(404, "") }, nil, with(func(s *engine.Status) { s.Version = "" })},
		"the usage's older name": {
			instead("# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"101\"} 1\n"), nil,
			with(func(s *engine.Status) {
				*s = noLoad(100, 16, 1600)
				s.Load.UsedBlocks = ptr(50)
			}),
		},
		"counts that are none": {
			instead("vllm:num_requests_running -1\nvllm:num_requests_waiting NaN\nvllm:kv_cache_usage_perc 7\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"101\"} 1\n"), nil, noLoad(100, 16, 1600),
		},
	} {
		t.Run(name, func(t *testing.T) {
			site := siteOf(t, "metrics-loaded")
			if c.site != nil {
				c.site(site)
			}
			e := engineAt(t, site.Serve(t), func(cfg *Config) {
				if c.config != nil {
					c.config(cfg)
				}
			})
			got, err := e.Probe(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestEachRankIsAReplicaOfItsOwn(t *testing.T) {
	site := siteOf(t, "metrics-dp2")
	url := site.Serve(t)
	for rank, steps := range map[int]uint64{0: 4, 1: 5} {
		st, err := engineAt(t, url, func(c *Config) { c.Rank = &rank }).Probe(t.Context())
		require.NoError(t, err)
		require.Equal(t, 63, *st.KVBlocks)
		require.Equal(t, steps, *st.Load.Steps)
		require.Equal(t, []int{0, 1}, st.Ranks)
		require.Equal(t, "life:0", st.Incarnation, "several API servers show no start time")
	}
	_, err := engineAt(t, url, func(c *Config) { c.Rank = ptr(2) }).Probe(t.Context())
	enginetest.FailureIn(t, err, engine.Operator)
	require.ErrorContains(t, err, "no data-parallel rank 2")
}

func TestAServerWithMoreRanksThanThoughtIsUsedAtOne(t *testing.T) {
	var rank atomic.Pointer[string]
	site := siteOf(t, "metrics-dp2")
	site["/v1/completions"] = func(s *enginetest.Session) {
		named := s.Request.Header.Get("X-data-parallel-rank")
		rank.Store(&named)
		_ = s.Say(enginetest.StreamHeader, enginetest.Chunk(completionsFinish), enginetest.Chunk(trailer), enginetest.LastChunk)
	}
	e := engineAt(t, site.Serve(t))
	st, err := e.Probe(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(4), *st.Load.Steps)
	require.Equal(t, []int{0, 1}, st.Ranks, "whoever asked learns of the others")
	require.NoError(t, enginetest.Generate(t, e, enginetest.Request(1)).Err)
	require.Equal(t, "0", *rank.Load())
}

func TestRanksThatAreNotTold(t *testing.T) {
	for name, script := range map[string]func(*enginetest.Session){
		"no metrics": enginetest.Saying(404, ""), "no label": enginetest.Saying(200, "vllm:cache_config_info{block_size=\"16\"} 1\n"),
		"only one": enginetest.Saying(200, "vllm:cache_config_info{engine=\"0\",block_size=\"16\"} 1\n"),
	} {
		site := siteOf(t, "metrics-idle")
		site["/metrics"] = script
		st, err := engineAt(t, site.Serve(t)).Probe(t.Context())
		require.NoError(t, err, name)
		require.Empty(t, st.Ranks, name)
	}
}

func TestProbeOfAServerThatCannotServe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(enginetest.Site)
		kind   engine.FailKind
		words  string
	}{
		"a dead engine core":               {func(s enginetest.Site) { s["/health"] = enginetest.Saying(503, "") }, engine.Broken, "core is dead"},
		"a wrong key":                      {func(s enginetest.Site) { s["/v1/models"] = recordedAnswer(t, "variants/05-open-v1-models") }, engine.Operator, "Unauthorized"},
		"no model":                         {func(s enginetest.Site) { s["/v1/models"] = enginetest.Saying(200, `{"data":[]}`) }, engine.Operator, "lists no model"},
		"models of another shape":          {func(s enginetest.Site) { s["/v1/models"] = enginetest.Saying(200, `{"data":7}`) }, engine.Broken, "models"},
		"metrics that are none":            {func(s enginetest.Site) { s["/metrics"] = enginetest.Saying(200, "{}}") }, engine.Broken, "metrics"},
		"metrics refused":                  {func(s enginetest.Site) { s["/metrics"] = enginetest.Saying(500, "") }, engine.Broken, "500"},
		"a sleeping engine":                {func(s enginetest.Site) { s["/metrics"] = enginetest.Saying(200, asleep(t)) }, engine.Shed, "sleeps"},
		"a connection that breaks at last": {func(s enginetest.Site) { s["/version"] = func(s *enginetest.Session) { _ = s.Close() } }, engine.Broken, ""},
	} {
		t.Run(name, func(t *testing.T) {
			site := siteOf(t, "metrics-idle")
			c.change(site)
			st, err := engineAt(t, site.Serve(t)).Probe(t.Context())
			enginetest.FailureIn(t, err, c.kind)
			require.ErrorContains(t, err, c.words)
			require.Zero(t, st)
		})
	}
	_, err := engineAt(t, siteOf(t, "metrics-idle").Serve(t), func(c *Config) { c.Model = "other" }).Probe(t.Context())
	enginetest.FailureIn(t, err, engine.Operator)
	require.ErrorContains(t, err, `does not serve the model "other" but "tiny"`)
}

// Metrics are for watching: a server that has been seen serves on without them, as the one it was, and is trusted with no
// more than before. After it may have ended it is to be seen anew.
func TestAServerIsNotGivenUpForMetricsThatCannotBeRead(t *testing.T) {
	for name, broken := range enginetest.UnreadableMetrics(metricsText(t, "metrics-loaded")) {
		t.Run(name, func(t *testing.T) {
			says := "up"
			var now atomic.Pointer[string]
			now.Store(&says)
			var metrics atomic.Pointer[func(*enginetest.Session)]
			site := siteOf(t, "metrics-loaded")
			well := site["/metrics"]
			metrics.Store(&well)
			site["/metrics"] = func(s *enginetest.Session) { (*metrics.Load())(s) }
			d := deps()
			d.Dial = refusing(d.Dial, &now)
			e, err := New(configAt(enginetest.Serve(t, func(s *enginetest.Session) { site[s.Request.URL.Path](s) })), d) // a connection a question
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close()) }()
			seen, err := e.Probe(t.Context())
			require.NoError(t, err)
			require.NotZero(t, seen.Load)

			metrics.Store(&broken)
			for range 2 {
				st, err := e.Probe(t.Context())
				require.NoError(t, err)
				want := seen
				want.Load = engine.Load{}
				require.Equal(t, want, st)
			}
			metrics.Store(&well)
			st, err := e.Probe(t.Context())
			require.NoError(t, err)
			require.Equal(t, seen, st)

			metrics.Store(&broken)
			down := ""
			now.Store(&down)
			_, err = e.Probe(t.Context())
			enginetest.FailureIn(t, err, engine.Refused)
			now.Store(&says)
			_, err = e.Probe(t.Context())
			enginetest.FailureIn(t, err, engine.Broken)
		})
	}
}

func asleep(tb testing.TB) string {
	tb.Helper()
	text := metricsText(tb, "metrics-idle")
	out := strings.ReplaceAll(text, `sleep_state="awake"} 1.0`, `sleep_state="awake"} 0.0`)
	require.NotEqual(tb, text, out)
	return out
}

// Each case is what the server says probe after probe, and how many lives it has shown.
func TestTwoLivesDiffer(t *testing.T) {
	const refused = ""
	counters := func(n int) string { return fmt.Sprintf("vllm:prompt_tokens_total %d\n", n) }
	started := func(second int) string {
		return fmt.Sprintf("process_start_time_seconds %d\n", second) + counters(second)
	}
	for name, c := range map[string]struct {
		says  []string
		lives int
	}{
		"one start time":                        {[]string{started(7), started(7)}, 1},
		"another start time":                    {[]string{started(7), started(9)}, 2},
		"an earlier start time":                 {[]string{started(9), started(7)}, 2},
		"counters that grow":                    {[]string{counters(3), counters(3), counters(5)}, 1},
		"counters that went back":               {[]string{counters(5), counters(3), counters(4)}, 2},
		"nobody listened and no call was alive": {[]string{counters(0), refused, counters(0), counters(0)}, 2},
		"a start time is better evidence":       {[]string{started(7), refused, started(7)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Pointer[string]
			site := siteOf(t, "metrics-idle")
			site["/metrics"] = func(s *enginetest.Session) { enginetest.Saying(200, *now.Load())(s) }
			cfg := configAt(enginetest.Serve(t, func(s *enginetest.Session) { site[s.Request.URL.Path](s) })) // a connection a question
			d := deps()
			d.Dial = refusing(d.Dial, &now)
			e, err := New(cfg, d)
			require.NoError(t, err)
			seen := map[string]bool{}
			for _, text := range c.says {
				now.Store(&text)
				st, err := e.Probe(t.Context())
				if text == refused {
					enginetest.FailureIn(t, err, engine.Refused)
					continue
				}
				require.NoError(t, err)
				seen[st.Incarnation] = true
			}
			require.Len(t, seen, c.lives)
			require.NoError(t, e.Close())
		})
	}
}

// refusing dials unless there is nothing to say.
func refusing(dial wire.Dial, now *atomic.Pointer[string]) wire.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if *now.Load() == "" {
			return nil, errors.New("refused")
		}
		return dial(ctx, network, address)
	}
}

func TestGenerateIsUsedWhereAProbeFindsIt(t *testing.T) {
	off, absent, on := recordedAnswer(t, "variants/07-generate-off"), enginetest.Saying(404, `{"detail":"Not Found"}`), recordedAnswer(t, "generate/23-err-no-sampling-params")
	for name, c := range map[string]struct {
		api    API
		answer func(*enginetest.Session)
		path   string
	}{
		"off: 403":                {APIAuto, off, "/v1/completions"},
		"absent: 404":             {APIAuto, absent, "/v1/completions"},
		"on: it refuses nonsense": {APIAuto, on, "/inference/v1/generate"},
		"not wanted":              {APICompletions, on, "/v1/completions"},
		"wanted all the same":     {APIGenerate, off, "/inference/v1/generate"},
	} {
		t.Run(name, func(t *testing.T) {
			var path atomic.Pointer[string]
			site := siteOf(t, "metrics-idle")
			answer := func(s *enginetest.Session) {
				path.Store(&s.Request.URL.Path)
				_ = s.Say(enginetest.StreamHeader, enginetest.Chunk(completionsFinish), enginetest.Chunk(trailer), enginetest.LastChunk)
			}
			site["/v1/completions"] = answer
			site["/inference/v1/generate"] = func(s *enginetest.Session) {
				if s.Body == "{}" {
					if c.api != APIAuto {
						t.Error("a probe that nobody wants")
					}
					c.answer(s)
					return
				}
				answer(s)
			}
			e := engineAt(t, site.Serve(t), func(cfg *Config) { cfg.API = c.api })
			for range 2 {
				_, err := e.Probe(t.Context())
				require.NoError(t, err)
			}
			require.NoError(t, enginetest.Generate(t, e, enginetest.Request(1)).Err)
			require.Equal(t, c.path, *path.Load())
		})
	}
}

func TestGenerateThatIsTakenAwayOrTooOldIsGivenUp(t *testing.T) {
	for name, answer := range map[string]func(*enginetest.Session){
		"disabled": recordedAnswer(t, "variants/07-generate-off"), "does not stream": recordedAnswer(t, "generate/01-plain"),
	} {
		t.Run(name, func(t *testing.T) {
			site := siteOf(t, "metrics-idle")
			site["/inference/v1/generate"] = func(s *enginetest.Session) {
				if s.Body == "{}" {
					s.Answer(enginetest.Answer{Status: 400, Body: "{}"})
					return
				}
				answer(s)
			}
			site["/v1/completions"] = recordedAnswer(t, "completions/03-stream")
			e := engineAt(t, site.Serve(t), func(cfg *Config) { cfg.API = APIAuto })
			_, err := e.Probe(t.Context())
			require.NoError(t, err)
			require.Error(t, enginetest.Generate(t, e, enginetest.Request(8)).Err)
			require.NoError(t, enginetest.Generate(t, e, enginetest.Request(8)).Err)
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	valid := configAt("http://127.0.0.1:8080")
	require.NoError(t, valid.Validate())
	for want, change := range map[string]func(*Config){
		"URL is missing":      func(c *Config) { c.URL = "" },
		`API is "grpc"`:       func(c *Config) { c.API = "grpc" },
		"Rank is -1":          func(c *Config) { c.Rank = ptr(-1) },
		"Slots is 0":          func(c *Config) { c.Slots = 0 },
		"CapacityTokens is 0": func(c *Config) { c.CapacityTokens = ptr(0) },
		"BlockTokens is 0":    func(c *Config) { c.BlockTokens = 0 },
		"LingerBound is 0s":   func(c *Config) { c.LingerBound = 0 },
		"EndTimeout is -1ns":  func(c *Config) { c.EndTimeout = -1 },
		"FrameBytes is 0":     func(c *Config) { c.FrameBytes = 0 },
		"URL holds a user":    func(c *Config) { c.URL = "http://u:secret@x" },
	} {
		cfg := valid
		change(&cfg)
		require.ErrorContains(t, cfg.Validate(), want)
		_, err := New(cfg, deps())
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := New(valid, Deps{})
	require.ErrorContains(t, err, "Dial")
}
