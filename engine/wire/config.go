package wire

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Config says where a server is and how patient we are with it.
type Config struct {
	URL    string   // http or https, with host; a path is put before the server's own
	Kind   string   // of server that is expected there, for errors; the adapter sets it
	Kinds  []string // that the operator may choose from, for errors; nil: they are not listed
	APIKey string   // sent as a bearer token; "" sends none

	DialTimeout  time.Duration // until a connection stands; longer means that nobody listens
	ProbeTimeout time.Duration // a whole probe, at most: who asks may have less time
	IdleTimeout  time.Duration // unused connections are closed after this; less than the server's 5 s
	EndTimeout   time.Duration // from a stream's finish to what comes after it (usage); longer does without

	AnswerBytes int // longest answer that is not a stream
	FrameBytes  int // longest frame of a stream
}

// DefaultConfig holds everything but the URL.
func DefaultConfig() Config {
	return Config{
		DialTimeout:  3 * time.Second,
		ProbeTimeout: 30 * time.Second,
		IdleTimeout:  4 * time.Second,
		EndTimeout:   time.Second,
		AnswerBytes:  4 << 20,
		FrameBytes:   16 << 20,
	}
}

// Validate says what is wrong, all of it, by field.
func (c Config) Validate() error {
	_, err := parseURL(c.URL)
	return errors.Join(
		err,
		PositiveDuration("DialTimeout", c.DialTimeout),
		PositiveDuration("ProbeTimeout", c.ProbeTimeout),
		PositiveDuration("IdleTimeout", c.IdleTimeout),
		PositiveDuration("EndTimeout", c.EndTimeout),
		AtLeastOne("AnswerBytes", &c.AnswerBytes),
		AtLeastOne("FrameBytes", &c.FrameBytes),
	)
}

// PositiveDuration complains of a field that is not above 0.
func PositiveDuration(field string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%s is %v: want more than 0", field, d)
	}
	return nil
}

// AtLeastOne complains of a field that is set and below 1.
func AtLeastOne(field string, n *int) error {
	if n != nil && *n < 1 {
		return fmt.Errorf("%s is %d: want at least 1", field, *n)
	}
	return nil
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
