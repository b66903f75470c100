package prefix_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/prefix"
	"plimsoll/testbench/shared"
)

// recordedHash is an engine hash as a recording has it: an integer of either sign, or bytes, of which the last eight
// count.
type recordedHash uint64

func (h *recordedHash) UnmarshalJSON(data []byte) error {
	var digest struct{ Bytes string }
	if json.Unmarshal(data, &digest) == nil {
		raw, err := hex.DecodeString(digest.Bytes)
		if err != nil {
			return err
		}
		*h = recordedHash(binary.BigEndian.Uint64(raw[len(raw)-8:]))
		return nil
	}
	if u, err := strconv.ParseUint(string(data), 10, 64); err == nil {
		*h = recordedHash(u)
		return nil
	}
	i, err := strconv.ParseInt(string(data), 10, 64)
	*h = recordedHash(i)
	return err
}

type recordedEvent struct {
	Type       string         `json:"type"`
	Hashes     []recordedHash `json:"block_hashes"`
	Parent     *recordedHash  `json:"parent_block_hash"`
	Tokens     []uint32       `json:"token_ids"`
	BlockSize  int            `json:"block_size"`
	LoRA       *string        `json:"lora_name"`
	ExtraKeys  [][]any        `json:"extra_keys"`
	GroupIndex int            `json:"group_idx"`
	SpecKind   string         `json:"kv_cache_spec_kind"`
}

type recordedMessage struct {
	Seq   int64             `json:"seq"`
	Batch []json.RawMessage `json:"batch"`
}

func (m recordedMessage) events(t *testing.T) []recordedEvent {
	t.Helper()
	var out []recordedEvent
	require.NoError(t, json.Unmarshal(m.Batch[1], &out))
	return out
}

type recordedRequest struct {
	Step    string `json:"step"`
	Headers map[string]string
	Request struct {
		Model          string          `json:"model"`
		Prompt         json.RawMessage `json:"prompt"`
		TokenIDs       []uint32        `json:"token_ids"`
		N              *int            `json:"n"`
		CacheSalt      string          `json:"cache_salt"`
		PromptLogprobs *int            `json:"prompt_logprobs"`
	} `json:"request"`
	RawRequest     json.RawMessage `json:"-"`
	PromptTokenIDs []uint32        `json:"prompt_token_ids"`
	CachedTokens   *int            `json:"cached_tokens"`
	Concurrent     any             `json:"concurrent"`
	EventsBefore   int             `json:"events_before"`
	SeqBefore      json.RawMessage `json:"seq_before"` // a number, or one a rank
	SeqAfter       json.RawMessage `json:"seq_after"`
	Restarted      bool            `json:"restarted"`
}

func (r *recordedRequest) UnmarshalJSON(data []byte) error {
	type plain recordedRequest
	if err := json.Unmarshal(data, (*plain)(r)); err != nil {
		return err
	}
	var raw struct{ Request json.RawMessage }
	err := json.Unmarshal(data, &raw)
	r.RawRequest = raw.Request
	return err
}

func (r *recordedRequest) tokens(t *testing.T) []uint32 {
	t.Helper()
	switch {
	case r.PromptTokenIDs != nil:
		return r.PromptTokenIDs
	case len(r.Request.Prompt) > 0:
		var out []uint32
		require.NoError(t, json.Unmarshal(r.Request.Prompt, &out))
		return out
	default:
		return r.Request.TokenIDs
	}
}

// dense says whether a session's model has one kind of cache that keeps every block: groups beside the first, and
// kinds that keep only a window or a state, need rules that an index of whole prefixes does not have.
func dense(t *testing.T, messages []recordedMessage) bool {
	t.Helper()
	for _, m := range messages {
		for _, e := range m.events(t) {
			switch e.SpecKind {
			case "", "full_attention", "mla_attention":
			default:
				return false
			}
			if e.GroupIndex != 0 {
				return false
			}
		}
	}
	return true
}

// convert turns recorded events into the index's. Stores of a batch that answers a request for a full report name
// blocks again and are no copies; that is for the decoder to know, so here they are left out.
func convert(recorded []recordedEvent, report bool) []prefix.Event {
	out := make([]prefix.Event, 0, len(recorded))
	for _, r := range recorded {
		e := prefix.Event{Tokens: r.Tokens, BlockTokens: r.BlockSize}
		for _, h := range r.Hashes {
			e.Hashes = append(e.Hashes, uint64(h))
		}
		if r.Parent != nil {
			e.Parent = new(uint64(*r.Parent))
		}
		if r.LoRA != nil {
			e.LoRA = *r.LoRA
		}
		if len(r.ExtraKeys) > 0 {
			for _, x := range r.ExtraKeys[0] {
				if name, ok := x.(string); ok && name != e.LoRA {
					e.Salt = name
				}
			}
		}
		switch r.Type {
		case "BlockStored":
			if report {
				continue
			}
			e.Kind = prefix.Stored
		case "BlockRemoved":
			e.Kind = prefix.Removed
		case "AllBlocksCleared":
			e.Kind = prefix.Cleared
		}
		out = append(out, e)
	}
	return out
}

