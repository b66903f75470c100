package meter

import (
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/logbook"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

var update = flag.Bool("update", false, "write the goldens anew")

// reportAll calls every method of every handle once or more.
func reportAll(m *Meter) {
	reportReplica(m, m.Register("sim-0", "sim"))
	in := m.Ingress()
	contended, cached, first := fault.Contended, 32, 250*time.Millisecond
	in.Opened()
	in.Opened()
	in.Opened()
	in.Closed()
	in.Closed()
	in.Ended(Request{
		Route: "chat", Tenant: "default", Class: "flex", Status: 200, Model: "sim", Outcome: Finished, Seconds: 1.25, FirstToken: &first,
		PromptTokens: 48, CachedTokens: &cached, CompletionTokens: 9,
	})
	in.Ended(Request{Route: "chat", Tenant: "default", Class: "default", Status: 429, Model: "sim", Outcome: Refused, Fault: &contended, Seconds: 30})
	in.Expect(Expected{Routes: []string{"chat"}, Work: []string{"chat"}, Models: []string{"sim"}, Tenants: []string{"default"}, Classes: []string{"default", "flex"}, Statuses: []int{200, 429}})
	in.Stalled()
	in.BodyBytes(4096)
	in.Panicked()

	r := m.Router("sim")
	r.Queue(2, 900)
	r.Dispatched(0)
	r.Dispatched(300 * time.Millisecond)
	r.Decided(20 * time.Microsecond)
	r.Refused(fault.NoReplica, fault.Unserved)
	r.Refused(fault.Contended, fault.SLOFirstToken)
	r.Refused(fault.Contended, fault.SLOFirstToken)
	r.Refused(fault.Contended, fault.QueueTimeout)
	r.Reranked()

	s, gap := m.Stream("sim", StreamLabels{Classes: []string{"exact"}, Outcomes: []string{"resumed"}, Hedges: []string{"begun"}}), 300*time.Millisecond
	s.Broken("exact", "resumed", 40, &gap)
	s.Broken("restart_only", "declined", 0, nil)
	s.Hedged("begun")
	s.Hedged("won")

	t := m.Tokenizer("sim")
	t.Encoded(3*time.Millisecond, 48)
	t.Waited(true, 2*time.Millisecond)
	t.Waited(false, 700*time.Millisecond)
	t.Refused(fault.BadInput)
	t.PassedOn("media")
	t.Queue(1, 2000)

	m.LineDropped(logbook.Full, 12)
	m.LineDropped(logbook.NumCauses, 1) // no cause of ours

	m.Record().Written(3)
	m.Record().Dropped(1)
	m.Panicked("router")

	d := m.Decisions("sim")
	d.Shadow("p2c", "differ", 1)
	d.Shadow("p2c", "dropped", 3)
	d.Dropped(5)
}

// reportReplica says all there is to say of the replica sim-0.
func reportReplica(m *Meter, of *Registered) {
	w := of.Replica()
	w.State("starting")
	w.State("ready")
	w.Load(ledger.Load{
		Limits: scoring.Limits{KVBlocks: 100, Seats: 8}, BookedBlocks: 40, Lingering: 1, SeatsBooked: 3, OverdraftBlocks: 2,
		ForeignBlocks: 5, QueuedPrefillTokens: 700,
	})
	var c ledger.Counters
	c.Ends[ledger.Finished], c.Refusals[ledger.NoBlocks], c.LateEnds, c.UnknownEnds, c.Alarms = 3, 1, 1, 1, 1
	w.Counters(c)
	c.Ends[ledger.Finished]++
	w.Counters(c)
	w.Restarted()
	w.Reborn()
	w.AttemptFailed(engine.Shed)
	w.Suspected()
	w.Canary()
	w.Canary()
	w.Struck("hang")
	w.Struck("breaks")
	w.Relaunched()
	w.FirstToken(300 * time.Millisecond)
	w.TokenGaps(20*time.Millisecond, 3)
	f := of.Feed()
	came := time.Unix(1000, 0)
	f.State("live", []string{"void", "live"})
	f.Batch(came, engine.KVBatch{
		At:     came.Add(-time.Second / 2),
		Events: []prefix.Event{{Kind: prefix.Stored}, {Kind: prefix.Stored}, {Kind: prefix.Removed}, {Kind: prefix.Cleared}},
	})
	for range 2 { // one replay
		f.Batch(came, engine.KVBatch{State: engine.KVReplaying, Gap: true, Skipped: [engine.NumKVSkips]int{engine.KVSkipEvent: 2}})
	}
	f.Distrusted()
	f.Index(prefix.Stats{Blocks: 40, Malformed: 2, Conflicts: 1})
	f.Index(prefix.Stats{Blocks: 30, HostBlocks: 20, DiskBlocks: 10, Orphans: 2, Holes: 1, Malformed: 3, Conflicts: 1})
	f.Index(prefix.Stats{Blocks: 30, HostBlocks: 20, DiskBlocks: 10, Orphans: 2, Holes: 1, Malformed: 1}) // of another slot
	f.Cached(48, 32)
	m.Router("sim").Ejected("sim-0")
	d := m.Decisions("sim")
	d.SecondsError("sim-0", "prefill", -0.02)
	d.SecondsError("sim-0", "prefill", 0.005)
	d.TokensError("sim-0", "overlap", -16)
}

func scrape(t *testing.T, m *Meter) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	require.Equal(t, 200, rec.Code)
	return rec.Body.String()
}

