package stream

import "sync"

// The retry budget: requests of a model that are on a replica which is not their first, without a token yet. Without a bound
// a fleet that sheds would get every request as often as it has replicas.
const (
	retriesMin     = 3  // whatever runs
	retriesPercent = 20 // of the model's live requests
)

// budget is what a machine needs of the retry budget.
type budget interface {
	// take counts a retry that is about to begin; false: the budget is spent. Forced, it is counted in any case.
	take(forced bool) bool
	// giveBack ends one that was taken.
	giveBack()
}

// retries is the budget of one model's live requests.
type retries struct {
	live, taken int
}

// allowed is how many retries may go on at once.
func (r *retries) allowed() int { return max(retriesMin, r.live*retriesPercent/100) }

// share is one call's part in its model's budget. What it holds when it is closed is given back.
type share struct {
	mu    *sync.Mutex // of the register that all is in
	of    *retries
	taken int
}

func (s *share) take(forced bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !forced && s.of.taken >= s.of.allowed() {
		return false
	}
	s.of.taken++
	s.taken++
	return true
}

func (s *share) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.taken--
	s.taken--
}

// close is called with mu held.
func (s *share) close() {
	s.of.taken -= s.taken
	s.taken = 0
	s.of.live--
}
