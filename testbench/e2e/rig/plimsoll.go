//go:build e2e

package rig

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plimsollEnds is how long bin/plimsoll may take to end.
const plimsollEnds = 3 * time.Second

// StartPlimsoll starts bin/plimsoll serve on a free port, with the arguments, and waits until it is ready. The test's
// folder lies two below testbench.
func StartPlimsoll(t *testing.T, arguments ...string) (url string) {
	t.Helper()
	binary := filepath.Join("..", "..", "..", "bin", "plimsoll")
	_, err := os.Stat(binary)
	require.NoError(t, err, "make build")
	p := Start(t, plimsollEnds, binary, append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, arguments...)...)
	Eventually(t, StartPatience, "plimsoll listens", func() bool {
		require.False(t, p.Over(), "it ended")
		url = listening(p.Log())
		return url != ""
	})
	Eventually(t, StartPatience, "plimsoll is ready", func() bool { return Status(t, url+"/ready") == http.StatusOK })
	return url
}

// listening finds the address in a log.
func listening(log string) string {
	for line := range strings.Lines(log) {
		var entry struct{ Msg, URL string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			return entry.URL
		}
	}
	return ""
}
