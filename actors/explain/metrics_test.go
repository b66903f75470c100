package explain

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/meter"
)

func metricsOf(t *testing.T, m *meter.Meter) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// TestErrorsAreMetered: what came less what was predicted, of each term, where both are known.
func TestErrorsAreMetered(t *testing.T) {
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)
	for _, name := range []string{"r1", "r2", "r3"} {
		m.Register(name, "m")
	}
	s := newScene(t, DefaultConfig(), 3)
	s.w.deps.Meter = m.Decisions("m")
	s.life("x")
	text := metricsOf(t, m)
	for _, line := range []string{
		`plimsoll_router_prediction_error_tokens_sum{replica="r3",term="overlap"} -16`,
		`plimsoll_router_prediction_error_tokens_sum{replica="r3",term="output"} -19`,
		`plimsoll_router_prediction_error_seconds_count{replica="r3",term="start"} 1`,
		`plimsoll_router_prediction_error_seconds_count{replica="r3",term="prefill"} 1`,
		`plimsoll_router_prediction_error_seconds_count{replica="r3",term="first_token"} 1`,
		`plimsoll_router_prediction_error_seconds_bucket{replica="r3",term="decode_step",le="0.003"} 1`,
		`plimsoll_router_prediction_error_seconds_bucket{replica="r3",term="decode_step",le="0.001"} 0`,
	} {
		require.Contains(t, text, line)
	}
}
