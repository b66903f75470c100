package ingress

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
	"plimsoll/scoring/quota"
)

// Config holds the edge's limits and keys.
type Config struct {
	// APIKeys are what clients show. Empty: everybody may call. A key's name becomes the request's tenant.
	APIKeys Keys
	// Quotas are what tenants may have in a minute, by their names; who is not named has no limit.
	Quotas map[string]quota.Limits
	// SLOs are how fast answers of a class have to come whose clients do not say it themselves.
	SLOs map[queue.Class]stream.SLO
	// SystemFingerprint stands in every answer; it is constant for a node's life.
	SystemFingerprint string

	// TLS is the node's certificate; nil serves in clear text.
	TLS *Certificate
	// Origins are those whose pages a browser lets read answers, or "*" for all of them; none: pages of other origins are kept out.
	Origins []string

	BodyBytes   int64         // longest request body
	BodiesBytes int64         // request bodies held in memory at once, over all requests
	BodyTimeout time.Duration // how long a body may take to arrive
	LegsMax     int           // answers of one request: prompts x n

	ReadHeaderTimeout time.Duration
	IdleTimeout       time.Duration // of a kept-alive connection between two requests
	HeaderBytes       int           // longest request header
	ConnectionsMax    int           // open connections; more wait in the kernel's queue

	// EarlyHeaders is how long a stream waits for its first token or a definitive error before it sends status 200.
	EarlyHeaders time.Duration
	// KeepAlive is the longest silence on a stream whose headers are out: then a comment is sent.
	KeepAlive time.Duration
	// ClientStall is how long a client may take nothing before it is cut off.
	ClientStall time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		SystemFingerprint: "plimsoll",
		BodyBytes:         32 << 20, BodiesBytes: 1 << 30, BodyTimeout: time.Minute, LegsMax: 256,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, HeaderBytes: 64 << 10, ConnectionsMax: 16384,
		EarlyHeaders: 15 * time.Second, KeepAlive: 10 * time.Second, ClientStall: 30 * time.Second,
	}
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	for name, several := range c.APIKeys {
		if name == "" || len(several) == 0 || slices.Contains(several, "") {
			return errors.New("ingress: an API key needs a name and a value")
		}
	}
	for name, limits := range c.Quotas {
		if err := limits.Validate(); err != nil {
			return fmt.Errorf("ingress: tenant %q: %w", name, err)
		}
	}
	for class, aim := range c.SLOs {
		if class >= queue.NumClasses || aim.TTFT != nil && *aim.TTFT <= 0 || aim.TPOT != nil && *aim.TPOT <= 0 {
			return fmt.Errorf("ingress: the SLO of class %s must be positive", class)
		}
	}
	if c.BodyBytes < 1 || c.BodiesBytes < c.BodyBytes {
		return fmt.Errorf("ingress: BodyBytes (%d) must be at least 1 and at most BodiesBytes (%d)", c.BodyBytes, c.BodiesBytes)
	}
	if c.LegsMax < 1 || c.HeaderBytes < 1 || c.ConnectionsMax < 1 {
		return errors.New("ingress: LegsMax, HeaderBytes and ConnectionsMax must be at least 1")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"BodyTimeout", c.BodyTimeout},
		{"ReadHeaderTimeout", c.ReadHeaderTimeout},
		{"IdleTimeout", c.IdleTimeout},
		{"EarlyHeaders", c.EarlyHeaders},
		{"KeepAlive", c.KeepAlive},
		{"ClientStall", c.ClientStall},
	} {
		if d.value <= 0 {
			return fmt.Errorf("ingress: %s must be positive, it is %v", d.name, d.value)
		}
	}
	return nil
}
