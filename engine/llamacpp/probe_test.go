package llamacpp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/wire"
	"plimsoll/testbench/printed"
)

// siteOf is the recorded server, with metrics on. GET /slots is not there: it wakes sleepers.
func siteOf(tb testing.TB) enginetest.Site {
	tb.Helper()
	return enginetest.Site{
		"/health":    recordedAnswer(tb, "info/health"),
		"/props":     recordedAnswer(tb, "info/props"),
		"/metrics":   recordedAnswer(tb, "info/metrics-busy"),
		"/v1/models": recordedAnswer(tb, "info/models"),
	}
}

// recordedAnswer is a script that answers as recorded.
func recordedAnswer(tb testing.TB, name string) func(*enginetest.Session) {
	tb.Helper()
	rec := named(tb, name)
	return rec.Replay
}

// configAt is the default one for a server.
func configAt(url string) wire.Config {
	cfg := wire.DefaultConfig()
	cfg.URL = url
	return cfg
}

// engineAt returns an engine for a server, closed with the test.
func engineAt(tb testing.TB, url string, change ...func(*Config)) *Engine {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL = url
	for _, f := range change {
		f(&cfg)
	}
	e, err := New(cfg, Deps{Dial: (&net.Dialer{}).DialContext, Log: slog.New(slog.DiscardHandler)})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, e.Close()) })
	return e
}

