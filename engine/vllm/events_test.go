package vllm

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/kvevents"
)

// TestWhatAServerSaysOfItsPublisher: none at all is told from one that cannot be had now.
func TestWhatAServerSaysOfItsPublisher(t *testing.T) {
	const nobody = `{"endpoint":"tcp://127.0.0.1:9","topic":"kv"}`
	for name, c := range map[string]struct {
		status int
		body   string
		rank   *int
		absent bool
	}{
		"an older server":              {status: http.StatusNotFound, body: `{"detail":"Not Found"}`, absent: true},
		"events are off":               {status: http.StatusOK, body: `{}`, absent: true},
		"of another rank":              {status: http.StatusOK, body: `{"0":` + nobody + `}`, rank: new(1), absent: true},
		"the server refuses our key":   {status: http.StatusUnauthorized, body: `{"error":"Unauthorized"}`},
		"what it says makes no sense":  {status: http.StatusOK, body: `{"0":{"endpoint":"ipc:///x"}}`},
		"the server is in the way":     {status: http.StatusBadGateway, body: `oh`},
		"a publisher that nobody runs": {status: http.StatusOK, body: `{"0":` + nobody + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configAt(enginetest.Serve(t, func(s *enginetest.Session) {
				require.Equal(t, "/kv_event_sources", s.Request.URL.Path)
				enginetest.Saying(c.status, c.body)(s)
			}))
			cfg.Rank = c.rank
			e, err := New(cfg, deps())
			require.NoError(t, err)
			defer e.Close() //nolint:errcheck // it never fails
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var heard []engine.KVState
			err = e.Subscribe(ctx, func(b engine.KVBatch) {
				heard = append(heard, b.State)
				cancel()
			})
			require.Error(t, err)
			require.Equal(t, c.absent, errors.Is(err, engine.ErrNoKVEvents), "%v", err)
			if name == "a publisher that nobody runs" {
				require.Equal(t, []engine.KVState{engine.KVPartial}, heard, "it is tried on by itself")
			} else {
				require.Empty(t, heard)
			}
		})
	}
}

func TestEventsAreListenedToAsConfigured(t *testing.T) {
	cfg := configAt(enginetest.ClosedPort(t))
	cfg.Events = EventsOff
	off, err := New(cfg, deps())
	require.NoError(t, err)
	require.False(t, off.Capabilities().KVEvents)
	require.ErrorIs(t, off.Subscribe(t.Context(), nil), engine.ErrNoKVEvents)

	cfg.Events = EventsSet
	_, err = New(cfg, deps())
	require.ErrorContains(t, err, "Publisher")
	publisher := kvevents.DefaultConfig()
	publisher.Endpoint, publisher.Bind = "tcp://127.0.0.1:0", true
	cfg.Publisher = &publisher
	set, err := New(cfg, deps())
	require.NoError(t, err)
	require.True(t, set.Capabilities().KVEvents)
	ended := make(chan error, 1)
	go func() { ended <- set.Subscribe(t.Context(), func(engine.KVBatch) {}) }()
	require.NoError(t, set.Close())
	require.Error(t, <-ended, "the engine is closed")

	cfg.Events = "perhaps"
	_, err = New(cfg, deps())
	require.ErrorContains(t, err, "Events")
}
