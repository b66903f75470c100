package llamacpp

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Config says where a llama-server is and what it does not tell itself.
type Config struct {
	URL    string // http or https, with host; a path is put before the server's own (its --api-prefix)
	APIKey string // sent as a bearer token; "" sends none

	// CapacityTokens is how many tokens of KV all slots hold together: n_ctx times the slots if the server was started
	// with -np N. nil: n_ctx of one slot, which is right for the unified pool and safe for all.
	CapacityTokens *int
	Slots          *int // sequences decoded at once; nil: what the server says
	BlockTokens    int  // tokens counted as one block

	DialTimeout    time.Duration // until a connection stands; longer means that nobody listens
	ProbeTimeout   time.Duration // a whole probe
	MetricsTimeout time.Duration // the part of a probe that waits for the server's main loop; longer leaves the load unknown
	IdleTimeout    time.Duration // unused connections are closed after this; less than the server's 5 s
	LingerBound    time.Duration // how long an aborted request may still hold its KV: one batch of prompt (n_batch tokens)

	AnswerBytes int // longest answer that is not a stream
	FrameBytes  int // longest frame of a stream; the last one repeats the whole prompt as text
}

// DefaultConfig holds everything but the URL.
func DefaultConfig() Config {
	return Config{
		BlockTokens:    16,
		DialTimeout:    3 * time.Second,
		ProbeTimeout:   5 * time.Second,
		MetricsTimeout: 2 * time.Second,
		IdleTimeout:    4 * time.Second,
		LingerBound:    3 * time.Second,
		AnswerBytes:    4 << 20,
		FrameBytes:     16 << 20,
	}
}

// Validate says what is wrong, all of it, by field.
func (c Config) Validate() error {
	_, err := parseURL(c.URL)
	errs := []error{err}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"DialTimeout", c.DialTimeout},
		{"ProbeTimeout", c.ProbeTimeout},
		{"MetricsTimeout", c.MetricsTimeout},
		{"IdleTimeout", c.IdleTimeout},
		{"LingerBound", c.LingerBound},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("%s is %v: want more than 0", d.name, d.value))
		}
	}
	for _, n := range []struct {
		name  string
		value *int
	}{
		{"CapacityTokens", c.CapacityTokens},
		{"Slots", c.Slots},
		{"BlockTokens", &c.BlockTokens},
		{"AnswerBytes", &c.AnswerBytes},
		{"FrameBytes", &c.FrameBytes},
	} {
		if n.value != nil && *n.value < 1 {
			errs = append(errs, fmt.Errorf("%s is %d: want at least 1", n.name, *n.value))
		}
	}
	if c.CapacityTokens != nil && *c.CapacityTokens < c.BlockTokens {
		errs = append(errs, fmt.Errorf("CapacityTokens is %d: less than one block of %d", *c.CapacityTokens, c.BlockTokens))
	}
	return errors.Join(errs...)
}

// parseURL returns the address to put before a path. It never repeats the address in an error: it may hold a secret.
func parseURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return "", errors.New("URL is missing")
	case err != nil:
		return "", errors.New("URL cannot be parsed")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("URL has scheme %q: want http or https", u.Scheme)
	case u.Hostname() == "":
		return "", errors.New("URL has no host")
	case u.User != nil:
		return "", errors.New("URL holds a user or password: use APIKey")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("URL has a query or a fragment")
	}
	return u.JoinPath("/").String(), nil
}
