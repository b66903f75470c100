//go:build e2e

package vllm

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/vllm"
	"plimsoll/testbench/e2e/rig"
)

// engineEnds is how long a server may take to end once its streams are done.
const engineEnds = 30 * time.Second

// engineServer is one vLLM server.
type engineServer struct {
	*rig.Process
	name, url string
}

// startEngine starts one; await says when it serves.
func startEngine(t *testing.T, name string, flags ...string) *engineServer {
	t.Helper()
	return startEngineAt(t, rig.FreePort(t), name, flags...)
}

func startEngineAt(t *testing.T, port, name string, flags ...string) *engineServer {
	t.Helper()
	return &engineServer{
		rig.Start(t, engineEnds, "./engine.sh", append([]string{"run", port}, flags...)...), name, "http://127.0.0.1:" + port,
	}
}

func (e *engineServer) await(t *testing.T) {
	t.Helper()
	rig.Eventually(t, rig.StartPatience, "vLLM "+e.name+" serves", func() bool {
		require.False(t, e.Over(), "it ended")
		return rig.Status(t, e.url+"/health") == http.StatusOK
	})
}

// openAdapter returns the adapter for a server, closed with the test.
func openAdapter(t *testing.T, e *engineServer, api vllm.API) *vllm.Engine {
	t.Helper()
	cfg := vllm.DefaultConfig()
	cfg.URL, cfg.API = e.url, api
	adapter, err := vllm.New(cfg, vllm.Deps{Dial: (&net.Dialer{}).DialContext, Log: slog.New(slog.DiscardHandler), Entropy: rand.Uint64})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, adapter.Close()) })
	return adapter
}

// startPlimsoll starts bin/plimsoll before the engines and waits until it is ready.
func startPlimsoll(t *testing.T, model string, a, b *engineServer) (url string) {
	t.Helper()
	return rig.StartPlimsoll(
		t, "--tokenizer", model,
		"--replica", fmt.Sprintf("vllm=%s,name=%s,slots=16", a.url, a.name),
		"--replica", fmt.Sprintf("vllm=%s,name=%s,slots=16,api=auto", b.url, b.name),
	)
}

// modelDir installs everything and returns the folder of the model.
func modelDir(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./engine.sh", "model")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