// TestMetricsText holds every name, help and label to a golden: dashboards depend on them.
func TestMetricsText(t *testing.T) {
	m, err := New(Config{Version: "1.2.3", LabelValuesMax: 8})
	require.NoError(t, err)
	reportAll(m)
	got := scrape(t, m)
	path := filepath.Join("testdata", "metrics.txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestNamesFollowTheRules(t *testing.T) {
	m, err := New(Config{Version: "1", LabelValuesMax: 8})
	require.NoError(t, err)
	reportAll(m)
	problems, err := testutil.GatherAndLint(m.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := m.registry.Gather()
	require.NoError(t, err)
	declared, err := os.ReadFile("names.go")
	require.NoError(t, err)
	names := regexp.MustCompile(`"plimsoll_[a-z_]+"`).FindAllString(string(declared), -1)
	require.Len(t, families, len(names), "every declared metric is reported, and no other")
	for _, f := range families {
		require.Regexp(t, `^plimsoll_(build|actor|ingress|router|stream|replica|tokenizer|kvfeed|record|log)_`, f.GetName())
		require.NotEmpty(t, f.GetHelp())
	}
}

// TestNilMeterMetersNothing: every handle of none is silent.
func TestNilMeterMetersNothing(t *testing.T) {
	var m *Meter
	require.NotPanics(t, func() { reportAll(m) })
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	require.Equal(t, 404, rec.Code)
}

func TestLabelValuesAreBounded(t *testing.T) {
	m, err := New(Config{Version: "1", LabelValuesMax: 2})
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c", "d", "a"} {
		m.Router(name).Reranked()
	}
	text := scrape(t, m)
	require.Contains(t, text, `plimsoll_router_reranks_total{model="a"} 2`)
	require.Contains(t, text, `plimsoll_router_reranks_total{model="other"} 2`)
	require.NotContains(t, text, `"c"`)
}

func TestRuntimeMetricsAreOptional(t *testing.T) {
	m, err := New(DefaultConfig())
	require.NoError(t, err)
	require.Contains(t, scrape(t, m), "go_goroutines")
	m, err = New(Config{Version: "1", LabelValuesMax: 1})
	require.NoError(t, err)
	require.False(t, strings.Contains(scrape(t, m), "go_goroutines"))
	_, err = New(Config{Version: "1"})
	require.Error(t, err)
	_, err = New(Config{LabelValuesMax: 1})
	require.Error(t, err)
}

func TestOutcomesHaveNames(t *testing.T) {
	for o := range NumOutcomes {
		require.NotEqual(t, "unknown", o.String())
	}
}

func BenchmarkReplicaLoad(b *testing.B) {
	m, err := New(Config{Version: "1", LabelValuesMax: 8})
	require.NoError(b, err)
	w := m.Register("a", "m").Replica()
	b.ReportAllocs()
	for b.Loop() {
		w.Load(ledger.Load{BookedBlocks: 5})
	}
}

// TestCountersAreThereFromTheStart: a rate over a counter that appears with its first count misses that one.
func TestCountersAreThereFromTheStart(t *testing.T) {
	m, err := New(Config{Version: "1", LabelValuesMax: 8})
	require.NoError(t, err)
	m.Ingress().Expect(Expected{
		Routes: []string{"chat", "models"}, Work: []string{"chat"}, Models: []string{"sim"}, Tenants: []string{"default"},
		Classes: []string{"default"}, Statuses: []int{200, 503},
	})
	m.Router("sim")
	m.Stream("sim", StreamLabels{Classes: []string{"exact"}, Outcomes: []string{"resumed"}, Hedges: []string{"begun"}})
	m.Register("sim-0", "sim").Replica()
	text := scrape(t, m)
	for _, want := range []string{
		`plimsoll_actor_panics_total{actor="router"} 0`,
		`plimsoll_ingress_requests_total{model="sim",outcome="failed",route="chat"} 0`,
		`plimsoll_ingress_requests_total{model="none",outcome="finished",route="models"} 0`,
		`plimsoll_ingress_responses_total{route="chat",status="503"} 0`,
		`plimsoll_ingress_faults_total{kind="contended",route="chat"} 0`,
		`plimsoll_ingress_tenant_requests_total{class="default",outcome="refused",tenant="default"} 0`,
		`plimsoll_ingress_tenant_tokens_total{kind="prompt",tenant="default"} 0`,
		`plimsoll_ingress_completion_tokens_total{model="sim"} 0`,
		`plimsoll_router_refusals_total{cause="queue_timeout",kind="contended",model="sim"} 0`,
		`plimsoll_stream_breaks_total{class="exact",model="sim",outcome="resumed"} 0`,
		`plimsoll_stream_hedges_total{event="begun",model="sim"} 0`,
		`plimsoll_replica_strikes_total{kind="hang",model="sim",replica="sim-0"} 0`,
		`plimsoll_replica_failures_total{kind="shed",model="sim",replica="sim-0"} 0`,
		`plimsoll_replica_first_token_seconds_count{model="sim",replica="sim-0"} 0`,
		`plimsoll_replica_token_seconds_count{model="sim",replica="sim-0"} 0`,
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, `model="sim",outcome="finished",route="models"`, "what is asked of no model")
}

// TestSeriesOfAnAdapterThatIsGone go with it, and its name is free.
func TestSeriesOfAnAdapterThatIsGone(t *testing.T) {
	m, err := New(Config{Version: "1", LabelValuesMax: 2})
	require.NoError(t, err)
	served := []string{"sim", "lora-a"}
	m.Serves(func() []string { return served })
	first := time.Second
	ends := func(model string) {
		m.Ingress().Ended(Request{Route: "chat", Model: model, Class: "default", Status: 200, FirstToken: &first, PromptTokens: 5})
	}
	ends("sim")
	ends("lora-a")
	require.Contains(t, scrape(t, m), `plimsoll_ingress_prompt_tokens_total{model="lora-a"} 5`)
	served = []string{"sim", "lora-b"}
	text := scrape(t, m)
	require.NotContains(t, text, "lora-a")
	require.Contains(t, text, `plimsoll_ingress_prompt_tokens_total{model="sim"} 5`)
	ends("lora-b")
	require.Contains(t, scrape(t, m), `plimsoll_ingress_prompt_tokens_total{model="lora-b"} 5`, "told apart: a name is free")
	ends("lora-a") // one that ran on for long
	scrape(t, m)
	require.NotContains(t, scrape(t, m), "lora-a")
}
