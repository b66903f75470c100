//go:build e2e

package llamacpp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sse"
	"plimsoll/testbench/e2e/rig"
)

// launched are two servers that Plimsoll has started itself, each behind a recorder.
type launched struct {
	url, admin string
	folder     string // of the recorders' notes
}

// launchTwo starts Plimsoll, which starts two servers by a command of engine.sh, and waits for both. Their slots hold so many
// tokens together.
func launchTwo(t *testing.T, tokenizer, command string, capacityTokens int, arguments ...string) *launched {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	script, err := filepath.Abs("engine.sh")
	require.NoError(t, err)
	f := &launched{admin: "127.0.0.1:" + rig.FreePort(t), folder: t.TempDir()}
	config := filepath.Join(f.folder, "plimsoll.yaml")
	text, err := json.Marshal(map[string]any{"launch": []any{map[string]any{ // JSON is YAML
		"kind": "llamacpp", "name": "own", "count": 2, "log-file": filepath.Join(f.folder, "{name}.log"),
		"capacity-tokens": capacityTokens,
		"command":         []string{self, "record", "{port}", "{name}", f.folder, script, command},
	}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config, text, 0o600))
	f.url = rig.StartPlimsoll(t, append([]string{"--config", config, "--tokenizer", tokenizer, "--admin-listen", f.admin, "--launch-grace", "2s"}, arguments...)...)
	for _, name := range names() {
		rig.Eventually(t, rig.StartPatience, name+" serves", func() bool { return f.engine(t, name).serves(1) })
	}
	return f
}

func names() []string { return []string{"own-1", "own-2"} }

// startedEngine is what the operators' edge says of an engine.
type startedEngine struct {
	Name, State string
	Process     struct {
		Phase    string
		PID      int
		Port     int
		Starts   int
		LastExit string `json:"last_exit"`
	}
}

func (e startedEngine) serves(start int) bool {
	return e.State == "ready" && e.Process.Phase == "serving" && e.Process.Starts == start
}

func (f *launched) engine(t *testing.T, name string) startedEngine {
	t.Helper()
	report := rig.As[struct{ Replicas []startedEngine }](t, rig.Exchange(t, http.MethodGet, "http://"+f.admin+"/admin/replicas", nil))
	i := slices.IndexFunc(report.Replicas, func(e startedEngine) bool { return e.Name == name })
	require.GreaterOrEqual(t, i, 0)
	return report.Replicas[i]
}

// server is the process ID of the llama-server behind a recorder.
func (f *launched) server(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.folder, name+".pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(text))
	require.NoError(t, err)
	return pid
}

// answer is a completion as its client saw it.
type answer struct {
	replica   string // that began it
	text      string
	finish    string
	prompt    int
	completed int
}

// unspoken forbids the tiny model's control tokens, the last of its vocabulary: they are text to one side and none to the
// other.
func unspoken() map[string]int {
	const first, after = 4089, 4096
	bias := map[string]int{}
	for id := first; id < after; id++ {
		bias[strconv.Itoa(id)] = -100
	}
	return bias
}

// complete streams a completion of exactly as many tokens, greedily. onText hears of each piece.
func (f *launched) complete(ctx context.Context, model string, prompt []uint32, tokens int, onText func(replica, sofar string)) (answer, error) {
	body, err := json.Marshal(map[string]any{
		"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": true, "stream": true,
		"stream_options": map[string]bool{"include_usage": true}, "logit_bias": unspoken(),
	})
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close() //nolint:errcheck // only read from
	a := answer{replica: res.Header.Get("X-Plimsoll-Replica")}
	frames := sse.NewReader(res.Body, sse.DefaultLimits())
	for {
		event, err := frames.Next()
		if err != nil {
			return a, fmt.Errorf("status %d: %w", res.StatusCode, err)
		}
		if string(event.Data) == "[DONE]" {
			return a, nil
		}
		if err := a.take(event.Data); err != nil {
			return a, err
		}
		onText(a.replica, a.text)
	}
}

func (a *answer) take(data []byte) error {
	var chunk struct {
		Error   json.RawMessage
		Choices []struct {
			Text   string
			Finish string `json:"finish_reason"`
		}
		Usage *struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal(data, &chunk); err != nil {
		return err
	}
	if chunk.Error != nil {
		return errors.New(string(chunk.Error))
	}
	for _, c := range chunk.Choices {
		a.text += c.Text
		if c.Finish != "" {
			a.finish = c.Finish
		}
	}
	if chunk.Usage != nil {
		a.prompt, a.completed = chunk.Usage.Prompt, chunk.Usage.Completion
	}
	return nil
}

// joint is what proved an answer.
type joint struct {
	attempts int
	carried  int  // tokens that went into a later attempt's prompt
	exact    bool // their IDs are all known: the server loses those inside a character of several tokens
}

// prove checks an answer against what the recorders saw of it: the first server was sent the prompt, each further one the
// prompt and what the client had got until then, with as many tokens to go as were left; what the client got is what they
// answered, one behind the other, to the last token.
func (f *launched) prove(t *testing.T, all []exchange, prompt []uint32, tokens int, a answer) joint {
	t.Helper()
	require.Equal(t, "length", a.finish)
	require.Equal(t, len(prompt), a.prompt)
	var attempts []exchange
	for _, e := range all {
		if len(e.Prompt) >= len(prompt) && slices.Equal(e.Prompt[:len(prompt)], prompt) {
			attempts = append(attempts, e)
		}
	}
	slices.SortFunc(attempts, func(x, y exchange) int { // in their order: of two with as much to go, the first gave nothing
		return cmp.Or(y.NPredict-x.NPredict, len(x.Frames)-len(y.Frames))
	})
	require.NotEmpty(t, attempts)
	require.Equal(t, prompt, attempts[0].Prompt)
	require.Equal(t, tokens, attempts[0].NPredict)
	proved := joint{attempts: len(attempts), exact: true}
	var said string    // by the attempts so far
	var given []uint32 // likewise, as far as IDs are known
	for i, e := range attempts {
		done := tokens - e.NPredict
		suffix := e.Prompt[len(prompt):]
		if proved.exact {
			require.Equal(t, given, append([]uint32(nil), suffix...), "what attempt %d was sent behind the prompt", i+1)
			require.Len(t, suffix, done)
		} else {
			require.Equal(t, said, f.detokenize(t, suffix), "the text of what attempt %d was sent behind the prompt", i+1)
		}
		frames := e.Frames
		if i+1 < len(attempts) {
			next := tokens - attempts[i+1].NPredict
			require.GreaterOrEqual(t, next, done)
			require.NotEqual(t, e.Server, attempts[i+1].Server, "it goes on on another process: %s", told(attempts))
			if frames = until(e.Frames, next-done); next == done {
				frames = nil
			} else {
				require.NotNil(t, frames, "attempt %d told no %d tokens", i+1, next-done)
			}
			proved.carried = next
		} else {
			named := slices.DeleteFunc(slices.Clone(frames), func(f frame) bool { return len(f.Tokens) == 0 })
			require.NotEmpty(t, named)
			require.Equal(t, done+last(named).Predicted, a.completed, "tokens that the client was counted")
			// A character that the token limit cuts is lost in the server, with the tokens that began it.
			require.LessOrEqual(t, a.completed, tokens)
			require.Less(t, tokens-a.completed, utf8.UTFMax)
		}
		said += text(frames)
		more, whole := ids(frames)
		given = append(given, more...)
		proved.exact = proved.exact && (whole || i+1 == len(attempts))
	}
	require.Equal(t, said, a.text)
	return proved
}

// told says in short what attempts were sent and answered.
func told(attempts []exchange) string {
	var b strings.Builder
	for i, e := range attempts {
		fmt.Fprintf(&b, "\n%d. %s: %d prompt tokens, %d to go, %d frames", i+1, filepath.Base(e.Server), len(e.Prompt), e.NPredict, len(e.Frames))
		if len(e.Frames) > 0 {
			fmt.Fprintf(&b, ", the last %+v", last(e.Frames))
		}
	}
	return b.String()
}

func (f *launched) detokenize(t *testing.T, tokens []uint32) string {
	t.Helper()
	if len(tokens) == 0 {
		return ""
	}
	return rig.As[struct{ Prompt string }](t, rig.Exchange(t, http.MethodPost, f.url+"/detokenize", map[string]any{"tokens": tokens})).Prompt
}

// back waits until a killed engine serves again, and has it serve: of several unrelated requests at once some go there.
func (f *launched) back(t *testing.T, name string, start int, model string) {
	t.Helper()
	rig.Eventually(t, rig.StartPatience, name+" is back", func() bool { return f.engine(t, name).serves(start) })
	const atOnce = 6
	drawn := uint32(1000)
	rig.Eventually(t, 4*rig.Patience, name+" gets work", func() bool {
		served := make(chan string, atOnce)
		for range atOnce {
			drawn += 16
			go func() {
				a, err := f.complete(t.Context(), model, idsFrom(drawn), 2, func(string, string) {})
				if err != nil {
					t.Error(err)
				}
				served <- a.replica
			}()
		}
		got := false
		for range atOnce {
			got = <-served == name || got
		}
		return got
	})
}

// idsFrom is a prompt of the 16 IDs from one on.
func idsFrom(first uint32) []uint32 {
	prompt := make([]uint32, 16)
	for i := range prompt {
		prompt[i] = first + uint32(i) //nolint:gosec // small
	}
	return prompt
}

// TestFailover kills real servers that Plimsoll has started, with the real model: first the server itself, then what stands for
// it before Plimsoll, so that the server is left behind and must be ended before the next start.
func TestFailover(t *testing.T) {
	const tokens = 160
	f := launchTwo(t, tokenizerDir(t.Context(), t), "run", 4096, "--model", model, "--policy", "least-requests")
	encode := func(text string) []uint32 {
		return rig.As[struct{ Tokens []uint32 }](t, rig.Exchange(t, http.MethodPost, f.url+"/tokenize", map[string]any{"model": model, "prompt": text})).Tokens
	}
	for round, kill := range []func(name string) error{
		func(name string) error { return syscall.Kill(f.server(t, name), syscall.SIGKILL) },
		func(name string) error { return syscall.Kill(f.engine(t, name).Process.PID, syscall.SIGKILL) },
	} {
		prompts := [][]uint32{
			encode(fmt.Sprintf("%d. The lighthouse stood at the end of the pier. Every evening its keeper", round)),
			encode(fmt.Sprintf("%d. Bread needs flour, water, salt and time. In the morning the baker", round)),
		}
		answers, errs := make([]answer, 2), make([]error, 2)
		began := make(chan string, 2)
		halfway := make(chan struct{})
		var running sync.WaitGroup
		for i, prompt := range prompts {
			running.Go(func() {
				once := false
				answers[i], errs[i] = f.complete(t.Context(), model, prompt, tokens, func(replica, sofar string) {
					if !once && strings.Count(sofar, " ") >= 12 {
						once = true
						began <- replica
						<-halfway // it reads on when the server is dead
					}
				})
			})
		}
		served := []string{<-began, <-began}
		require.ElementsMatch(t, names(), served, "one stream each")
		victim, old := served[0], f.server(t, served[0])
		start := f.engine(t, victim).Process.Starts
		require.NoError(t, kill(victim))
		close(halfway)
		running.Wait()
		all := exchanges(t, f.folder)
		resumed := 0
		for i, prompt := range prompts {
			require.NoError(t, errs[i])
			proved := f.prove(t, all, prompt, tokens, answers[i])
			t.Logf("round %d: a stream on %s: %d attempts, %d tokens carried over, IDs all known: %v", round+1, answers[i].replica, proved.attempts, proved.carried, proved.exact)
			require.Equal(t, answers[i].replica == victim, proved.attempts > 1)
			resumed += proved.attempts - 1
		}
		require.Equal(t, 1, resumed)
		f.back(t, victim, start+1, model)
		require.ErrorIs(t, syscall.Kill(old, 0), syscall.ESRCH, "the old server is gone")
		require.NotEqual(t, old, f.server(t, victim))
	}
}

// TestFailoverOfMany kills one of two servers with 200 streams open.
func TestFailoverOfMany(t *testing.T) {
	const streams, least, model = 200, 60, "tiny"
	require.NoError(t, exec.CommandContext(t.Context(), "./engine.sh", "tiny").Run())
	f := launchTwo(t, filepath.Join("..", "vllm", "tiny-tokenizer"), "run-tiny", 224*768, "--model", model, "--policy", "least-requests")
	rng := rand.New(rand.NewPCG(1, 1))
	prompts, tokens := make([][]uint32, streams), make([]int, streams)
	for i := range prompts {
		prompts[i] = make([]uint32, 16+rng.IntN(200))
		for j := range prompts[i] {
			prompts[i][j] = 300 + rng.Uint32N(3000) // of the vocabulary's words
		}
		tokens[i] = 300 + rng.IntN(200)
	}
	answers, errs := make([]answer, streams), make([]error, streams)
	began := make(chan string, streams)
	ctx, cancel := context.WithTimeout(t.Context(), rig.StartPatience)
	defer cancel()
	var running sync.WaitGroup
	started := time.Now()
	for i, prompt := range prompts {
		running.Go(func() {
			var once sync.Once
			begin := func(replica, _ string) { once.Do(func() { began <- replica }) }
			answers[i], errs[i] = f.complete(ctx, model, prompt, tokens[i], begin)
			begin("none", "") // if it has failed before
		})
	}
	on := map[string]int{}
	for range streams {
		on[<-began]++
	}
	t.Logf("%d streams open after %s: %v", streams, time.Since(started).Round(time.Millisecond), on)
	victim := names()[0]
	old := f.server(t, victim)
	require.NoError(t, syscall.Kill(old, syscall.SIGKILL))
	running.Wait()
	all := exchanges(t, f.folder)
	resumed, exact, carried := 0, 0, 0
	for i, prompt := range prompts {
		require.NoError(t, errs[i], "stream %d", i)
		proved := f.prove(t, all, prompt, tokens[i], answers[i])
		if proved.attempts > 1 {
			resumed++
			carried += proved.carried
			if proved.exact {
				exact++
			}
		}
	}
	t.Logf("%d streams went on on the other server with %d tokens carried over; of %d of them the server had told every ID; all ended after %s",
		resumed, carried, exact, time.Since(started).Round(time.Millisecond))
	require.GreaterOrEqual(t, resumed, least, "streams that the kill hit")
	require.Positive(t, exact)
	f.back(t, victim, 2, model)
	rig.Eventually(t, rig.Patience, "nothing is booked", func() bool { return rig.Metric(t, f.url, "plimsoll_replica_booked_blocks") == 0 })
}
