package admin

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/ingress"
	"plimsoll/testbench/pipes"
)

// inBubble runs a test against a served edge under a virtual clock.
func inBubble(t *testing.T, test func(t *testing.T, c net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, s := pipes.New(0), NewServer(edge(true), slog.New(slog.DiscardHandler))
		served := make(chan error, 1)
		go func() { served <- s.Serve(p) }()
		c := p.Dial()
		test(t, c)
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}

// TestConnectionsAreNotKeptForEver by one that begins something and does not go on with it.
func TestConnectionsAreNotKeptForEver(t *testing.T) {
	bounds := ingress.DefaultConfig()
	gone := func(t *testing.T, c net.Conn, after time.Duration) {
		t.Helper()
		began := time.Now()
		_, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, after, time.Since(began))
	}
	t.Run("nothing asked", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c net.Conn) { gone(t, c, bounds.ReadHeaderTimeout) })
	})
	t.Run("nothing more asked", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c net.Conn) {
			_, err := io.WriteString(c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
			gone(t, c, bounds.IdleTimeout)
		})
	})
	for _, path := range []string{"/admin/replicas", "/debug/decisions"} {
		t.Run("half a body for "+path, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c net.Conn) {
				began := time.Now()
				_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"replica\":", path)
				require.NoError(t, err)
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				require.NoError(t, err)
				said, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, bounds.BodyTimeout, time.Since(began))
				require.Equal(t, http.StatusBadRequest, resp.StatusCode)
				require.Contains(t, string(said), "did not arrive")
				require.True(t, resp.Close)
			})
		})
	}
}

// TestOtherMethods are told which there are.
func TestOtherMethods(t *testing.T) {
	for _, tc := range []struct{ method, path, allow string }{
		{http.MethodPut, "/admin/replicas", "GET, POST"},
		{http.MethodDelete, "/admin/replicas", "GET, POST"},
		{http.MethodPatch, "/admin/replicas/a/b", "DELETE, POST"},
		{http.MethodGet, "/admin/replicas/a", "DELETE, POST"},
		{http.MethodPost, "/health", "GET"},
		{http.MethodPost, "/metrics", "GET"},
		{http.MethodOptions, "/debug/decisions", "GET, POST"},
		{http.MethodPost, "/debug/decisions/x", "GET"},
		{http.MethodPut, "/admin/replicas/a", "DELETE, POST"},
	} {
		w := asked(t, tc.method, tc.path)
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", tc.method, tc.path)
		require.Equal(t, tc.allow, w.Header().Get("Allow"), "%s %s", tc.method, tc.path)
	}
	require.Equal(t, http.StatusOK, asked(t, http.MethodHead, "/health").Code)
	require.Equal(t, http.StatusNotFound, asked(t, http.MethodPut, "/nowhere").Code)
}

// TestPathsAreTakenAsTheyStand: no redirect sends an order elsewhere, where it would come without its body or as another.
func TestPathsAreTakenAsTheyStand(t *testing.T) {
	for _, path := range []string{"/admin/./replicas", "/admin/x/../replicas", "/admin/replicas/../replicas/a/drain"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			w := asked(t, method, path)
			require.Equal(t, http.StatusNotFound, w.Code, "%s %s", method, path)
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		}
	}
}

// TestOneSlashTooMany is taken out, as at the clients' edge.
func TestOneSlashTooMany(t *testing.T) {
	for _, path := range []string{"//admin/replicas", "/admin//replicas", "/admin/replicas/", "//admin///replicas//"} {
		require.Equal(t, http.StatusOK, asked(t, http.MethodGet, path).Code, path)
	}
}

func asked(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody)
	r.URL.Path = path
	edge(true).ServeHTTP(w, r)
	return w
}
