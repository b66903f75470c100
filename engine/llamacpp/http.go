package llamacpp

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

const (
	idleConnectionsMax = 64
	readBufferBytes    = 4096
)

// newClient returns a client that goes straight to the server: no proxy, no redirect, no compression, no timeout of its
// own beside those for connections.
func newClient(cfg Config, deps Deps) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
				defer cancel()
				conn, err := deps.Dial(ctx, network, address)
				if err != nil {
					return nil, &dialError{err}
				}
				return conn, nil
			},
			TLSHandshakeTimeout: cfg.DialTimeout,
			IdleConnTimeout:     cfg.IdleTimeout,
			MaxIdleConnsPerHost: idleConnectionsMax,
			DisableCompression:  true,
			ReadBufferSize:      readBufferBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// do sends a request; body nil means GET. Any answer is a response, whatever its status. The server closes connections
// that were unused for 5 s, at worst just as a request goes out: if a kept connection ends before any byte of an answer,
// the request is sent once more, over a new one.
func (e *Engine) do(ctx context.Context, path string, body []byte) (*http.Response, error) {
	resp, stale, err := e.try(ctx, path, body)
	if err == nil || !stale || ctx.Err() != nil {
		return resp, err
	}
	e.client.CloseIdleConnections() // those kept as long are as stale
	resp, _, err = e.try(ctx, path, body)
	return resp, err
}

// try sends a request once. stale is whether it went out on a kept connection from which no byte of an answer came.
func (e *Engine) try(ctx context.Context, path string, body []byte) (resp *http.Response, stale bool, err error) {
	var reused, answered atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(info httptrace.GotConnInfo) { reused.Store(info.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	method, payload := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, payload = http.MethodPost, bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, e.base+path, payload)
	if err != nil {
		return nil, false, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if e.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+e.cfg.APIKey)
	}
	resp, err = e.client.Do(req)
	return resp, reused.Load() && !answered.Load(), err
}
