package quota

import (
	"errors"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// Limits are what a tenant may have in a minute; nil: as much as it likes.
type Limits struct{ RequestsPerMinute, TokensPerMinute *int }

// Validate reports what makes no sense.
func (l Limits) Validate() error {
	for _, n := range []*int{l.RequestsPerMinute, l.TokensPerMinute} {
		if n != nil && *n < 1 {
			return errors.New("a quota must be at least 1 a minute")
		}
	}
	return nil
}

// Bound names what a tenant has used up.
type Bound uint8

// Bounds of a quota.
const (
	Requests Bound = iota
	Tokens

	NumBounds
)

// String is the word used in errors.
func (b Bound) String() string {
	switch b {
	case Requests:
		return "requests"
	case Tokens:
		return "tokens"
	case NumBounds:
	}
	return "unknown"
}

// Refusal says what a tenant has used up, and when to come again.
type Refusal struct {
	Bound     Bound
	PerMinute int
	Wait      time.Duration
}

// Quota is one tenant's account. The nil Quota has no limits.
type Quota struct{ requests, tokens *bucket }

// New returns an account that nothing was taken from, or nil for no limits.
func New(l Limits) *Quota {
	if l.RequestsPerMinute == nil && l.TokensPerMinute == nil {
		return nil
	}
	return &Quota{requests: newBucket(l.RequestsPerMinute), tokens: newBucket(l.TokensPerMinute)}
}

// Admit lets one request in, which counts from now on, or says why not: then nothing is counted.
func (q *Quota) Admit(now time.Time) *Refusal {
	if q == nil {
		return nil
	}
	if wait := q.tokens.until(now, 1); wait > 0 {
		return &Refusal{Tokens, q.tokens.perMinute, wait}
	}
	if q.requests != nil && !q.requests.limiter.AllowN(now, 1) {
		return &Refusal{Requests, q.requests.perMinute, q.requests.until(now, 1)}
	}
	return nil
}

// Charge takes the tokens of a request that was let in, prompt and answer.
func (q *Quota) Charge(now time.Time, tokens int) {
	if q == nil || q.tokens == nil {
		return
	}
	for tokens > 0 {
		n := min(tokens, q.tokens.perMinute) // more at once than it holds it does not give
		q.tokens.limiter.ReserveN(now, n)
		tokens -= n
	}
}

// bucket holds a minute's worth. The nil bucket is never empty.
type bucket struct {
	perMinute int
	limiter   *rate.Limiter
}

func newBucket(perMinute *int) *bucket {
	if perMinute == nil {
		return nil
	}
	return &bucket{*perMinute, rate.NewLimiter(rate.Limit(float64(*perMinute)/60), *perMinute)}
}

// until is how long it takes until the bucket holds so much.
func (b *bucket) until(now time.Time, n float64) time.Duration {
	if b == nil {
		return 0
	}
	missing := n - b.limiter.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	seconds := missing / float64(b.limiter.Limit())
	return time.Duration(min(math.Ceil(seconds*1e9), math.MaxInt64/2))
}
