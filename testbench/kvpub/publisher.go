package kvpub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"plimsoll/scoring/prefix"
)

// Publisher publishes the events of one rank of an engine. It is safe for concurrent use.
type Publisher struct {
	cfg      Config
	deps     Deps
	live     net.Listener    // nil if it connects
	replays  net.Listener    // nil if there are none
	closing  <-chan struct{} // closed by close
	close    context.CancelFunc
	running  sync.WaitGroup // listeners, diallers and connections
	stopOnce sync.Once

	mu       sync.Mutex
	encoder  *Encoder
	scratch  []byte
	up       bool
	seq      uint64 // of the next batch
	ring     ring
	delayed  []batch                  // wait for the next batch and go before it
	reorders []batch                  // wait for the next batch and go after it
	waiting  chan struct{}            // closed when late replays are to be answered
	conns    map[net.Conn]*subscriber // nil: a replay connection, or one that is still shaking hands
	changed  chan struct{}            // closed when what is awaited may have come
	stats    Stats
}

// Stats count what a publisher has done since it was made.
type Stats struct {
	Batches  uint64                  // that were given a number
	Overruns uint64                  // batches that a subscriber lost because HWM were waiting for it
	Requests uint64                  // replays that were asked for, malformed requests not counted
	Faults   [NumBatchFaults]uint64  // of batches; Deliver counts those without
	Replays  [NumReplayFaults]uint64 // of replays; Answer counts those without
	Cuts     uint64                  // times that all connections were broken, lives that ended included
	Lives    uint64
}

// New opens the sockets and begins the first life. Close ends it.
func New(cfg Config, deps Deps) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Now == nil || deps.Plan == nil {
		return nil, errors.New("kvpub: Deps.Now and Deps.Plan are needed")
	}
	p := &Publisher{
		cfg: cfg, deps: deps, encoder: NewEncoder(cfg), ring: ring{max: cfg.BufferSteps},
		waiting: make(chan struct{}), changed: make(chan struct{}), conns: make(map[net.Conn]*subscriber),
	}
	closing, cancel := context.WithCancel(context.Background())
	p.closing, p.close = closing.Done(), cancel
	if err := p.open(closing); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.Begin()
	return p, nil
}

// open makes the sockets.
func (p *Publisher) open(ctx context.Context) (err error) {
	if p.cfg.ReplayEndpoint != nil {
		if p.replays, err = listen(ctx, *p.cfg.ReplayEndpoint); err != nil {
			return err
		}
		p.running.Go(func() { p.accept(p.replays, p.serveReplays) })
	}
	if p.cfg.Connect {
		p.running.Go(func() { p.dial(ctx) })
		return nil
	}
	if p.live, err = listen(ctx, p.cfg.Endpoint); err != nil {
		return err
	}
	p.running.Go(func() { p.accept(p.live, p.serveSubscriber) })
	return nil
}

func listen(ctx context.Context, endpoint string) (net.Listener, error) {
	at, err := address(endpoint)
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("kvpub: %w", err)
	}
	return l, nil
}

// Endpoint is where batches are published, with the port that was chosen; if the publisher connects, where to.
func (p *Publisher) Endpoint() string {
	if p.live == nil {
		return p.cfg.Endpoint
	}
	return endpointOf(p.live)
}

// ReplayEndpoint is where replays are answered; "" if nowhere.
func (p *Publisher) ReplayEndpoint() string {
	if p.replays == nil {
		return ""
	}
	return endpointOf(p.replays)
}

// Publish sends a batch with the events of a step. It does not block. While the engine is down it does nothing.
func (p *Publisher) Publish(events []prefix.Event) {
	wrapped := make([]Event, len(events))
	for i := range events {
		wrapped[i].Event = events[i]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up {
		p.encode(wrapped)
	}
}

// PublishPayload sends a payload as it is: a recorded one, or one that is malformed.
func (p *Publisher) PublishPayload(payload []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up {
		p.put(payload)
	}
}

// Skip spends n numbers, as an engine does that has dropped n batches before they were sent.
func (p *Publisher) Skip(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq += n
}

// encode is called with the lock held.
func (p *Publisher) encode(events []Event) {
	p.scratch = p.encoder.AppendBatch(p.scratch[:0], p.deps.Now(), events)
	p.put(p.scratch)
}

// put numbers a batch and does to it what the plan says. It is called with the lock held.
func (p *Publisher) put(payload []byte) {
	b := newBatch(p.cfg.Topic, p.seq, payload)
	fault := p.deps.Plan.Batch(p.seq)
	p.seq++
	p.stats.Batches++
	p.stats.Faults[fault]++
	if fault != Lose {
		p.ring.add(b)
	}
	after := p.reorders
	p.reorders = nil
	if fault != Delay {
		p.spread(p.delayed...)
		p.delayed = nil
	}
	switch fault {
	case Deliver:
		p.spread(b)
	case Double:
		p.spread(b, b)
	case Reorder:
		p.reorders = []batch{b}
	case Delay:
		p.delayed = append(p.delayed, b)
	case Garble:
		p.spread(b.garbled())
	case Sever:
		p.sever()
	case Drop, Lose, NumBatchFaults:
	}
	p.spread(after...)
	p.answerLate()
}

// Flush sends what waits for a next batch, late replays included.
func (p *Publisher) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spread(p.delayed...)
	p.spread(p.reorders...)
	p.delayed, p.reorders = nil, nil
	p.answerLate()
}