func TestProbe(t *testing.T) {
	busy := engine.Load{RunningSequences: ptr(4), WaitingSequences: ptr(3), Steps: ptr(uint64(344))}
	recorded := engine.Status{
		Model: "gemma-3-270m", Version: "b0-unknown", Incarnation: "marker:<__media_17GfRpUrRVMIWn8sLiH1J1UDn4863AOn__>",
		BlockTokens: ptr(16), KVBlocks: ptr(64), Seats: ptr(4), SequenceTokens: ptr(1024), Load: busy,
		Names: []string{"gemma-3-270m"}, VocabTokens: ptr(262144), LengthTokens: ptr(32768),
		Process: "marker:<__media_17GfRpUrRVMIWn8sLiH1J1UDn4863AOn__>",
	}
	silent := func(s enginetest.Site) { s["/v1/models"] = enginetest.Saying(404, "") }
	with := func(change func(*engine.Status)) engine.Status {
		st := recorded
		change(&st)
		return st
	}
	props := func(body string) func(enginetest.Site) {
		return func(s enginetest.Site) {
			silent(s)
			s["/props"] = enginetest.Saying(200, body)
		}
	}
	cases := []struct {
		name   string
		site   func(enginetest.Site)
		config func(*Config)
		want   engine.Status
	}{
		{"as recorded: one sequence's context is all that is sure to fit", nil, nil, recorded},
		{"the operator knows that every slot owns its context", nil, func(c *Config) { c.CapacityTokens = ptr(4096) }, with(func(s *engine.Status) { s.KVBlocks = ptr(256) })},
		{"the operator allows less than a context", nil, func(c *Config) { c.CapacityTokens = ptr(520) }, with(func(s *engine.Status) { s.KVBlocks, s.SequenceTokens = ptr(32), ptr(520) })},
		{"the operator's slots", nil, func(c *Config) { c.Slots = ptr(2) }, with(func(s *engine.Status) { s.Seats = ptr(2) })},
		{"blocks of one token", nil, func(c *Config) { c.BlockTokens = 1 }, with(func(s *engine.Status) { s.BlockTokens, s.KVBlocks = ptr(1), ptr(1024) })},
		{
			"an older server that describes no model", silent, nil,
			with(func(s *engine.Status) { s.VocabTokens, s.LengthTokens = nil, nil }),
		},
		{
			"a model of several names",
			func(s enginetest.Site) {
				s["/v1/models"] = enginetest.Saying(200, `{"data":[{"id":"gemma","aliases":["gemma","gemma-3-270m","small"],"meta":{"n_vocab":5}}]}`)
			}, nil,
			with(func(s *engine.Status) {
				s.Names, s.VocabTokens, s.LengthTokens = []string{"gemma-3-270m", "gemma", "small"}, ptr(5), nil
			}),
		},
		{
			"metrics are off: the load is unknown",
			func(s enginetest.Site) { s["/metrics"] = recordedAnswer(t, "errors/metrics-disabled") }, nil, with(func(s *engine.Status) { s.Load = engine.Load{} }),
		},
		{
			"metrics hang behind a long batch: busy is not dead",
			func(s enginetest.Site) { s["/metrics"] = (*enginetest.Session).Gone }, func(c *Config) { c.MetricsTimeout = time.Millisecond }, with(func(s *engine.Status) { s.Load = engine.Load{} }),
		},
		{
			"metrics without what we look for", func(s enginetest.Site) { s["/metrics"] = enginetest.Saying(200, "# TYPE other gauge\nother 1\n") }, nil,
			with(func(s *engine.Status) { s.Load = engine.Load{} }),
		},
		{
			"a count that is none stays unknown",
			func(s enginetest.Site) {
				s["/metrics"] = enginetest.Saying(200, "llamacpp:requests_processing -1\nllamacpp:requests_deferred NaN\n# TYPE llamacpp:n_decode_total counter\nllamacpp:n_decode_total 7\n")
			}, nil,
			with(func(s *engine.Status) { s.Load = engine.Load{Steps: ptr(uint64(7))} }),
		},
		{
			"no alias: the file's name, from any system", props(`{"model_path":"C:\\models\\m.gguf","total_slots":2}`), nil,
			engine.Status{Model: "m.gguf", Names: []string{"m.gguf"}, Seats: ptr(2), Incarnation: "start:1676932210", Load: busy},
		},
		{
			"a marker that is the same in every process is no evidence", props(`{"model_path":"/a/b","media_marker":"<__media__>"}`), nil,
			engine.Status{Model: "b", Names: []string{"b"}, Incarnation: "start:1676932210", Load: busy},
		},
		{
			"nothing told, the operator told", props(`{}`), func(c *Config) { c.CapacityTokens, c.Slots = ptr(2048), ptr(3) },
			engine.Status{Incarnation: "start:1676932210", BlockTokens: ptr(16), KVBlocks: ptr(128), Seats: ptr(3), SequenceTokens: ptr(2048), Load: busy},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := siteOf(t)
			if c.site != nil {
				c.site(s)
			}
			e := engineAt(t, s.Serve(t), func(cfg *Config) {
				if c.config != nil {
					c.config(cfg)
				}
			})
			got, err := e.Probe(t.Context())
			require.NoError(t, err)
			if strings.HasPrefix(got.Process, "start:1676932210@") {
				got.Process = "" // the server's port follows
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestProbeOfAServerThatCannotServe(t *testing.T) {
	cases := []struct {
		name   string
		change func(enginetest.Site)
		kind   engine.FailKind
	}{
		{"loading", func(s enginetest.Site) { s["/health"] = recordedAnswer(t, "faults/loading-health") }, engine.Shed},
		{"loading since the last question", func(s enginetest.Site) { s["/props"] = recordedAnswer(t, "faults/loading-props") }, engine.Shed},
		{"loading at the last question", func(s enginetest.Site) { s["/metrics"] = recordedAnswer(t, "faults/loading-metrics") }, engine.Shed},
		{"a wrong key at the last question", func(s enginetest.Site) { s["/metrics"] = recordedAnswer(t, "errors/auth-bad") }, engine.Operator},
		{"a wrong key", func(s enginetest.Site) { s["/props"] = recordedAnswer(t, "errors/auth-bad") }, engine.Operator},
		{"not a llama-server", func(s enginetest.Site) { s["/health"] = recordedAnswer(t, "errors/404") }, engine.Operator},
		{"health broken", func(s enginetest.Site) { s["/health"] = enginetest.Saying(500, "") }, engine.Broken},
		{"properties that are no JSON", func(s enginetest.Site) { s["/props"] = enginetest.Saying(200, "<html>") }, engine.Broken},
		{"properties of another shape", func(s enginetest.Site) { s["/props"] = enginetest.Saying(200, `{"total_slots":"four"}`) }, engine.Broken},
		{"endless properties", func(s enginetest.Site) { s["/props"] = enginetest.Saying(200, strings.Repeat(" ", 5000)) }, engine.Broken},
		{"health hangs", func(s enginetest.Site) { s["/health"] = (*enginetest.Session).Gone }, engine.Broken},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := siteOf(t)
			c.change(s)
			e := engineAt(t, s.Serve(t), func(cfg *Config) {
				cfg.AnswerBytes = 4500
				if c.name == "health hangs" {
					cfg.ProbeTimeout = time.Millisecond
				}
			})
			st, err := e.Probe(t.Context())
			enginetest.FailureIn(t, err, c.kind)
			require.Zero(t, st)
		})
	}
}

// Metrics are for watching: what a server can hold stands in its properties, and one that serves is not given up for them.
func TestAServerIsNotGivenUpForMetricsThatCannotBeRead(t *testing.T) {
	for name, broken := range enginetest.UnreadableMetrics(string(named(t, "info/metrics-busy").Body)) {
		t.Run(name, func(t *testing.T) {
			var metrics atomic.Pointer[func(*enginetest.Session)]
			metrics.Store(&broken)
			site := siteOf(t)
			well := site["/metrics"]
			site["/metrics"] = func(s *enginetest.Session) { (*metrics.Load())(s) }
			log := &printed.Text{}
			cfg := DefaultConfig()
			cfg.URL = site.Serve(t)
			e, err := New(cfg, Deps{Dial: (&net.Dialer{}).DialContext, Log: slog.New(slog.NewTextHandler(log, nil))})
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close()) }()
			probe := func() engine.Status {
				st, err := e.Probe(t.Context())
				require.NoError(t, err)
				return st
			}
			first, again := probe(), probe()
			require.Equal(t, first, again)
			require.Equal(t, engine.Load{}, first.Load)
			require.Equal(t, 1, strings.Count(log.String(), "metrics cannot be read"), "it is said once")

			metrics.Store(&well)
			seen := probe()
			require.NotZero(t, seen.Load)
			blind := seen
			blind.Load = engine.Load{}
			require.Equal(t, blind, first, "all but the load is known without them")

			metrics.Store(&broken)
			require.Equal(t, blind, probe())
			require.Equal(t, 2, strings.Count(log.String(), "metrics cannot be read"))
		})
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := siteOf(t)
	s["/props"] = func(s *enginetest.Session) {
		cancel()
		s.Gone()
	}
	_, err := engineAt(t, s.Serve(t)).Probe(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestProbeSendsTheKeyAndKeepsTheAddressesPath(t *testing.T) {
	s := siteOf(t)
	prefixed := enginetest.Site{}
	for path, handler := range s {
		prefixed["/llm"+path] = func(s *enginetest.Session) {
			if s.Request.Header.Get("Authorization") != "Bearer sk-a" {
				t.Errorf("%s was asked without the key", s.Request.URL.Path)
			}
			handler(s)
		}
	}
	e := engineAt(t, prefixed.Serve(t), func(c *Config) {
		c.APIKey = "sk-a"
		c.URL += "/llm"
	})
	_, err := e.Probe(t.Context())
	require.NoError(t, err)
}

func TestTwoLivesDiffer(t *testing.T) {
	var life atomic.Int32
	s := siteOf(t)
	s["/props"] = func(s *enginetest.Session) {
		enginetest.Saying(200, fmt.Sprintf(`{"media_marker":"<__media_%d__>"}`, life.Load()))(s)
	}
	e := engineAt(t, s.Serve(t))
	seen := map[string]bool{}
	for range 3 {
		life.Add(1)
		for range 2 {
			st, err := e.Probe(t.Context())
			require.NoError(t, err)
			seen[st.Incarnation] = true
		}
	}
	require.Len(t, seen, 3)
}

func TestConfigIsChecked(t *testing.T) {
	valid := DefaultConfig()
	valid.URL = "http://127.0.0.1:8080"
	require.NoError(t, valid.Validate())
	cases := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.URL = "" }, "URL is missing"},
		{func(c *Config) { c.URL = "127.0.0.1:8080" }, "URL"},
		{func(c *Config) { c.URL = "ftp://x" }, `scheme "ftp"`},
		{func(c *Config) { c.URL = "http://" }, "no host"},
		{func(c *Config) { c.URL = "http://u:secret@x" }, "use APIKey"},
		{func(c *Config) { c.URL = "http://x?key=secret" }, "query"},
		{func(c *Config) { c.URL = "http://x/%zz?secret" }, "cannot be parsed"},
		{func(c *Config) { c.CapacityTokens = ptr(0) }, "CapacityTokens is 0"},
		{func(c *Config) { c.CapacityTokens = ptr(15) }, "less than one block of 16"},
		{func(c *Config) { c.Slots = ptr(-1) }, "Slots is -1"},
		{func(c *Config) { c.BlockTokens = 0 }, "BlockTokens is 0"},
		{func(c *Config) { c.DialTimeout = 0 }, "DialTimeout is 0s"},
		{func(c *Config) { c.ProbeTimeout = -1 }, "ProbeTimeout"},
		{func(c *Config) { c.MetricsTimeout = 0 }, "MetricsTimeout"},
		{func(c *Config) { c.IdleTimeout = 0 }, "IdleTimeout"},
		{func(c *Config) { c.LingerBound = 0 }, "LingerBound"},
		{func(c *Config) { c.AnswerBytes = 0 }, "AnswerBytes"},
		{func(c *Config) { c.FrameBytes = 0 }, "FrameBytes"},
	}
	for _, c := range cases {
		cfg := valid
		c.change(&cfg)
		err := cfg.Validate()
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "secret")
		_, err = New(cfg, Deps{Dial: nil})
		require.ErrorContains(t, err, c.want)
	}
	_, err := New(valid, Deps{})
	require.ErrorContains(t, err, "Log")
	_, err = New(valid, Deps{Log: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "Dial")
	several := valid
	several.Slots, several.FrameBytes = ptr(0), 0
	var joined interface{ Unwrap() []error }
	require.ErrorAs(t, several.Validate(), &joined)
	require.Len(t, joined.Unwrap(), 2, "all mistakes at once")
}

func TestCapabilities(t *testing.T) {
	e := engineAt(t, "http://127.0.0.1:1", func(c *Config) { c.LingerBound = 7 * time.Second })
	require.Equal(t, engine.Capabilities{
		Kind: "llamacpp", Sharing: engine.SharingNever, LingerBound: 7 * time.Second, Logprobs: true, LogitBias: true, LostMost: 3,
	}, e.Capabilities())
	_, source := any(e).(engine.KVSource)
	require.False(t, source)
}
