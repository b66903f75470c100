package kvevents

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"plimsoll/engine"
)

// Source listens to one engine's cache events. It implements [engine.KVSource]. Methods are safe for concurrent use;
// a source that binds can serve one subscription at a time.
type Source struct {
	cfg  Config
	deps Deps

	mu    sync.Mutex
	place net.Addr // guarded by mu; where the present subscription listens
}

var _ engine.KVSource = (*Source)(nil)

// New returns a source. It connects to nobody before Subscribe.
func New(cfg Config, deps Deps) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil || deps.Entropy == nil {
		return nil, errors.New("kvevents: Deps.Log and Deps.Entropy are needed")
	}
	return &Source{cfg: cfg, deps: deps}, nil
}

// Addr is where a subscription to a bound endpoint listens; nil before it does, and for sources that connect.
func (s *Source) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place
}

func (s *Source) bound(a net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.place = a
}

// Subscribe implements [engine.KVSource]. Connections that break and replays that fail are made anew here, with back-off:
// the caller sees batches with Reset, or a state less than live, in their place. It returns the context's error, or a
// [*engine.Failure] of kind Refused if the endpoint cannot be listened on. The first batch comes as soon as the engine is
// connected, or cannot be.
func (s *Source) Subscribe(ctx context.Context, sink func(engine.KVBatch)) error {
	ctx, cancel := context.WithCancel(ctx)
	var sockets sync.WaitGroup
	defer sockets.Wait()
	defer cancel()

	f := newFeed(ctx, s)
	k := &keeper{feed: f, sockets: &sockets, machine: newMachine(s.cfg.limits(), s.deps.Entropy, sink)}
	if s.cfg.Bind {
		defer s.bound(nil)
		sockets.Go(func() { f.accept(&sockets) })
	} else {
		sockets.Go(f.connect)
	}
	return k.run(ctx)
}

func (c Config) limits() limits {
	return limits{
		replay: c.ReplayEndpoint != "", replayTimeout: c.ReplayTimeout, replayWhole: c.ReplayWhole,
		retryFirst: c.RetryFirst, retryMax: c.RetryMax, checkFirst: c.CheckFirst, checkEvery: c.CheckEvery,
		replayBatchesMax: c.ReplayBatchesMax, bufferBatchesMax: c.BufferBatchesMax, bytesHeld: c.BufferBytesMax,
	}
}

// keeper drives the machine of one subscription: news in, effects out. It lives in Subscribe's goroutine.
type keeper struct {
	feed    *feed
	sockets *sync.WaitGroup
	machine *machine

	open    []uint64 // connected publishers, the latest last
	current uint64   // the one that the machine hears; 0: none
	spoke   bool     // ... and that has published since: before, it may be another engine's at a shared endpoint
	asked   uint64   // attempt of the running replay
	stop    context.CancelFunc
}

func (k *keeper) run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	var armed time.Time
	for ctx.Err() == nil {
		select {
		case n := <-k.feed.out:
			if n.kind == gaveUp {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return n.err
			}
			k.hear(n)
			if n.long() {
				<-k.feed.large // its payload is no longer needed
			}
		case <-timer.C:
			armed = time.Time{}
			k.step(input{kind: tick})
		case <-ctx.Done():
		}
		if at := k.machine.deadline(); !at.Equal(armed) {
			if armed = at; at.IsZero() {
				timer.Stop()
			} else {
				timer.Reset(time.Until(at))
			}
		}
	}
	return ctx.Err()
}

// hear turns news into inputs.
func (k *keeper) hear(n news) {
	switch n.kind {
	case opened:
		k.open = append(k.open, n.who)
		if k.current == 0 {
			k.turnTo(n.who)
		}
	case closed:
		k.open = slices.DeleteFunc(k.open, func(who uint64) bool { return who == n.who })
		if n.who == k.current {
			k.current = 0
			k.step(input{kind: broken})
			if len(k.open) > 0 {
				k.turnTo(k.open[len(k.open)-1])
			}
		}
	case told:
		if !k.counts(n.payload) {
			return
		}
		switch {
		case n.who < k.current && k.spoke: // a process that was replaced, whose connection has not broken yet
			k.step(input{kind: stale})
			return
		case n.who != k.current: // the engine has connected again, before its old connection broke
			k.step(input{kind: broken})
			k.turnTo(n.who)
		}
		k.spoke = true
		k.step(input{kind: live, seq: n.seq, payload: n.payload})
	case noise:
		k.step(input{kind: junk})
	case answer:
		if k.counts(n.payload) {
			k.step(input{kind: replayed, attempt: n.who, seq: n.seq, payload: n.payload})
		} else {
			k.step(input{kind: replayFailed, attempt: n.who})
		}
	case ended:
		k.step(input{kind: replayEnded, attempt: n.who})
	case aborted:
		k.step(input{kind: replayFailed, attempt: n.who})
	case gaveUp:
	}
}

// counts says whether a batch is of the rank that is listened to. One that does not tell is.
func (k *keeper) counts(payload []byte) bool {
	want := k.feed.cfg.Rank
	if want == nil {
		return true
	}
	rank, ok := rankOf(payload)
	return !ok || rank == *want
}

func (k *keeper) turnTo(who uint64) {
	k.current, k.spoke = who, false
	k.step(input{kind: connected})
}

// step feeds the machine and does what it asks for.
func (k *keeper) step(in input) {
	for _, e := range k.machine.Step(time.Now(), in) {
		switch e.kind {
		case askReplay:
			k.endReplay()
			ctx, cancel := context.WithCancel(k.feed.ctx)
			k.asked, k.stop = e.attempt, cancel
			k.sockets.Go(func() {
				defer cancel()
				k.feed.replay(ctx, e.attempt, e.from)
			})
		case dropReplay:
			if e.attempt == k.asked {
				k.endReplay()
			}
		}
	}
}

func (k *keeper) endReplay() {
	if k.stop != nil {
		k.stop()
		k.stop = nil
	}
}
