package fakeengine_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
	"plimsoll/testbench/fakeengine"
	"plimsoll/testbench/kvpub"
)

// publishing switches cache events on.
func publishing(cfg *fakeengine.Config) {
	kv := kvpub.DefaultConfig()
	cfg.KVEvents = &kv
}

// subscribe connects a SUB of an independent implementation to the server's publisher.
func (f fake) subscribe(t *testing.T) zmq4.Socket {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := zmq4.NewSub(ctx, zmq4.WithLogger(log.New(io.Discard, "", 0)))
	t.Cleanup(func() {
		cancel()
		_ = s.Close()
	})
	require.NoError(t, s.SetOption(zmq4.OptionSubscribe, "kv-events"))
	require.NoError(t, s.Dial(f.KVEvents().Endpoint()))
	require.NoError(t, f.KVEvents().AwaitSubscribers(t.Context(), 1))
	return s
}

// batch is the next batch that comes: its number, and its payload without the time.
func batch(t *testing.T, s zmq4.Socket) (seq uint64, payload []byte) {
	t.Helper()
	m, err := s.Recv()
	require.NoError(t, err)
	require.Len(t, m.Frames, 3)
	require.Equal(t, "kv-events", string(m.Frames[0]))
	return binary.BigEndian.Uint64(m.Frames[1]), untimed(m.Frames[2])
}

// untimed is a payload without the head of its array and its time.
func untimed(payload []byte) []byte { return payload[10:] }

// follow hears what the engine tells its publisher.
func (f fake) follow(t *testing.T) <-chan engine.KVBatch {
	t.Helper()
	heard := make(chan engine.KVBatch, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { gone <- f.Engine().Follow(ctx, func(b engine.KVBatch) { heard <- b }, func() {}) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
	})
	require.True(t, (<-heard).Reset)
	return heard
}

// published waits until so many batches are, each a moment after the engine told it.
func (f fake) published(t *testing.T, batches uint64) {
	t.Helper()
	require.Eventually(t, func() bool { return f.KVEvents().NextSeq() == batches }, time.Minute, time.Millisecond)
}

// encoded is a batch as the server should send it.
func encoded(b engine.KVBatch) []byte {
	events := make([]kvpub.Event, len(b.Events))
	for i, e := range b.Events {
		events[i].Event = e
	}
	return untimed(kvpub.NewEncoder(kvpub.DefaultConfig()).AppendBatch(nil, time.Unix(0, 0), events))
}

const longPrompt = `{"prompt":"` + "The harbour master writes down what each ship may carry, and how deep she lies. " +
	"The harbour master writes down what each ship may carry, and how deep she lies." + `","max_tokens":40,"ignore_eos":true}`

func TestPublishesWhatTheEngineTells(t *testing.T) {
	f := serve(t, publishing)
	sub, told := f.subscribe(t), f.follow(t)
	stored := 0
	for range 3 {
		status, _ := f.call(t, "POST", "/v1/completions", longPrompt)
		require.Equal(t, 200, status)
	}
	last := prompt(17)
	ids, err := json.Marshal(last)
	require.NoError(t, err)
	status, _ := f.call(t, "POST", "/v1/completions", `{"prompt":`+string(ids)+`,"max_tokens":1}`)
	require.Equal(t, 200, status)
	for over := false; !over; {
		want := <-told
		seq, payload := batch(t, sub)
		require.Equal(t, want.Seq-1, seq)
		require.Equal(t, encoded(want), payload)
		stored += len(want.Events)
		over = slices.Equal(want.Events[0].Tokens, last[:16])
	}
	require.Greater(t, stored, 4, "prompt and answer")
}

