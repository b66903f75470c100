//go:build e2e

package llamacpp

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/e2e/rig"
)

// engineEnds is how long a llama-server may take to end.
const engineEnds = 3 * time.Second

// engineServer is one llama-server.
type engineServer struct {
	*rig.Process
	name, url string
}

// startEngine starts one and waits until it serves.
func startEngine(t *testing.T, name string) *engineServer {
	t.Helper()
	port := rig.FreePort(t)
	e := &engineServer{rig.Start(t, engineEnds, "./engine.sh", "run", port), name, "http://127.0.0.1:" + port}
	rig.Eventually(t, rig.StartPatience, "llama-server "+name+" serves", func() bool {
		require.False(t, e.Over(), "it ended")
		return rig.Status(t, e.url+"/health") == http.StatusOK
	})
	return e
}

// startPlimsoll starts bin/plimsoll before the engines and waits until it is ready.
func startPlimsoll(t *testing.T, tokenizer string, engines ...*engineServer) (url string) {
	t.Helper()
	arguments := []string{"--tokenizer", tokenizer}
	for _, e := range engines {
		arguments = append(arguments, "--replica", fmt.Sprintf("llamacpp=%s,name=%s,capacity-tokens=4096", e.url, e.name))
	}
	return rig.StartPlimsoll(t, arguments...)
}

// tokenizerDir installs everything and returns the folder of the model's tokenizer.
func tokenizerDir(ctx context.Context, t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, "./engine.sh", "tokenizer")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
