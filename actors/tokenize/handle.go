package tokenize

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
)

// Stats is what a pool publishes.
type Stats struct {
	Jobs         int // inputs that wait or run
	WaitingBytes int // of those that have not begun
}

// Handle is how a model's pool is reached. It stays the same whatever is restarted, and is safe for concurrent use.
type Handle struct {
	root  *actor.RootContext
	pid   atomic.Pointer[actor.PID]
	stats atomic.Pointer[Stats]
	// instances counts the pools that this handle has reached.
	instances atomic.Uint64

	mu    sync.Mutex
	asked map[*Tokenize]struct{} // bare tokenizations that wait for their answer
}

// NewHandle returns a handle that reaches nobody until a pool is spawned with it.
func NewHandle(root *actor.RootContext) *Handle {
	h := &Handle{root: root, asked: map[*Tokenize]struct{}{}}
	h.stats.Store(&Stats{})
	return h
}

// Tell sends the pool a message. What is sent while there is none is lost: a new pool asks the live calls for it.
func (h *Handle) Tell(message any) {
	if pid := h.pid.Load(); pid != nil {
		h.root.Send(pid, message)
	}
}

// Attach has the handle reach a pool from now on: whoever spawned it calls it, and each instance of it. What was asked of another one
// and is not answered is asked again. What an instance of the same one has not answered it has refused, or it waits in its mailbox.
func (h *Handle) Attach(pid *actor.PID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before := h.pid.Swap(pid); before != nil && before.Equal(pid) {
		return
	}
	for t := range h.asked {
		h.root.Send(pid, t)
	}
}

// Stats returns what the pool has published last.
func (h *Handle) Stats() Stats { return *h.stats.Load() }

// Prompts has an input tokenized, for a tenant, and waits for it or for ctx's end.
func (h *Handle) Prompts(ctx context.Context, in stream.Input, tenant string, class queue.Class) ([]stream.Prompt, error) {
	reply := make(chan Tokenized, 1)
	t := &Tokenize{Input: in, Tenant: tenant, Class: class, Reply: reply}
	h.ask(t)
	defer h.answered(t)
	select {
	case r := <-reply:
		return r.Prompts, r.Err
	case <-ctx.Done():
		h.Tell(Abandon{t})
		return nil, ctx.Err()
	}
}

func (h *Handle) ask(t *Tokenize) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[t] = struct{}{}
	h.Tell(t)
}

func (h *Handle) answered(t *Tokenize) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.asked, t)
}