// The whole configuration, its ports resolved, as a real vLLM shows it.
func TestKVEventSources(t *testing.T) {
	off := serve(t, nil)
	status, body := off.call(t, "GET", "/kv_event_sources", "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{}`, body)
	require.Nil(t, off.KVEvents())

	f := serve(t, publishing)
	_, body = f.call(t, "GET", "/kv_event_sources", "")
	want := strings.NewReplacer("LIVE", f.KVEvents().Endpoint(), "REPLAY", f.KVEvents().ReplayEndpoint()).Replace(
		`{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"LIVE","replay_endpoint":"REPLAY","buffer_steps":10000,"hwm":100000,"max_queue_size":1024,"topic":"kv-events"}}`)
	require.Equal(t, want, body)

	second := serve(t, func(cfg *fakeengine.Config) {
		publishing(cfg)
		cfg.KVEvents.ReplayEndpoint, cfg.KVEvents.Rank = nil, new(1)
	})
	_, body = second.call(t, "GET", "/kv_event_sources", "")
	var sources map[string]struct {
		Replay *string `json:"replay_endpoint"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &sources))
	require.Contains(t, sources, "1")
	require.Nil(t, sources["1"].Replay)
}

func TestRestartIsANewLife(t *testing.T) {
	f := serve(t, publishing)
	sub := f.subscribe(t)
	status, _ := f.call(t, "POST", "/v1/completions", longPrompt)
	require.Equal(t, 200, status)
	first, before := batch(t, sub)
	require.Zero(t, first)
	endpoint := f.KVEvents().Endpoint()
	f.Engine().Kill()
	for {
		if _, err := sub.Recv(); err != nil {
			break
		}
	}
	f.Engine().Start()
	require.NoError(t, f.KVEvents().AwaitLives(t.Context(), 2))
	require.Equal(t, endpoint, f.KVEvents().Endpoint())
	sub = f.subscribe(t)
	status, _ = f.call(t, "POST", "/v1/completions", longPrompt)
	require.Equal(t, 200, status)
	seq, after := batch(t, sub)
	require.Zero(t, seq)
	require.Len(t, after, len(before), "the same blocks, computed again")
}

// stuck is a plan that holds the publisher up.
type stuck struct {
	kvpub.Calm
	entered, leave chan struct{}
}

func (s stuck) Batch(uint64) kvpub.BatchFault {
	s.entered <- struct{}{}
	<-s.leave
	return kvpub.Deliver
}

// What does not fit between engine and publisher is lost, and the numbers show it.
func TestOverrunIsAHole(t *testing.T) {
	f := serve(t, func(cfg *fakeengine.Config) {
		publishing(cfg)
		cfg.Engine.FeedBatchesMax = 2
	})
	sub := f.subscribe(t)
	plan := stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	f.KVEvents().SetPlan(plan)
	status, _ := f.call(t, "POST", "/v1/completions", strings.Replace(longPrompt, `"max_tokens":40`, `"max_tokens":1`, 1))
	require.Equal(t, 200, status)
	<-plan.entered // with the one batch that there is; two more have room behind it
	for range 4 {
		status, _ = f.call(t, "POST", "/v1/completions", longPrompt)
		require.Equal(t, 200, status)
	}
	go func() {
		for range plan.entered { // the batches that had room
		}
	}()
	close(plan.leave)
	var seqs []uint64
	for range 3 {
		seq, _ := batch(t, sub)
		seqs = append(seqs, seq)
	}
	require.Equal(t, []uint64{0, 1, 2}, seqs)
	status, _ = f.call(t, "POST", "/v1/completions", longPrompt)
	require.Equal(t, 200, status)
	seq, _ := batch(t, sub)
	require.Greater(t, seq, uint64(3))
	close(plan.entered)
}

// As recorded: {"success":true} and no event; the next request's batch begins with it. While a request runs it fails, unless
// it may preempt it.
func TestResetPrefixCacheRoute(t *testing.T) {
	f := serve(t, publishing)
	told := f.follow(t)
	short := `{"prompt":"The harbour master writes down what each ship may carry, and how deep she lies.","max_tokens":1}`
	status, _ := f.call(t, "POST", "/v1/completions", short)
	require.Equal(t, 200, status)
	require.Equal(t, prefix.Stored, (<-told).Events[0].Kind)
	f.published(t, 1)
	status, body := f.call(t, "POST", "/reset_prefix_cache", "")
	require.Equal(t, 200, status)
	require.Equal(t, `{"success":true}`, body)
	require.Equal(t, uint64(1), f.KVEvents().NextSeq())
	status, _ = f.call(t, "POST", "/v1/completions", short)
	require.Equal(t, 200, status)
	next := <-told
	require.Equal(t, prefix.Cleared, next.Events[0].Kind)
	require.Equal(t, prefix.Stored, next.Events[1].Kind)

	running := f.open(t, "POST", "/v1/completions", `{"prompt":"Hello","max_tokens":30000,"ignore_eos":true,"stream":true}`)
	_, err := running.ReadString('\n') // it runs
	require.NoError(t, err)
	_, body = f.call(t, "POST", "/reset_prefix_cache", "")
	require.Equal(t, `{"success":false}`, body)
	_, body = f.call(t, "POST", "/reset_prefix_cache?reset_running_requests=true", "")
	require.Equal(t, `{"success":true}`, body)
	for range 200 { // frames and the lines between them
		line, err := running.ReadString('\n')
		require.NoError(t, err)
		require.NotContains(t, line, "error", "it goes on")
	}
	require.Equal(t, uint64(1), f.Engine().Status().Preemptions)

	status, _ = f.call(t, "POST", "/reset_prefix_cache?reset_running_requests=perhaps", "")
	require.Equal(t, 400, status)
	status, _ = f.call(t, "GET", "/reset_prefix_cache", "")
	require.Equal(t, 405, status)
	f.Engine().Kill()
	status, _ = f.call(t, "POST", "/reset_prefix_cache", "")
	require.Equal(t, 500, status)
}
