package live

import (
	"sync"

	"plimsoll/engine"
)

// feed is one subscription to cache events: a bounded buffer that the loop fills and Subscribe empties.
type feed struct {
	wake chan struct{} // capacity 1
	max  int

	mu      sync.Mutex
	batches []engine.KVBatch // guarded by mu
	lost    bool             // guarded by mu; the buffer ran over and only a snapshot helps
	left    bool             // guarded by mu; the subscriber has gone
	err     error            // guarded by mu; why the feed broke
}

func newFeed(batchesMax int) *feed {
	return &feed{wake: make(chan struct{}, 1), max: batchesMax}
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

// take empties the buffer.
func (f *feed) take() (batches []engine.KVBatch, lost bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	batches, f.batches = f.batches, nil
	return batches, f.lost, f.err
}
