package sim_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/scoring/prefix"
	"plimsoll/testbench/recordings"
	"plimsoll/testbench/shared"
)

// recorded is one line of a session's requests.
type recorded struct {
	Step    string `json:"step"`
	Path    string `json:"path"`
	Request struct {
		Model          string   `json:"model"`
		Prompt         []uint32 `json:"prompt"`
		TokenIDs       []uint32 `json:"token_ids"`
		MaxTokens      int      `json:"max_tokens"`
		SamplingParams struct {
			MaxTokens int `json:"max_tokens"`
		} `json:"sampling_params"`
		N              *int           `json:"n"`
		Salt           string         `json:"cache_salt"`
		PromptLogprobs *int           `json:"prompt_logprobs"`
		Extra          map[string]any `json:"vllm_xargs"`
		Stream         bool           `json:"stream"`
	} `json:"request"`
	PromptTokenIDs []uint32   `json:"prompt_token_ids"`
	CachedTokens   *int       `json:"cached_tokens"`
	Outputs        [][]uint32 `json:"output_token_ids"`
	EventsBefore   int        `json:"events_before"`
	Concurrent     string     `json:"concurrent"`
	Restarted      bool       `json:"restarted"`
	ResetAnswer    string     `json:"reset_answer"`
	Finish         string     `json:"finish"`
	// Preemptions are the lines of /metrics of that name, before and after.
	Preemptions []map[string][]string `json:"preemptions"`
}

func (r recorded) prompt() []uint32 {
	switch {
	case r.PromptTokenIDs != nil:
		return r.PromptTokenIDs
	case r.Request.Prompt != nil:
		return r.Request.Prompt
	}
	return r.Request.TokenIDs
}

func (r recorded) isReset() bool { return r.Path == "/reset_prefix_cache" }

func (r recorded) wantsReport() bool { return r.Request.Extra["kv_cache_report_mode"] != nil }

// compared: sent alone, and of the kind whose figures tell what the cache did.
func (r recorded) compared() bool {
	base := r.Request.Model == "tiny"
	return base && r.CachedTokens != nil && r.Concurrent == "" && r.Request.N == nil && !r.wantsReport() &&
		r.Request.PromptLogprobs == nil && r.ResetAnswer == ""
}

type message struct {
	Batch []json.RawMessage `json:"batch"`
}

type wireEvent struct {
	Type   string            `json:"type"`
	Hashes []json.RawMessage `json:"block_hashes"`
	Block  *int              `json:"block_size"`
	Group  int               `json:"group_idx"`
	Kind   string            `json:"kv_cache_spec_kind"`
}

func (m message) events(tb testing.TB) []wireEvent {
	tb.Helper()
	var events []wireEvent
	require.NoError(tb, json.Unmarshal(m.Batch[1], &events))
	return events
}

// counts of what happened in the cache.
type counts struct{ stored, removed int }

func recordedCounts(tb testing.TB, messages []message) (c counts) {
	tb.Helper()
	for _, m := range messages {
		for _, e := range m.events(tb) {
			switch e.Type {
			case "BlockStored":
				c.stored += len(e.Hashes)
			case "BlockRemoved":
				c.removed += len(e.Hashes)
			}
		}
	}
	return c
}

func simCounts(events []prefix.Event) (c counts) {
	for _, e := range events {
		switch e.Kind {
		case prefix.Stored:
			c.stored += len(e.Hashes)
		case prefix.Removed:
			c.removed += len(e.Hashes)
		case prefix.Cleared, prefix.NumEventKinds:
		}
	}
	return c
}

// script answers with what the real model answered, so that later prompts find in the cache what they found there.
type script struct {
	sim.HashSource
	answers []scripted
}

type scripted struct{ prompt, answer []uint32 }

func (s *script) Next(context []uint32, digest uint64) uint32 {
	for _, a := range s.answers {
		at := len(context) - len(a.prompt)
		if at >= 0 && at < len(a.answer) && slices.Equal(context[:len(a.prompt)], a.prompt) &&
			slices.Equal(context[len(a.prompt):], a.answer[:at]) {
			return a.answer[at]
		}
	}
	return s.HashSource.Next(context, digest)
}

// recordedConfig is the configuration of the server in the recordings.
func recordedConfig(blockTokens int) sim.Config {
	cfg := sim.TinyConfig()
	cfg.BlockTokens = blockTokens
	cfg.KVBlocks = 64
	cfg.Seats = 8
	cfg.BatchTokens = 256
	cfg.ContextTokens = 2048
	cfg.Adapters = []string{"lora-a", "lora-b"}
	return cfg
}

// replay feeds the recorded requests to a machine.
type replay struct {
	*driver
	source *script
}

// group sends requests that were sent together (all of their choices) and runs the engine until it is idle.
func (p *replay) group(tb testing.TB, group []recorded) {
	tb.Helper()
	p.source.answers = p.source.answers[:0]
	var cut string
	for _, r := range group {
		for choice := range max(1, len(r.Outputs)) {
			s := ask(r.Step+"#"+string(rune('0'+choice)), r.prompt(), max(r.Request.MaxTokens, r.Request.SamplingParams.MaxTokens))
			s.Salt = r.Request.Salt
			s.SkipCacheRead = r.Request.PromptLogprobs != nil
			if r.Request.Model != "tiny" {
				s.LoRA = r.Request.Model
			}
			if choice < len(r.Outputs) {
				p.source.answers = append(p.source.answers, scripted{s.PromptTokens, r.Outputs[choice]})
				if r.Request.Stream && r.Finish == "" && len(r.Outputs[choice]) < s.MaxTokens {
					cut = s.ID
				}
			}
			p.step(s)
			require.Nil(tb, p.of(s.ID).failure, r.Step)
		}
		if r.ResetAnswer != "" { // asked while it ran; true: reset_running_requests was set
			p.pass()
			p.step(sim.ResetPrefixCache{Force: strings.Contains(r.ResetAnswer, "true")})
		}
	}
	p.onEmit = func(id string, _ engine.Event) sim.Event {
		if id == cut && len(p.of(id).ids) == len(group[0].Outputs[0]) {
			return sim.Abort{ID: id}
		}
		return nil
	}
	p.drain()
	for _, r := range group {
		if r.ResetAnswer != "" {
			require.Equal(tb, []bool{strings.Contains(r.ResetAnswer, "true")}, p.resets, r.Step)
		}
	}
	p.resets = nil
}