// recording is one feed of a session: a slot of the index and how far its messages were applied.
type recording struct {
	rank     string
	messages []recordedMessage
	at       int
	slot     prefix.Slot
}

// advance applies the messages that were assembled before a request was sent.
func (f *recording) advance(t *testing.T, ix *prefix.Index, r *recordedRequest, reports map[string]bool) {
	t.Helper()
	before := r.EventsBefore
	if f.rank != "" {
		var seqs map[string]int64
		require.NoError(t, json.Unmarshal(r.SeqBefore, &seqs))
		before = 0
		for before < len(f.messages) && f.messages[before].Seq <= seqs[f.rank] {
			before++
		}
	}
	for ; f.at < before; f.at++ {
		m := f.messages[f.at]
		if f.at > 0 && m.Seq <= f.messages[f.at-1].Seq {
			ix.Void(f.slot) // the sequence went back: another process
		}
		ix.Apply(f.slot, convert(m.events(t), reports[strconv.FormatInt(m.Seq, 10)]))
	}
	if r.Restarted {
		ix.Void(f.slot) // no event tells yet, the broken connection does
	}
}

// TestRecordings replays every recorded session of a real engine and compares the predicted overlap of each request
// with the cached tokens the engine reported. Left out are sessions that are not dense, requests with n > 1 (the engine
// reports the last choice), all but the first of requests sent together, and those that no rank was chosen for.
func TestRecordings(t *testing.T) {
	compared, hits, sessions := 0, 0, 0
	for _, path := range shared.Glob(t, "testdata", "kv-events", "*.requests.jsonl*") {
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		t.Run(name, func(t *testing.T) {
			c, h := replay(t, name, shared.Lines[recordedRequest](t, path))
			if t.Skipped() {
				return
			}
			require.GreaterOrEqual(t, c, 4, "too few requests to compare")
			compared, hits, sessions = compared+c, hits+h, sessions+1
		})
	}
	t.Logf("%d sessions, %d predictions equal, %d of them hits", sessions, compared, hits)
	require.GreaterOrEqual(t, sessions, 5)
	require.GreaterOrEqual(t, compared, 250)
	require.GreaterOrEqual(t, hits, 170)
}

func replay(t *testing.T, name string, requests []recordedRequest) (compared, hits int) {
	t.Helper()
	paths := shared.Glob(t, "testdata", "kv-events", name+"*.events.jsonl*")
	feeds := make([]*recording, 0, len(paths))
	size := 0
	for _, path := range paths {
		f := &recording{messages: shared.Lines[recordedMessage](t, path)}
		if parts := strings.Split(filepath.Base(path), "."); strings.HasPrefix(parts[1], "rank") {
			f.rank = strings.TrimPrefix(parts[1], "rank")
		}
		if !dense(t, f.messages) {
			t.Skipf("%s is not dense: groups or kinds of cache that an index of whole prefixes does not model", name)
		}
		for _, m := range f.messages {
			for _, e := range m.events(t) {
				size = max(size, e.BlockSize)
			}
		}
		feeds = append(feeds, f)
	}
	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = "tiny", size
	ix := prefix.NewIndex(cfg)
	for _, f := range feeds {
		f.slot = ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 128})
	}
	reports := map[string]bool{}
	for _, r := range requests {
		if strings.Contains(string(r.RawRequest), "kv_cache_report_mode") {
			reports[string(r.SeqAfter)] = true
		}
	}

	var together []any
	for i := range requests {
		r := &requests[i]
		for _, f := range feeds {
			f.advance(t, ix, r, reports)
		}
		place := slices.IndexFunc(feeds, func(f *recording) bool {
			return f.rank == "" || f.rank == r.Headers["X-data-parallel-rank"]
		})
		if r.CachedTokens == nil || place < 0 || r.Request.N != nil && *r.Request.N > 1 ||
			slices.Contains(together, r.Concurrent) {
			continue
		}
		if r.Concurrent != nil {
			together = append(together, r.Concurrent)
		}
		got := predict(t, ix, feeds[place].slot, r)
		require.Equal(t, *r.CachedTokens, got, "cached tokens of %s", r.Step)
		compared++
		if got > 0 {
			hits++
		}
	}
	for _, f := range feeds {
		st := ix.Stats(f.slot)
		require.Zero(t, st.UnknownParents+st.Malformed+st.Conflicts+st.Overflows, "%+v", st)
	}
	return compared, hits
}

// predict is what a caller makes of the index: the last token of a prompt is always computed, so a full hit does not
// count its last block; and the cache is not read where log probabilities of the prompt are asked for.
func predict(t *testing.T, ix *prefix.Index, slot prefix.Slot, r *recordedRequest) int {
	t.Helper()
	if r.Request.PromptLogprobs != nil {
		return 0
	}
	tokens := r.tokens(t)
	space := prefix.Namespace{Model: "tiny", Salt: r.Request.CacheSalt}
	if r.Request.Model != "" && r.Request.Model != "tiny" {
		space.LoRA = r.Request.Model
	}
	size := ix.BlockTokens()
	held := ix.Match(start, prefix.AppendKeys(nil, space.Seed(), tokens, size), nil)[slot].Device
	return min(int(held), (len(tokens)-1)/size) * size
}