// spread offers batches to all who have subscribed. It is called with the lock held.
func (p *Publisher) spread(batches ...batch) {
	for _, b := range batches {
		for _, s := range p.conns {
			if s != nil && s.wants(p.cfg.Topic) && !s.offer(b.wire, p.cfg.HWM) {
				p.stats.Overruns++
			}
		}
	}
}

func (p *Publisher) answerLate() {
	close(p.waiting)
	p.waiting = make(chan struct{})
}

// SetPlan changes what goes wrong from now on.
func (p *Publisher) SetPlan(plan Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deps.Plan = plan
}

// Cut breaks all connections; what was on its way on them is lost.
func (p *Publisher) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sever()
}

func (p *Publisher) sever() {
	p.stats.Cuts++
	for conn := range p.conns {
		_ = conn.Close() // the goroutines of the connection see it
		delete(p.conns, conn)
	}
}

// End ends the life of the engine's process: connections break, new ones are closed at once, nothing is published. Of an
// engine that is down nothing changes.
func (p *Publisher) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}

func (p *Publisher) end() {
	if p.up {
		p.up = false
		p.sever()
		p.answerLate()
	}
}

// Begin begins a new life, after the end of the one before: the sequence starts at 0, there is nothing to replay. An SGLang
// says first that its cache is empty.
func (p *Publisher) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	p.encoder = NewEncoder(p.cfg)
	p.up, p.seq, p.delayed, p.reorders, p.ring = true, 0, nil, nil, ring{max: p.cfg.BufferSteps}
	p.stats.Lives++
	p.tell()
	if p.cfg.Dialect == SGLang {
		p.encode([]Event{{Event: prefix.Event{Kind: prefix.Cleared}}})
	}
}

// NextSeq is the number of the next batch.
func (p *Publisher) NextSeq() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq
}

// Stats says what has happened.
func (p *Publisher) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// AwaitSubscribers returns when n connections have subscribed to the topic, or ctx ends.
func (p *Publisher) AwaitSubscribers(ctx context.Context, n int) error {
	return p.await(ctx, n, "connections subscribed", func() int {
		found := 0
		for _, s := range p.conns {
			if s != nil && s.wants(p.cfg.Topic) {
				found++
			}
		}
		return found
	})
}

// AwaitRequests returns when n replays have been asked for since the publisher was made, or ctx ends.
func (p *Publisher) AwaitRequests(ctx context.Context, n int) error {
	return p.await(ctx, n, "replays asked for", func() int { return int(p.stats.Requests) }) //nolint:gosec // a count
}

// AwaitLives returns when the n-th life has begun, or ctx ends.
func (p *Publisher) AwaitLives(ctx context.Context, n int) error {
	return p.await(ctx, n, "lives begun", func() int { return int(p.stats.Lives) }) //nolint:gosec // a count
}

// await returns when a count, taken with the lock held, has reached n.
func (p *Publisher) await(ctx context.Context, n int, what string, count func() int) error {
	for {
		p.mu.Lock()
		found, changed := count(), p.changed
		p.mu.Unlock()
		if found >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("kvpub: %s: %d of %d: %w", what, found, n, ctx.Err())
		}
	}
}

// tell wakes who waits. It is called with the lock held.
func (p *Publisher) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Close ends everything; when it returns no goroutine of the publisher runs. It may be called again.
func (p *Publisher) Close() error {
	p.stopOnce.Do(func() {
		p.close()
		for _, l := range []net.Listener{p.live, p.replays} {
			if l != nil {
				_ = l.Close()
			}
		}
		p.End()
	})
	p.running.Wait()
	return nil
}

// handshakeTime is how long a peer may take to shake hands.
const handshakeTime = 10 * time.Second
