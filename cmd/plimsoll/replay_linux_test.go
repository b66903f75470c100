package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReplayThatIsInterrupted says so, and how far it was; no file passes for a whole one.
func TestReplayThatIsInterrupted(t *testing.T) {
	var asked atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := asked.Add(1)
		if n <= 3 {
			_, _ = fmt.Fprint(w, `data: {"choices":[{"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
			return
		}
		if n == 4 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGINT) // the command, which waits for this answer, has taken the signal over
		}
		<-r.Context().Done()
	}))
	defer web.Close()
	figures := filepath.Join(t.TempDir(), "r.json")
	code, out, errs := plimsoll(t, "", "replay", "--trace", "shared-prompt", "--requests", "20", "--speed", "1000", "--target", web.URL, "--json", figures)
	require.Equal(t, 1, code)
	var took string
	var ended int
	_, err := fmt.Sscanf(errs, "plimsoll: interrupted after %s when %d of 20 requests had ended", &took, &ended)
	require.NoError(t, err, errs)
	require.LessOrEqual(t, ended, 3)
	if ended > 0 { // the signal may be quicker than the answers before it
		require.Contains(t, out, "interrupted; of the requests that had ended by then")
		require.Contains(t, out, fmt.Sprintf("shared-prompt, %d requests", ended))
	}
	require.Contains(t, errs, "--json: "+figures+" is not written")
	require.NoFileExists(t, figures)
}
