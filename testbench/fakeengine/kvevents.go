package fakeengine

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"plimsoll/engine"
	"plimsoll/engine/sim/live"
	"plimsoll/testbench/kvpub"
)

// kvFeed carries the engine's cache events to their publisher. Its goroutine runs from New to the engine's end.
type kvFeed struct {
	publisher *kvpub.Publisher
	done      chan struct{} // the goroutine has ended

	// The rest is the goroutine's alone.
	next  uint64 // number of the engine's next batch
	ended bool   // the life is over and no other has begun
}

// startKV begins to publish. When it returns no event of the engine escapes.
func startKV(cfg kvpub.Config, e *live.Engine, deps Deps) (*kvFeed, error) {
	publisher, err := kvpub.New(cfg, kvpub.Deps{Now: deps.Now, Plan: kvpub.Calm{}})
	if err != nil {
		return nil, err
	}
	k := &kvFeed{publisher: publisher, done: make(chan struct{})}
	follows := make(chan struct{})
	go func() {
		defer close(k.done)
		first := true
		_ = e.Follow(context.Background(), func(b engine.KVBatch) { // it ends with the engine
			k.batch(b)
			if first {
				first = false
				close(follows)
			}
		}, k.died)
	}()
	select {
	case <-follows:
		return k, nil
	case <-k.done:
		return nil, errors.Join(errors.New("fakeengine: the engine ended before it was followed"), publisher.Close())
	}
}

// batch publishes what the engine says. What the engine could not get rid of is a hole in its numbers, and in the
// publisher's.
func (k *kvFeed) batch(b engine.KVBatch) {
	if b.Reset {
		if k.ended {
			k.publisher.Begin()
		}
		k.next, k.ended = b.Seq+1, false
		return
	}
	k.publisher.Skip(b.Seq - k.next)
	k.next = b.Seq + 1
	k.publisher.Publish(b.Events)
}

func (k *kvFeed) died() {
	k.publisher.End()
	k.ended = true
}

// stop waits for the engine's end and closes the sockets.
func (k *kvFeed) stop() error {
	<-k.done
	return k.publisher.Close()
}

// KVEvents is the publisher of the cache's events, where faults are injected; nil if there is none.
func (s *Server) KVEvents() *kvpub.Publisher {
	if s.kv == nil {
		return nil
	}
	return s.kv.publisher
}

// kvSource is what a publisher is set to, its ports as they are.
type kvSource struct {
	Enabled        bool    `json:"enable_kv_cache_events"`
	Publisher      string  `json:"publisher"`
	Endpoint       string  `json:"endpoint"`
	ReplayEndpoint *string `json:"replay_endpoint"`
	BufferSteps    int     `json:"buffer_steps"`
	HWM            int     `json:"hwm"`
	QueueBatches   int     `json:"max_queue_size"`
	Topic          string  `json:"topic"`
}

// kvSources answers GET /kv_event_sources: the publishers by data-parallel rank.
func (s *Server) kvSources(w http.ResponseWriter, _ *http.Request) {
	sources := map[string]kvSource{}
	if s.kv != nil {
		cfg, rank := s.cfg.KVEvents, 0
		source := kvSource{
			Enabled: true, Publisher: "zmq", Endpoint: s.kv.publisher.Endpoint(), BufferSteps: cfg.BufferSteps, HWM: cfg.HWM,
			QueueBatches: s.cfg.Engine.FeedBatchesMax, Topic: cfg.Topic,
		}
		if replay := s.kv.publisher.ReplayEndpoint(); replay != "" {
			source.ReplayEndpoint = &replay
		}
		if cfg.Rank != nil {
			rank = *cfg.Rank
		}
		sources[strconv.Itoa(rank)] = source
	}
	s.write(w, http.StatusOK, sources)
}

// resetPrefixCache answers POST /reset_prefix_cache. The event leaves with the next step that has work.
func (s *Server) resetPrefixCache(w http.ResponseWriter, r *http.Request) {
	force := false
	if text := r.URL.Query().Get("reset_running_requests"); text != "" {
		var err error
		if force, err = strconv.ParseBool(text); err != nil {
			s.fail(w, schemaFault("query.reset_running_requests", "Input should be a valid boolean, unable to interpret input"))
			return
		}
	}
	ok, err := s.engine.ResetPrefixCache(r.Context(), force)
	var failure *engine.Failure
	switch {
	case errors.As(err, &failure):
		s.fail(w, engineFault(failure))
	case err == nil:
		s.write(w, http.StatusOK, struct {
			Success bool `json:"success"`
		}{ok})
	}
}
