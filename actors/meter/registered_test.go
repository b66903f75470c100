package meter

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A replica that is gone leaves nothing, and who is late with its words brings nothing back.
func TestNothingIsLeftOfAReplicaThatIsGone(t *testing.T) {
	m, err := New(Config{Version: "1", LabelValuesMax: 8})
	require.NoError(t, err)
	of := m.Register("sim-0", "sim")
	writer, feed := of.Replica(), of.Feed()
	reportReplica(m, of)
	require.Greater(t, strings.Count(scrape(t, m), `replica="sim-0"`), 100)
	of.Close()
	require.NotContains(t, scrape(t, m), "sim-0")

	reportReplica(m, of)
	writer.State("gone")
	writer.Reborn()
	writer.Struck("hang")
	feed.State("void", []string{"void", "live"})
	feed.Cached(10, 10)
	require.NotContains(t, scrape(t, m), "sim-0")
	of.Close()

	again := m.Register("sim-0", "sim")
	again.Replica().Restarted()
	of.Close()
	writer.Restarted()
	require.Contains(t, scrape(t, m), `plimsoll_replica_actor_restarts_total{model="sim",replica="sim-0"} 1`)
}

// A fleet whose replicas are replaced by ones of other names, for ever, tells those that there are apart.
func TestNamesOfReplicasThatAreGoneAreFree(t *testing.T) {
	m, err := New(Config{Version: "1", LabelValuesMax: 2})
	require.NoError(t, err)
	before := strings.Count(scrape(t, m), "\n")
	for i := range 50 {
		pods := make([]*Registered, 2)
		for j := range pods {
			name := fmt.Sprintf("pod-%d-%d", i, j)
			pods[j] = m.Register(name, "m")
			pods[j].Replica().Reborn()
			require.Contains(t, scrape(t, m), fmt.Sprintf(`plimsoll_replica_incarnations_total{model="m",replica=%q} 1`, name))
		}
		for _, p := range pods {
			p.Close()
		}
	}
	require.Equal(t, before, strings.Count(scrape(t, m), "\n"))
}

// TestReplicasThatAreNotToldApart share one value until the last of them is gone.
func TestReplicasThatAreNotToldApart(t *testing.T) {
	m, err := New(Config{Version: "1", LabelValuesMax: 1})
	require.NoError(t, err)
	first, second, third := m.Register("a", "m"), m.Register("b", "m"), m.Register("c", "m")
	for _, r := range []*Registered{first, second, third} {
		r.Replica().Reborn()
	}
	require.Contains(t, scrape(t, m), `plimsoll_replica_incarnations_total{model="m",replica="a"} 1`)
	require.Contains(t, scrape(t, m), `plimsoll_replica_incarnations_total{model="m",replica="other"} 2`)
	second.Close()
	require.Contains(t, scrape(t, m), `replica="other"`)
	third.Close()
	require.NotContains(t, scrape(t, m), `replica="other"`)
	require.Contains(t, scrape(t, m), `replica="a"`)
}

// TestOneNameTwice: the name is the one's that took it last.
func TestOneNameTwice(t *testing.T) {
	m, err := New(Config{Version: "1", LabelValuesMax: 1})
	require.NoError(t, err)
	old := m.Register("a", "m")
	old.Replica().Reborn()
	m.Register("a", "m").Replica().Canary()
	old.Replica().Reborn()
	old.Close()
	text := scrape(t, m)
	require.Contains(t, text, `plimsoll_replica_incarnations_total{model="m",replica="a"} 0`)
	require.Contains(t, text, `plimsoll_replica_canaries_total{model="m",replica="a"} 1`)
}

// TestSeriesAreThoseOfTheFleet: whatever comes, goes and speaks, in whatever order, names are those of the fleet.
func TestSeriesAreThoseOfTheFleet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m, err := New(Config{Version: "1", LabelValuesMax: 3})
		require.NoError(rt, err)
		var all []*Registered
		in := map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 2).Draw(rt, "what") {
			case 0:
				name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "name")
				if !in[name] {
					all = append(all, m.Register(name, "m"))
					in[name] = true
				}
			case 1:
				if len(all) > 0 {
					r := rapid.SampledFrom(all).Draw(rt, "leaves")
					if !r.closed {
						in[r.name] = false
					}
					r.Close()
				}
			case 2:
				if len(all) > 0 {
					r := rapid.SampledFrom(all).Draw(rt, "speaks")
					r.Replica().State("ready")
					m.Router("m").Ejected(r.name)
				}
			}
		}
		families, err := m.registry.Gather()
		require.NoError(rt, err)
		for _, f := range families {
			for _, s := range f.GetMetric() {
				for _, l := range s.GetLabel() {
					if l.GetName() == labelReplica && l.GetValue() != other {
						require.True(rt, in[l.GetValue()], "%s of %s, which is gone", f.GetName(), l.GetValue())
					}
				}
			}
		}
	})
}

// TestALateWriterRaces: there is no moment at which what is said of a replica that ends outlives it.
func TestALateWriterRaces(t *testing.T) {
	m, err := New(Config{Version: "1", LabelValuesMax: 8})
	require.NoError(t, err)
	for range 200 {
		of := m.Register("a", "m")
		w, f, d := of.Replica(), of.Feed(), m.Decisions("m")
		var writers sync.WaitGroup
		for _, write := range []func(){
			func() { w.State("gone") }, w.Reborn, func() { f.State("void", []string{"void"}) }, func() { of.Feed() },
			func() { d.SecondsError("a", "start", 1) }, func() { m.Router("m").Ejected("a") },
		} {
			writers.Go(write)
		}
		of.Close()
		writers.Wait()
		require.NotContains(t, scrape(t, m), `replica="a"`)
	}
}
