//go:build prove

package prove

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	soakClients  = 48
	soakReplicas = 4
	// soakPause is between two changes of the fleet.
	soakPause = 15 * time.Second
)

// outcomes counts what became of the requests, by kind of request and end.
type outcomes struct {
	mu     sync.Mutex
	counts map[string]int
	wrong  []string
}

func (o *outcomes) count(kind, end string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[kind+": "+end]++
}

// fault notes an end that must not be.
func (o *outcomes) fault(kind, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.wrong) < 20 {
		o.wrong = append(o.wrong, kind+": "+what)
	}
	o.counts[kind+": WRONG"]++
}

// TestSoak sends random traffic for SOAK (30 minutes) at a fleet whose replicas are added, removed and killed: good
// requests of all kinds, requests of clients that leave, and bad ones. Every request has a whole answer or an error that
// fits; at the end no booking is left, and goroutines and heap are back where they were after the first minute.
func TestSoak(t *testing.T) {
	length := 30 * time.Minute
	if text := os.Getenv("SOAK"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	f := newSoakFleet(t)
	o := &outcomes{counts: map[string]int{}}
	t.Logf("warming up")
	f.traffic(t, o, min(time.Minute, length/4), 1, false)
	before := f.atRest(t)
	t.Logf("baseline: %.0f goroutines, heap in use %.1f MB, resident %.1f MB", before.goroutines, before.heapMB, before.residentMB)
	f.traffic(t, o, length, 2, true)
	f.restore(t)
	after := f.atRest(t)
	t.Logf("after %s: %.0f goroutines, heap in use %.1f MB, resident %.1f MB; %d changes of the fleet",
		length, after.goroutines, after.heapMB, after.residentMB, f.changes)
	for _, k := range slices.Sorted(maps.Keys(o.counts)) {
		t.Logf("%8d  %s", o.counts[k], k)
	}
	require.Empty(t, o.wrong)
	f.settled(t)
	require.LessOrEqual(t, after.goroutines, before.goroutines+8)
	require.LessOrEqual(t, after.heapMB, before.heapMB*1.05+8)
	for _, kind := range []string{"stream: finished", "whole: finished", "leaver: left", "bad: 4xx", "several: finished"} {
		require.Greater(t, o.counts[kind], int(length.Seconds()), "too few %s", kind)
	}
	if length >= time.Minute {
		require.Positive(t, f.changes)
	}
}

// soakFleet is a serve and the sims behind it.
type soakFleet struct {
	serve, admin string
	replicas     map[string]*program // by name
	next         int
	changes      int
}

func newSoakFleet(t *testing.T) *soakFleet {
	t.Helper()
	f := &soakFleet{replicas: map[string]*program{}, admin: freeAddress(t)}
	args := make([]string, 0, 2*soakReplicas)
	for range soakReplicas {
		name, p := f.newReplica(t)
		args = append(args, "--replica", "vllm="+p.urls[0]+",name="+name+",slots=32")
	}
	serve := launch(t, 1, append([]string{
		"serve", "--listen", "127.0.0.1:0", "--admin-listen", f.admin, "--tokenizer", tokenizerFolder(t), "--queue-timeout", "5s",
	}, args...)...)
	f.serve = serve.urls[0]
	require.Eventually(t, func() bool { return f.status(t.Context(), f.serve+"/ready") == http.StatusOK }, 20*time.Second, 50*time.Millisecond)
	return f
}

func (f *soakFleet) newReplica(t *testing.T) (string, *program) {
	t.Helper()
	p := launch(t, 1, "sim", "--listen", "127.0.0.1:0", "--profile", "tiny", "--speed", "0.2", "--slots", "32", "--capacity-tokens", "40000")
	f.next++
	name := "r" + strconv.Itoa(f.next)
	f.replicas[name] = p
	return name, p
}

// tokenizerFolder is the embedded model's folder, for --tokenizer.
func tokenizerFolder(t *testing.T) string {
	t.Helper()
	const folder = "../../tokenizer/simmodel/model"
	_, err := os.Stat(folder + "/tokenizer.json")
	require.NoError(t, err)
	return folder
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // only its number is wanted
	return l.Addr().String()
}

func (f *soakFleet) status(ctx context.Context, url string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// traffic runs the clients for a while; change lets the fleet change meanwhile.
func (f *soakFleet) traffic(t *testing.T, o *outcomes, length time.Duration, seed uint64, change bool) {
	t.Helper()
	end := time.Now().Add(length)
	var clients sync.WaitGroup
	for i := range soakClients {
		rng := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // a count
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for time.Now().Before(end) {
				f.one(client, rng, o)
			}
		})
	}
	if change {
		f.change(t, rand.New(rand.NewPCG(seed, 1<<32)), end)
	}
	clients.Wait()
}