// sessionsOf returns the names of the sessions in a folder that one pool with one full-attention group recorded.
func sessionsOf(tb testing.TB, dir string) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.requests.jsonl*"))
	require.NoError(tb, err)
	var names []string
	for _, f := range files {
		name := strings.Split(filepath.Base(f), ".")[0]
		events, err := filepath.Glob(filepath.Join(dir, name+".events.jsonl*"))
		require.NoError(tb, err)
		if len(events) == 1 && blockTokensOf(tb, shared.Lines[message](tb, events[0])) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// blockTokensOf returns the block size of a session, 0 if it is not of one full-attention group.
func blockTokensOf(tb testing.TB, messages []message) int {
	tb.Helper()
	size := 0
	for _, m := range messages {
		for _, e := range m.events(tb) {
			if e.Group != 0 || e.Kind != "" && e.Kind != "full_attention" {
				return 0
			}
			if e.Block != nil {
				size = *e.Block
			}
		}
	}
	return size
}

// session is one recording. alone: only what was sent alone is compared; how requests that were sent together met
// depends on timing.
type session struct {
	dir, name string
	alone     bool
}

func (s session) file(tb testing.TB, kind string) string {
	tb.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, s.name+"."+kind+".jsonl*"))
	require.NoError(tb, err)
	require.Len(tb, found, 1)
	return found[0]
}

// run feeds the session to a machine, compares, and returns how many requests of the plain kind were equal.
func (s session) run(t *testing.T) (plain int) {
	t.Helper()
	requests := shared.Lines[recorded](t, s.file(t, "requests"))
	messages := shared.Lines[message](t, s.file(t, "events"))
	source := &script{HashSource: sim.HashSource{Vocab: 4096, EOSID: 2}}
	p := &replay{driver: newDriver(t, recordedConfig(blockTokensOf(t, messages)), source), source: source}
	for end := 0; end < len(requests); {
		r, start := requests[end], end
		for end++; r.Concurrent != "" && end < len(requests) && requests[end].Concurrent == r.Concurrent; {
			end++
		}
		if r.Restarted {
			p.step(sim.Kill{})
			p.step(sim.Start{})
		}
		if r.isReset() {
			p.step(sim.ResetPrefixCache{})
			require.Equal(t, []bool{true}, p.resets, r.Step)
			p.resets = nil
			continue
		}
		p.kv = nil
		p.group(t, requests[start:end])
		until := len(messages)
		if end < len(requests) {
			until = requests[end].EventsBefore
		}
		want := recordedCounts(t, messages[r.EventsBefore:until])
		if r.compared() {
			plain++
		}
		if r.compared() || !s.alone {
			p.compare(t, requests[start:end], want)
		}
	}
	require.Zero(t, p.m.Status().UsedBlocks)
	return plain
}

// compare holds the machine to what was recorded of a group. Reports repeat stores of blocks that are cached already,
// and with several choices the engine tells the cached tokens of the last: there is nothing to compare then.
func (p *replay) compare(t *testing.T, group []recorded, want counts) {
	t.Helper()
	got := simCounts(p.kv)
	if group[0].wantsReport() {
		want.stored = got.stored
	}
	require.Equal(t, want, got, "%s: blocks stored and removed", group[0].Step)
	for _, r := range group {
		if r.CachedTokens != nil && r.Request.N == nil {
			require.Equal(t, *r.CachedTokens, *p.of(r.Step + "#0").cached, "%s: cached tokens", r.Step)
		}
		if r.Preemptions != nil {
			line := r.Preemptions[1]["vllm:num_preemptions_total"][0]
			count := line[strings.LastIndexByte(line, ' ')+1:]
			require.Equal(t, count, fmt.Sprintf("%d.0", p.m.Status().Preemptions), "%s: preemptions", r.Step)
		}
	}
}

// A real vLLM was asked the same requests: the model reports the same cached tokens and the same blocks stored and
// removed. Of the repository's recordings everything is compared, and it is known how much that is; of others what was sent alone.
func TestConformsToRecordedVLLM(t *testing.T) {
	floors := map[string]int{"blocks64": 50, "churn": 130}
	own := recordings.Own(t)
	check := func(t *testing.T, s session) int {
		t.Helper()
		plain := s.run(t)
		t.Logf("%d requests sent alone are equal", plain)
		return plain
	}
	for name, floor := range floors {
		t.Run("own/"+name, func(t *testing.T) {
			require.GreaterOrEqual(t, check(t, session{dir: own, name: name}), floor)
		})
	}
	t.Run("shared", func(t *testing.T) {
		dir := shared.Path(t, "testdata", "kv-events")
		compared := 0
		for _, name := range sessionsOf(t, dir) {
			t.Run(name, func(t *testing.T) { compared += check(t, session{dir: dir, name: name, alone: true}) })
		}
		require.Positive(t, compared)
	})
}
