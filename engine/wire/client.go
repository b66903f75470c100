package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"plimsoll/engine"
)

const (
	idleConnectionsMax = 64
	readBufferBytes    = 4096
)

// ErrClosed is why calls of a closed client fail.
var ErrClosed = errors.New("the engine is closed")

// Dial opens a connection, as (*net.Dialer).DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Client speaks to one server.
type Client struct {
	cfg  Config
	base string // the server's address, ends in /
	http *http.Client
	once *http.Client // each of its requests has a connection of its own

	peer    peer
	closed  atomic.Bool
	closing func()                       // cancels every running call
	onClose func(f func()) (stop func()) // runs f once closing is called
}

// New checks the configuration. It does not connect.
func New(cfg Config, dial Dial) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if dial == nil {
		return nil, errors.New("Dial is missing")
	}
	base, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	return &Client{
		cfg:     cfg,
		base:    base,
		http:    newHTTP(cfg, dial, true),
		once:    newHTTP(cfg, dial, false),
		closing: cancel,
		onClose: func(f func()) func() {
			stop := context.AfterFunc(life, f)
			return func() { stop() }
		},
	}, nil
}

// newHTTP returns a client that goes straight to the server: no proxy, no redirect, no compression, no timeout of its own
// beside those for connections. It keeps its connections for later requests, or not.
func newHTTP(cfg Config, dial Dial, keep bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
				defer cancel()
				conn, err := dial(ctx, network, address)
				if err != nil {
					return nil, &dialError{err}
				}
				return conn, nil
			},
			TLSHandshakeTimeout: cfg.DialTimeout,
			IdleConnTimeout:     cfg.IdleTimeout,
			MaxIdleConnsPerHost: idleConnectionsMax,
			DisableCompression:  true,
			DisableKeepAlives:   !keep,
			ReadBufferSize:      readBufferBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close releases the connections. Running calls fail with [ErrClosed].
func (c *Client) Close() {
	c.closed.Store(true)
	c.closing()
	c.http.CloseIdleConnections()
}

// Begin returns the context of one call, which ends with ctx, with done or with the client.
func (c *Client) Begin(ctx context.Context) (call context.Context, done func()) {
	call, cancel := context.WithCancel(ctx)
	if c.closed.Load() {
		cancel()
	}
	stop := c.onClose(cancel)
	return call, func() {
		stop()
		cancel()
	}
}

// Verdict turns what ended a call into what the call returns: the error of its context, else a failure.
func (c *Client) Verdict(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case c.closed.Load():
		return &engine.Failure{Kind: engine.Broken, Err: ErrClosed}
	}
	return transportFailure(err)
}

// Get returns header and body of an answer with status 200; any other answer is a failure.
func (c *Client) Get(ctx context.Context, path string) (http.Header, []byte, error) {
	return c.exchange(ctx, Request{Path: path})
}

// Post sends JSON and returns what Get does.
func (c *Client) Post(ctx context.Context, path string, body []byte) ([]byte, error) {
	_, answer, err := c.exchange(ctx, Request{Path: path, Body: body})
	return answer, err
}

func (c *Client) exchange(ctx context.Context, r Request) (http.Header, []byte, error) {
	resp, err := c.do(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.cfg.AnswerBytes)+1))
	switch {
	case err != nil:
		return nil, nil, err
	case resp.StatusCode != http.StatusOK && r.Body == nil:
		return nil, nil, c.refused(r.Path, statusFailure(resp, body))
	case resp.StatusCode != http.StatusOK:
		return nil, nil, statusFailure(resp, body)
	case len(body) > c.cfg.AnswerBytes:
		return nil, nil, Broken("/%s: answer longer than %d bytes", r.Path, c.cfg.AnswerBytes)
	}
	return resp.Header, body, nil
}

// Request is what goes to the server.
type Request struct {
	Path   string
	Body   []byte      // JSON; nil means GET
	Header http.Header // beside those of the client; nil for none
}

// do sends a request. Any answer is a response, whatever its status. If a kept connection ends before any byte of an
// answer, the request is sent once more, over a new one.
func (c *Client) do(ctx context.Context, r Request) (*http.Response, error) {
	resp, stale, err := c.try(ctx, c.http, r)
	if err == nil || !stale || ctx.Err() != nil {
		return resp, err
	}
	// Those kept as long are as stale, and another call may put its own back before this one is sent again.
	c.http.CloseIdleConnections()
	resp, _, err = c.try(ctx, c.once, r)
	return resp, err
}

// try sends a request once. stale is whether it went out on a kept connection from which no byte of an answer came.
func (c *Client) try(ctx context.Context, by *http.Client, r Request) (resp *http.Response, stale bool, err error) {
	var reused, answered atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			reused.Store(info.Reused)
			c.peer.connected(info.Conn)
		},
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	method, payload := http.MethodGet, io.Reader(nil)
	if r.Body != nil {
		method, payload = http.MethodPost, bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+r.Path, payload)
	if err != nil {
		return nil, false, err
	}
	for key, values := range r.Header {
		req.Header[key] = values
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.APIKey)
	}
	resp, err = by.Do(req)
	return resp, reused.Load() && !answered.Load(), err
}
