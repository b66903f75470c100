package supervise

import (
	"math/rand/v2"
	"time"
)

// Config says how failing actors are restarted.
type Config struct {
	First  time.Duration // delay of the first restart
	Cap    time.Duration // longest delay before jitter
	Window time.Duration // failures further apart than this start anew
	Jitter float64       // share of the delay added at random, 0 to 1
}

// DefaultConfig restarts after 10 ms, then doubles up to 5 s; 30 s without a failure forgives all.
func DefaultConfig() Config {
	return Config{First: 10 * time.Millisecond, Cap: 5 * time.Second, Window: 30 * time.Second, Jitter: 0.2}
}

// Backoff counts one actor's strikes. It is pure: time and randomness are arguments.
type Backoff struct {
	cfg     Config
	strikes int
	last    time.Time
}

// NewBackoff returns a Backoff without strikes.
func NewBackoff(cfg Config) *Backoff { return &Backoff{cfg: cfg} }

// Strike counts a failure and returns how long to wait before the restart.
func (b *Backoff) Strike(now time.Time, rng *rand.Rand) time.Duration {
	if b.strikes > 0 && now.Sub(b.last) > b.cfg.Window {
		b.strikes = 0
	}
	b.strikes++
	b.last = now
	delay := b.cfg.First
	for range b.strikes - 1 {
		if delay >= b.cfg.Cap {
			break
		}
		delay *= 2
	}
	delay = min(delay, b.cfg.Cap)
	return delay + time.Duration(rng.Float64()*b.cfg.Jitter*float64(delay))
}

// Strikes is the number of failures since the last forgiveness.
func (b *Backoff) Strikes() int { return b.strikes }
