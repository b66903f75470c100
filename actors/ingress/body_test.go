package ingress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBodyThatDoesNotArrive gives the client a bounded time.
func TestBodyThatDoesNotArrive(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *edge, dial func() net.Conn) {
		t.Helper()
		c := dial()
		start := time.Now()
		_, err := io.WriteString(c, "POST "+pathChat+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"model\":")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 400, resp.StatusCode)
		require.Contains(t, string(body), "did not arrive")
		require.True(t, resp.Close)
		require.Equal(t, e.cfg.BodyTimeout, time.Since(start))
		require.Zero(t, e.bodies.Load())
		require.NoError(t, c.Close())
	})
}

// TestARefusedBodyIsTakenToItsEnd, so that a client that reads only after it has sent everything sees why it was refused.
// The pipe holds nothing: what the server does not read, the client cannot send.
func TestARefusedBodyIsTakenToItsEnd(t *testing.T) {
	const tooMuch, much = 32<<20 + 1, 1 << 20
	for _, c := range []struct {
		name, path, header string
		bytes, status      int
	}{
		{"announced", pathChat, "", tooMuch, 413},
		{"no such path", "/v1/chat", "", much, 404},
		{"other media type", pathChat, "Content-Type: text/plain\r\n", much, 415},
		{"other method", "/v1/models", "", much, 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, _ *edge, dial func() net.Conn) {
				t.Helper()
				conn := dial()
				sent := make(chan error, 1)
				go func() {
					_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s",
						c.path, c.header, c.bytes, make([]byte, c.bytes))
					sent <- err
				}()
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, c.status, resp.StatusCode)
				require.True(t, resp.Close)
				require.NoError(t, resp.Body.Close())
				require.NoError(t, <-sent, "all of it was taken")
				require.NoError(t, conn.Close())
			})
		})
	}
}

// TestARefusedBodyIsNotTakenForEver: a client that goes on without end, or sends nothing more, is cut off.
func TestARefusedBodyIsNotTakenForEver(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *edge, dial func() net.Conn) {
		t.Helper()
		conn := dial()
		start := time.Now()
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", pathChat, 1<<40)
		require.NoError(t, err)
		all, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(all), "413 Request Entity Too Large")
		require.Less(t, time.Since(start), 2*lingerTime)
		require.NoError(t, conn.Close())
	})
}

// TestBodiesAreBoundedTogether: the memory of all bodies has one limit, and it is given back.
func TestBodiesAreBoundedTogether(t *testing.T) {
	cfg := testConfig()
	cfg.BodyBytes, cfg.BodiesBytes = 1<<20, 1<<20
	e := newEdge(t, cfg, newFront(says("x")))
	good := withMember(pathChat, "")
	e.bodies.Store(1 << 20)
	rec := e.do("POST", pathChat, good)
	require.Equal(t, 429, rec.Code)
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	e.bodies.Store(0)
	require.Equal(t, 200, e.do("POST", pathChat, good).Code)
	require.Equal(t, 200, e.do("POST", pathChat, withMember(pathChat, `"user":"`+strings.Repeat("x", 500_000)+`"`)).Code)
	require.Zero(t, e.bodies.Load())
}
