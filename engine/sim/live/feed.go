package live

import (
	"sync"

	"plimsoll/engine"
)

// feed is one subscription to cache events: a bounded buffer that the loop fills and Subscribe or Follow empties.
type feed struct {
	wake    chan struct{} // capacity 1
	max     int
	follows bool // it outlives the engine's lives, and what it misses is a hole

	mu      sync.Mutex
	batches []engine.KVBatch // guarded by mu
	lost    bool             // guarded by mu; the buffer ran over and only a snapshot helps
	died    bool             // guarded by mu; a life has ended since take, before what is in the buffer
	left    bool             // guarded by mu; the subscriber has gone
	err     error            // guarded by mu; why the feed broke
}

func newFeed(batchesMax int, follows bool) *feed {
	return &feed{wake: make(chan struct{}, 1), max: batchesMax, follows: follows}
}

// push adds a batch; it reports false if the subscriber has gone.
func (f *feed) push(b engine.KVBatch) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.left:
		return false
	case b.Reset:
		f.lost = false
		f.batches = append(f.batches[:0], b)
	case f.lost:
		return true
	case len(f.batches) >= f.max && f.follows:
	case len(f.batches) >= f.max:
		f.lost, f.batches = true, nil
	default:
		f.batches = append(f.batches, b)
	}
	f.notify()
	return true
}

func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	f.notify()
}

// die tells a follower that the life has ended; what it was not told of it dies too.
func (f *feed) die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.died, f.batches = true, nil
	f.notify()
}

func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.batches = true, nil
}

func (f *feed) gone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left
}

func (f *feed) notify() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// taken is what was in a feed.
type taken struct {
	batches []engine.KVBatch
	died    bool
	lost    bool
	err     error
}

// take empties the buffer.
func (f *feed) take() taken {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := taken{batches: f.batches, died: f.died, lost: f.lost, err: f.err}
	f.batches, f.died = nil, false
	return t
}
