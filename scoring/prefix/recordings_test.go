package prefix_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/prefix"
	"plimsoll/testbench/recordings"
	"plimsoll/testbench/shared"
)

// convert turns the events of a recorded message into the index's.
func convert(t *testing.T, m recordings.Message) []prefix.Event {
	t.Helper()
	recorded, err := m.Events()
	require.NoError(t, err)
	out := make([]prefix.Event, 0, len(recorded))
	for _, r := range recorded {
		e := prefix.Event{Tokens: r.Tokens, BlockTokens: r.BlockSize, Group: r.Group, WindowTokens: r.Window}
		switch r.SpecKind {
		case "", "full_attention", "mla_attention", "sink_full_attention":
		case "sliding_window", "sliding_window_mla":
			e.Attention = prefix.SlidingWindow
		default:
			e.Attention = prefix.OtherAttention
		}
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
	messages []recordings.Message
	at       int
	slot     prefix.Slot
}

// advance applies the messages that were assembled before a request was sent.
func (f *recording) advance(t *testing.T, ix *prefix.Index, r *recordings.Request) {
	t.Helper()
	before := r.EventsBefore
	if f.rank != "" {
		var seqs map[string]int64
		require.NoError(t, json.Unmarshal(r.SeqBefore, &seqs))
		before = 0
		for before < len(f.messages) && int64(f.messages[before].Seq) <= seqs[f.rank] {
			before++
		}
	}
	for ; f.at < before; f.at++ {
		m := f.messages[f.at]
		if f.at > 0 && m.Seq <= f.messages[f.at-1].Seq {
			ix.Void(f.slot) // the sequence went back: another process
		}
		ix.Apply(f.slot, convert(t, m))
	}
	if r.Restarted {
		ix.Void(f.slot) // no event tells yet, the broken connection does
	}
}

// TestRecordings replays every recorded session of a real engine and compares the predicted overlap of each request
// with the cached tokens the engine reported. Left out are requests with n > 1 (the engine
// reports the last choice), all but the first of requests sent together, and those that no rank was chosen for.
func TestRecordings(t *testing.T) {
	compared, hits := map[string]int{}, map[string]int{}
	for _, path := range recordings.Glob(t, "*.requests.jsonl*") {
		dir := filepath.Dir(path)
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		t.Run(filepath.Base(dir)+"/"+name, func(t *testing.T) {
			c, h := replay(t, filepath.Join(dir, name), shared.Lines[recordings.Request](t, path))
			compared[dir], hits[dir] = compared[dir]+c, hits[dir]+h
		})
	}
	t.Logf("predictions equal %v, hits among them %v", compared, hits)
	for _, dir := range recordings.Folders(t) {
		require.Positive(t, hits[dir], "%s", dir)
	}
	require.GreaterOrEqual(t, compared[recordings.Own(t)], 295)
	require.GreaterOrEqual(t, hits[recordings.Own(t)], 185)
}

func replay(t *testing.T, session string, requests []recordings.Request) (compared, hits int) {
	t.Helper()
	paths, err := filepath.Glob(session + "*.events.jsonl*")
	require.NoError(t, err)
	require.NotEmpty(t, paths, "%s", session)
	feeds := make([]*recording, 0, len(paths))
	size := 0
	for _, path := range paths {
		f := &recording{messages: shared.Lines[recordings.Message](t, path)}
		if parts := strings.Split(filepath.Base(path), "."); strings.HasPrefix(parts[1], "rank") {
			f.rank = strings.TrimPrefix(parts[1], "rank")
		}
		for _, m := range f.messages {
			for _, e := range convert(t, m) {
				size = max(size, e.BlockTokens)
			}
		}
		feeds = append(feeds, f)
	}
	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = recordings.Model, size
	ix := prefix.NewIndex(cfg)
	for _, f := range feeds {
		f.slot = ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 128})
	}
	var together []any
	for i := range requests {
		r := &requests[i]
		for _, f := range feeds {
			f.advance(t, ix, r)
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
func predict(t *testing.T, ix *prefix.Index, slot prefix.Slot, r *recordings.Request) int {
	t.Helper()
	if r.Request.PromptLogprobs != nil {
		return 0
	}
	tokens, err := r.Tokens()
	require.NoError(t, err)
	size := ix.BlockTokens()
	held := ix.Match(start, prefix.AppendKeys(nil, r.Space().Seed(), tokens, size), nil)[slot].Device
	return min(int(held), (len(tokens)-1)/size) * size
}
