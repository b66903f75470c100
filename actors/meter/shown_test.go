package meter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What was counted before a model's name was known is shown under it afterwards, as one with what is counted since.
func TestAModelIsShownByTheNameThatIsLearned(t *testing.T) {
	m, err := New(Config{Version: "1", LabelValuesMax: 8})
	require.NoError(t, err)
	m.Router("folder").Queue(3, 40)
	in := m.Ingress()
	first := time.Second
	for _, name := range []string{"folder", "folder", "org/m"} {
		in.Ended(Request{Route: "chat", Model: name, Seconds: 0.02, FirstToken: &first, CompletionTokens: 5})
	}
	require.Contains(t, scrape(t, m), `plimsoll_router_queued_requests{model="folder"} 3`)
	m.Shown("folder", "org/m")
	for range 2 { // a scrape changes nothing of what is counted
		text := scrape(t, m)
		require.Contains(t, text, `plimsoll_router_queued_requests{model="org/m"} 3`)
		require.Contains(t, text, `plimsoll_ingress_completion_tokens_total{model="org/m"} 15`)
		require.Contains(t, text, `plimsoll_ingress_request_seconds_count{model="org/m",route="chat"} 3`)
		require.Contains(t, text, `plimsoll_ingress_request_seconds_bucket{model="org/m",route="chat",le="0.025"} 3`)
		require.NotContains(t, text, "folder")
	}
	(*Meter)(nil).Shown("a", "b")
}
