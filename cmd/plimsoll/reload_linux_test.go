package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reloading is a serve whose configuration file lists replicas, with an operators' port.
type reloading struct {
	*server

	admin string
	file  string
	said  []string // the engines' URLs, in the order of their names
}

// lists writes the file: replicas of these numbers, and lines of its own.
func (r *reloading) lists(t *testing.T, more string, numbers ...int) {
	t.Helper()
	lines := make([]string, len(numbers))
	for i, n := range numbers {
		lines[i] = "- vllm=" + r.said[n] + ",name=engine-" + string(rune('a'+n)) + "\n"
	}
	text := "tokenizer: " + modelDir + "\nmodel: plimsoll-sim\n" + more + "replica:\n" + strings.Join(lines, "")
	require.NoError(t, os.WriteFile(r.file, []byte(text), 0o600))
}

// hup has it reload, and returns once it has said how that went.
func (r *reloading) hup(t *testing.T, says string) {
	t.Helper()
	r.signal(t, syscall.SIGHUP)
	r.awaitLog(t, says)
}

// await waits until exactly these replicas are there, all of them ready.
func (r *reloading) await(t *testing.T, names ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var there []string
		for name, e := range r.engines(t, r.admin) {
			if e.State != "ready" {
				return false
			}
			there = append(there, name)
		}
		slices.Sort(there)
		return slices.Equal(names, there)
	}, time.Minute, 10*time.Millisecond, "%v", names)
}

func startReloading(t *testing.T, engines int, numbers ...int) *reloading {
	t.Helper()
	r := &reloading{file: filepath.Join(t.TempDir(), "plimsoll.yaml")}
	for range engines {
		r.said = append(r.said, launch(t, "sim", "--faults", "on").url)
	}
	r.lists(t, "", numbers...)
	r.server = start(t, "--config", r.file, "--admin-listen", "127.0.0.1:0")
	r.admin = r.operatorsURL(t)
	return r
}

// A file that is read again adds and removes replicas while an answer runs on one that leaves; what an operator has added is his.
func TestSIGHUPReadsTheReplicaListAgain(t *testing.T) {
	r := startReloading(t, 4, 0)
	r.await(t, "engine-a")
	faults := func(body string) {
		engine := server{url: r.said[0]}
		code, text := engine.status(t, http.MethodPut, "/faults", body)
		require.Equal(t, http.StatusOK, code, text)
	}
	faults(`{"hang_after_tokens":1}`)
	running := r.stream(t, "20")
	operators := server{url: r.admin}
	code, body := operators.status(t, http.MethodPost, "/admin/replicas", `{"replica":"vllm=`+r.said[3]+`,name=own"}`)
	require.Equal(t, http.StatusCreated, code, body)

	r.lists(t, "", 1, 2, 3) // the last is the operator's
	r.hup(t, `"msg":"reloaded"`)
	require.Eventually(t, func() bool { return r.engines(t, r.admin)["engine-a"].State == "draining" }, time.Minute, time.Millisecond)
	faults(`{}`)
	whole(t, running)
	r.await(t, "engine-b", "engine-c", "own")

	r.lists(t, "", 2)
	r.hup(t, `"msg":"reloaded"`)
	r.await(t, "engine-c", "own")
	r.hup(t, `"msg":"reloaded"`)
	r.await(t, "engine-c", "own")

	code, body = operators.status(t, http.MethodDelete, "/admin/replicas/engine-c", "")
	require.Equal(t, http.StatusAccepted, code, body)
	r.await(t, "own")
	r.hup(t, `"msg":"reloaded"`)
	r.await(t, "own")
}

// Whatever is wrong with one part, no other part is used.
func TestABrokenFileChangesNothing(t *testing.T) {
	r := startReloading(t, 2, 0)
	r.await(t, "engine-a")
	good, err := os.ReadFile(r.file)
	require.NoError(t, err)
	listing := string(good) + "- vllm=" + r.said[1] + ",name=engine-b\n"
	for name, c := range map[string]struct{ text, want string }{
		"half a line":          {"replica: [", "plimsoll.yaml"},
		"a word that is none":  {listing + "polcy: random\n", "do you mean policy?"},
		"a replica of nothing": {listing + "- http://127.0.0.1:1\n", "does not say what engine it is"},
		"an engine twice":      {listing + "- vllm=" + strings.Replace(r.said[1], "127.0.0.1", "localhost", 1) + ",name=c\n", "same engine"},
		"a name that is there": {strings.Replace(listing, "name=engine-b", "name=engine-a", 1), "two replicas are named"},
		"a key that is not":    {listing + "- vllm=http://127.0.0.1:1,api-key-env=NO_SUCH_VARIABLE\n", "NO_SUCH_VARIABLE"},
		"nothing at all":       {"", "lists no replica any more"},
	} {
		require.NoError(t, os.WriteFile(r.file, []byte(c.text), 0o600), name)
		r.signal(t, syscall.SIGHUP)
		line := r.awaitLine(t, "nothing was reloaded")
		require.Contains(t, line, c.want, name)
	}
	require.Len(t, r.engines(t, r.admin), 1)
	require.NoError(t, os.Remove(r.file))
	r.hup(t, "nothing was reloaded")
	r.await(t, "engine-a")
}

// Settings that apply at a start are named, and those of the list are used.
func TestAReloadSaysWhatWaitsForTheNextStart(t *testing.T) {
	r := startReloading(t, 2, 0)
	r.lists(t, "policy: random\nqueue-timeout: 3s\n", 0, 1)
	r.signal(t, syscall.SIGHUP)
	require.Contains(t, r.awaitLine(t, "apply at the next start"), `["policy","queue-timeout"]`)
	r.await(t, "engine-a", "engine-b")
}

// A list that a flag gives is no file's to change.
func TestAReloadLeavesReplicasOfFlagsAlone(t *testing.T) {
	engine := launch(t, "sim")
	file := fileOf(t, "tokenizer: "+modelDir+"\nreplica:\n- vllm=http://127.0.0.1:1,name=other\n")
	s := start(t, "--config", *file, "--replica", "vllm="+engine.url+",name=own", "--admin-listen", "127.0.0.1:0")
	r := &reloading{server: s, admin: s.operatorsURL(t)}
	r.await(t, "own")
	require.NoError(t, os.WriteFile(*file, []byte("tokenizer: "+modelDir+"\n"), 0o600))
	r.hup(t, `"msg":"reloaded"`)
	r.await(t, "own")
}