// change adds, removes and kills replicas, and leaves two at least.
func (f *soakFleet) change(t *testing.T, rng *rand.Rand, end time.Time) {
	t.Helper()
	tick := time.NewTicker(soakPause)
	defer tick.Stop()
	for now := range tick.C {
		if now.After(end.Add(-soakPause)) {
			break
		}
		names := slices.Sorted(maps.Keys(f.replicas))
		victim := names[rng.IntN(len(names))]
		switch action := rng.IntN(3); {
		case action == 0 || len(names) <= 2:
			f.add(t)
		case action == 1:
			f.remove(t, victim)
		default: // killed, noticed, taken out
			require.NoError(t, f.replicas[victim].cmd.Process.Kill())
			_ = f.replicas[victim].cmd.Wait()
			f.order(t, http.MethodDelete, "/admin/replicas/"+victim, "")
			require.Eventually(t, func() bool { return !f.listed(t, victim) }, time.Minute, 100*time.Millisecond)
			delete(f.replicas, victim)
		}
		f.changes++
	}
}

func (f *soakFleet) add(t *testing.T) {
	t.Helper()
	name, p := f.newReplica(t)
	f.order(t, http.MethodPost, "/admin/replicas", `{"replica":"vllm=`+p.urls[0]+`,name=`+name+`,slots=32"}`)
}

// remove takes a replica out in order: drained, forgotten, ended.
func (f *soakFleet) remove(t *testing.T, name string) {
	t.Helper()
	f.order(t, http.MethodDelete, "/admin/replicas/"+name, "")
	require.Eventually(t, func() bool { return !f.listed(t, name) }, time.Minute, 100*time.Millisecond)
	f.replicas[name].stop(t)
	delete(f.replicas, name)
}

// restore brings the fleet back to its first size, so that what is left can be compared.
func (f *soakFleet) restore(t *testing.T) {
	t.Helper()
	for len(f.replicas) < soakReplicas {
		f.add(t)
	}
	for len(f.replicas) > soakReplicas {
		f.remove(t, slices.Sorted(maps.Keys(f.replicas))[0])
	}
}

func (f *soakFleet) order(t *testing.T, method, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.admin+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // only read from
	said, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Less(t, resp.StatusCode, 300, "%s %s: %s", method, path, said)
}

// report is what /admin/replicas says of each.
type soakReport struct {
	Replicas []struct {
		Name string `json:"name"`
		Load struct {
			BookedBlocks int `json:"booked_blocks"`
			SeatsBooked  int `json:"seats_booked"`
			Lingering    int `json:"lingering"`
		} `json:"load"`
	} `json:"replicas"`
}

func (f *soakFleet) report(t *testing.T) soakReport {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.admin+"/admin/replicas", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // only read from
	var r soakReport
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&r))
	return r
}

func (f *soakFleet) listed(t *testing.T, name string) bool {
	t.Helper()
	for _, r := range f.report(t).Replicas {
		if r.Name == name {
			return true
		}
	}
	return false
}

// settled fails unless every ledger is empty.
func (f *soakFleet) settled(t *testing.T) {
	t.Helper()
	for _, r := range f.report(t).Replicas {
		require.Zero(t, r.Load, "replica %s", r.Name)
	}
}

// resources are a process's, at rest.
type resources struct{ goroutines, heapMB, residentMB float64 }

// atRest waits until nothing runs and the collector has run since, which it does every two minutes at the latest.
func (f *soakFleet) atRest(t *testing.T) resources {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, r := range f.report(t).Replicas {
			if r.Load.BookedBlocks+r.Load.SeatsBooked+r.Load.Lingering > 0 {
				return false
			}
		}
		return true
	}, time.Minute, 100*time.Millisecond)
	http.DefaultClient.CloseIdleConnections()
	for range 2 { // what the first frees of finalizers, the second collects
		ran := f.metric(t, "go_memstats_last_gc_time_seconds")
		require.Eventually(t, func() bool { return f.metric(t, "go_memstats_last_gc_time_seconds") > ran }, 5*time.Minute, time.Second)
	}
	return resources{
		goroutines: f.metric(t, "go_goroutines"), heapMB: f.metric(t, "go_memstats_heap_alloc_bytes") / 1e6,
		residentMB: f.metric(t, "process_resident_memory_bytes") / 1e6,
	}
}

