package kvevents

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOffsetPort(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		rank     int
		want     string
	}{
		{"tcp://gpu1:5557", 0, "tcp://gpu1:5557"},
		{"tcp://gpu1:5557", 7, "tcp://gpu1:5564"},
		{"tcp://*:5557", 1, "tcp://*:5558"},
		{"tcp://[::1]:5557", 1, "tcp://[::1]:5558"},
	} {
		got, err := OffsetPort(c.endpoint, c.rank)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, endpoint := range []string{"tcp://gpu1:65535", "ipc:///tmp/x", "gpu1:5557", "tcp://gpu1", "tcp://gpu1:http", "tcp://gpu1:70000"} {
		_, err := OffsetPort(endpoint, 1)
		require.Error(t, err, "%s", endpoint)
	}
	_, err := OffsetPort("tcp://gpu1:5557", -1)
	require.Error(t, err)
}

func TestValidate(t *testing.T) {
	valid := func(change func(*Config)) error {
		cfg := DefaultConfig()
		cfg.Endpoint = "tcp://gpu1:5557"
		change(&cfg)
		return cfg.Validate()
	}
	require.NoError(t, valid(func(*Config) {}))
	require.NoError(t, valid(func(c *Config) { c.Bind, c.Endpoint = true, "tcp://*:0" }))
	for field, change := range map[string]func(*Config){
		"Endpoint":         func(c *Config) { c.Endpoint = "" },
		"wildcard":         func(c *Config) { c.Endpoint = "tcp://0.0.0.0:5557" },
		"port 0":           func(c *Config) { c.Endpoint = "tcp://gpu1:0" },
		"ReplayEndpoint":   func(c *Config) { c.ReplayEndpoint = "tcp://*:5558" },
		"Rank":             func(c *Config) { c.Rank = new(-1) },
		"ReplayTimeout":    func(c *Config) { c.ReplayTimeout = 0 },
		"ReplayWhole":      func(c *Config) { c.ReplayWhole = 0 },
		"BufferBatchesMax": func(c *Config) { c.BufferBatchesMax = 0 },
		"CheckEvery":       func(c *Config) { c.CheckEvery = -1 },
	} {
		require.ErrorContains(t, valid(change), field)
	}
	_, err := New(DefaultConfig(), Deps{})
	require.Error(t, err)
}

// TestDiscover: all shapes of the answer that releases give, and what they leave out.
func TestDiscover(t *testing.T) {
	const two = `{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://127.0.0.1:40273","replay_endpoint":"tcp://127.0.0.1:40463","buffer_steps":10000,"topic":"kv-events"},
		"1":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:40274","replay_endpoint":"tcp://0.0.0.0:40464","topic":""}}`
	for name, c := range map[string]struct {
		status int
		body   string
		rank   int
		want   *[3]string // endpoint, replay endpoint, topic
		fails  bool
	}{
		"by rank":                {200, two, 0, &[3]string{"tcp://127.0.0.1:40273", "tcp://127.0.0.1:40463", "kv-events"}, false},
		"wildcards":              {200, two, 1, &[3]string{"tcp://gpu1:40274", "tcp://gpu1:40464", ""}, false},
		"no such rank":           {200, two, 2, nil, false},
		"off":                    {200, `{}`, 0, nil, false},
		"said to be off":         {200, `{"0":{"enable_kv_cache_events":false,"endpoint":"tcp://*:5557"}}`, 0, nil, false},
		"another publisher":      {200, `{"0":{"publisher":"null","endpoint":"tcp://*:5557"}}`, 0, nil, false},
		"a key that is no rank":  {200, `{"version":3,"0":{"endpoint":"tcp://*:5557"}}`, 0, &[3]string{"tcp://gpu1:5557", "", ""}, false},
		"listed under sources":   {200, `{"sources":[{"data_parallel_rank":1,"endpoint":"tcp://a:1","replay_endpoint":null,"topic":"t"}]}`, 1, &[3]string{"tcp://a:1", "", "t"}, false},
		"a bare list":            {200, ` [{"endpoint":"tcp://a:1"},{"endpoint":"tcp://[::]:2","replay_endpoint":""}]`, 1, &[3]string{"tcp://gpu1:2", "", ""}, false},
		"older release":          {404, `{"detail":"Not Found"}`, 0, nil, false},
		"no such method":         {405, ``, 0, nil, false},
		"server error":           {500, `oops`, 0, nil, true},
		"no JSON":                {200, `<html>`, 0, nil, true},
		"sources are a text":     {200, `{"sources":"x"}`, 0, nil, true},
		"a source is a number":   {200, `{"0":7}`, 0, nil, true},
		"an endpoint of another": {200, `{"0":{"endpoint":"ipc:///tmp/kv"}}`, 0, nil, true},
		"a replay endpoint, too": {200, `{"0":{"endpoint":"tcp://a:1","replay_endpoint":"inproc://kv"}}`, 0, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			get := func(_ context.Context, path string) (int, []byte, error) {
				require.Equal(t, "/kv_event_sources", path)
				return c.status, []byte(c.body), nil
			}
			cfg, err := Discover(t.Context(), get, "gpu1", c.rank)
			require.Equal(t, c.fails, err != nil, "%v", err)
			if c.want == nil {
				require.Nil(t, cfg)
				return
			}
			require.NotNil(t, cfg)
			require.Equal(t, *c.want, [3]string{cfg.Endpoint, cfg.ReplayEndpoint, cfg.Topic})
			require.NoError(t, cfg.Validate())
		})
	}
	broken := errors.New("no connection")
	_, err := Discover(t.Context(), func(context.Context, string) (int, []byte, error) { return 0, nil, broken }, "gpu1", 0)
	require.ErrorIs(t, err, broken)
}
