package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFieldInput18AReplicaThatIsRemovedAtOnceIsGone adds a replica and removes it on the same connection, 60 times: each order
// that was answered is carried out, however soon it came after the one before.
func TestFieldInput18AReplicaThatIsRemovedAtOnceIsGone(t *testing.T) {
	operators := freePorts(t, 1)[0]
	s := start(t, "--replica", "sim=tiny,name=stays", "--admin-listen", "127.0.0.1:"+operators)
	s.awaitReady(t)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	t.Cleanup(client.CloseIdleConnections)
	order := func(method, path, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:"+operators+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body) // else the connection is not used again
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	for i := range 60 {
		name := fmt.Sprintf("comes-%d", i)
		require.Equal(t, http.StatusCreated, order(http.MethodPost, "/admin/replicas", `{"replica":"sim=tiny,name=`+name+`"}`))
		require.Equal(t, http.StatusAccepted, order(http.MethodDelete, "/admin/replicas/"+name, ""))
	}
	admin := server{url: "http://127.0.0.1:" + operators}
	var body string
	require.Eventually(t, func() bool {
		_, body = admin.status(t, http.MethodGet, "/admin/replicas", "")
		return !strings.Contains(body, "comes")
	}, time.Minute, 10*time.Millisecond, "these stay: %s", &body)
	require.Contains(t, body, "stays")
}
