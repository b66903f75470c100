package fakeengine

import (
	"context"
	"sync"
)

// registry knows the running requests by name, so that they can be aborted. Two may share a name.
type registry struct {
	mu   sync.Mutex
	byID map[string]map[*entry]struct{} // guarded by mu
	open int                            // guarded by mu
}

type entry struct{ cancel context.CancelCauseFunc }

func newRegistry() *registry { return &registry{byID: map[string]map[*entry]struct{}{}} }

// enter books a request and returns what its end calls.
func (r *registry) enter(id string, cancel context.CancelCauseFunc) (leave func()) {
	e := &entry{cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[id] == nil {
		r.byID[id] = map[*entry]struct{}{}
	}
	r.byID[id][e] = struct{}{}
	r.open++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.byID[id], e)
		if len(r.byID[id]) == 0 {
			delete(r.byID, id)
		}
		r.open--
	}
}

// abort ends the requests of a name; of an unknown one nothing is said.
func (r *registry) abort(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range r.byID[id] {
		e.cancel(errAborted)
	}
}

// end ends all requests for a cause.
func (r *registry) end(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, entries := range r.byID {
		for e := range entries {
			e.cancel(cause)
		}
	}
}

// running counts the requests that are being answered.
func (r *registry) running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}