func (f *soakFleet) metric(t *testing.T, name string) float64 {
	t.Helper()
	return sum(t, name, scrape(t, "http://"+f.admin))
}

// one sends a random request and judges what comes back.
func (f *soakFleet) one(client *http.Client, rng *rand.Rand, o *outcomes) {
	words := strings.Repeat("the harbour master counts ships "+strconv.Itoa(rng.IntN(50))+" ", 1+rng.IntN(60))
	n, tokens := 1, 1+rng.IntN(120)
	kind, stream := "stream", true
	switch rng.IntN(6) {
	case 0:
		kind, stream = "whole", false
	case 1:
		kind = "leaver"
	case 2:
		f.bad(client, rng, o)
		return
	case 3:
		kind, n = "several", 2+rng.IntN(3)
	}
	body, _ := json.Marshal(map[string]any{
		"messages": []map[string]string{{"role": "user", "content": words}}, "max_tokens": tokens, "n": n, "stream": stream,
		"temperature": 0.7, "stop": []string{"zebra"},
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if kind == "leaver" {
		time.AfterFunc(time.Duration(rng.Float64()*float64(400*time.Millisecond)), cancel)
	}
	status, said, err := f.post(ctx, client, "/v1/chat/completions", body)
	switch {
	case kind == "leaver" && ctx.Err() != nil:
		o.count(kind, "left")
	case err != nil:
		o.fault(kind, err.Error())
	case status == http.StatusTooManyRequests || status == http.StatusBadGateway || status == http.StatusServiceUnavailable:
		o.count(kind, strconv.Itoa(status))
	case status != http.StatusOK:
		o.fault(kind, fmt.Sprintf("status %d: %s", status, said))
	default:
		f.judge(kind, n, stream, said, o)
	}
}

// judge looks whether an answer under status 200 is whole.
func (f *soakFleet) judge(kind string, n int, stream bool, said []byte, o *outcomes) {
	if !stream {
		finishes := bytes.Count(said, []byte(`"finish_reason":"`))
		if finishes != n {
			o.fault(kind, fmt.Sprintf("%d of %d answers finished: %s", finishes, n, said))
			return
		}
		o.count(kind, "finished")
		return
	}
	done := bytes.Count(said, []byte("data: [DONE]"))
	failed := bytes.Count(said, []byte(`data: {"error"`))
	finishes := bytes.Count(said, []byte(`"finish_reason":"`))
	switch {
	case failed == 1 && done == 0:
		o.count(kind, "error event") // a replica was killed under it
	case failed == 0 && done == 1 && finishes == n:
		o.count(kind, "finished")
	default:
		o.fault(kind, fmt.Sprintf("%d errors, %d [DONE], %d of %d finished", failed, done, finishes, n))
	}
}

// bad sends a request that must be refused with a 4xx whatever the fleet does.
func (f *soakFleet) bad(client *http.Client, rng *rand.Rand, o *outcomes) {
	bodies := []string{
		`{`, `[]`, `{"messages":[]}`, `{"messages":[{"role":"user"`, `{"messages":"hi"}`, `{"messages":[{"role":"user","content":"hi"}],"n":0}`,
		`{"messages":[{"role":"user","content":"hi"}],"temperature":-1}`, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":0}`,
		`{"messages":[{"role":"user","content":"a\u0000b"}]}`, `{"model":"nope","messages":[{"role":"user","content":"hi"}]}`,
		`{"messages":[{"role":"user","content":"` + strings.Repeat("long words ", 20_000) + `"}]}`,
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	status, said, err := f.post(ctx, client, "/v1/chat/completions", []byte(bodies[rng.IntN(len(bodies))]))
	switch {
	case err != nil:
		o.fault("bad", err.Error())
	case status == http.StatusServiceUnavailable: // the only replica that could hold it is down
		o.count("bad", "503")
	case status < 400 || status > 499:
		o.fault("bad", fmt.Sprintf("status %d: %.200s", status, said))
	default:
		o.count("bad", "4xx")
	}
}

func (f *soakFleet) post(ctx context.Context, client *http.Client, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.serve+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read from
	said, err := io.ReadAll(bufio.NewReader(resp.Body))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return resp.StatusCode, said, fmt.Errorf("the answer is cut off: %w", err)
	}
	return resp.StatusCode, said, err
}
