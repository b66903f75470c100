package stream

import "sync"

// The retry budget: requests of a model that are on a replica which is not their first, without a token yet. Without a bound
// a fleet that sheds would get every request as often as it has replicas. A request that was shed while the budget is spent
// waits for it a little: when many are shed at once by one replica, the others have room for all of them, one after the other.
const (
	retriesMin     = 3  // whatever runs
	retriesPercent = 20 // of the model's live requests
)

// Budget is what one model's live requests may retry at once before they have a token. It is safe for concurrent use.
type Budget struct {
	mu          sync.Mutex
	live, taken int
}

// NewBudget returns the budget of a model without requests.
func NewBudget() *Budget { return &Budget{} }

// join counts a request as live until its share is closed.
func (b *Budget) join() *share {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live++
	return &share{of: b}
}

// unused says whether no request has a share.
func (b *Budget) unused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live == 0
}

// share is one request's part in its model's budget.
type share struct {
	of    *Budget
	taken int // guarded by of.mu
}

// take counts a retry that is about to begin; false: the budget is spent. Forced, it is counted in any case.
func (s *share) take(forced bool) bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if !forced && s.of.taken >= max(retriesMin, s.of.live*retriesPercent/100) {
		return false
	}
	s.of.taken++
	s.taken++
	return true
}

// giveBack ends a retry that was taken.
func (s *share) giveBack() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.taken--
	s.taken--
}

// close ends the request, and what it holds.
func (s *share) close() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.taken -= s.taken
	s.taken = 0
	s.of.live--
}
