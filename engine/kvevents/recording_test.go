package kvevents

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/prefix"
	"plimsoll/testbench/recordings"
	"plimsoll/testbench/shared"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// sibling returns the file of a session that has another ending in its name, compressed or not.
func sibling(t *testing.T, path, from, to string) string {
	t.Helper()
	base := strings.TrimSuffix(path, ".gz")
	require.True(t, strings.HasSuffix(base, from), "%s", path)
	base = strings.TrimSuffix(base, from) + to
	for _, name := range []string{base, base + ".gz"} {
		if exists(name) {
			return name
		}
	}
	t.Fatalf("no %s", base)
	return ""
}

// frames is one recorded ZMQ message.
type frames [][]byte

func (f *frames) UnmarshalJSON(data []byte) error {
	var raw struct{ Frames []string }
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	for _, part := range raw.Frames {
		b, err := hex.DecodeString(part)
		if err != nil {
			return err
		}
		*f = append(*f, b)
	}
	return nil
}

// eventOf is the naive reading of a recorded event, of the kinds that the recordings have.
func eventOf(t *testing.T, e recordings.Event) prefix.Event {
	t.Helper()
	out := prefix.Event{Group: e.Group}
	for _, h := range e.Hashes {
		out.Hashes = append(out.Hashes, uint64(h))
	}
	if e.Medium != nil {
		require.Equal(t, "GPU", *e.Medium)
	}
	switch e.Type {
	case "BlockRemoved":
		out.Kind = prefix.Removed
		return out
	case "AllBlocksCleared":
		return prefix.Event{Kind: prefix.Cleared}
	case "BlockStored":
	default:
		t.Fatalf("recorded type %q", e.Type)
	}
	out.Tokens, out.BlockTokens = e.Tokens, e.BlockSize
	if e.Parent != nil {
		out.Parent = new(uint64(*e.Parent))
	}
	if e.LoRA != nil {
		out.LoRA = *e.LoRA
	}
	if e.SpecKind == "sliding_window" {
		out.Attention, out.WindowTokens = prefix.SlidingWindow, e.Window
	} else {
		require.Equal(t, "full_attention", e.SpecKind)
	}
	for i, keys := range e.ExtraKeys {
		if out.LoRA != "" {
			at := slices.Index(keys, any(out.LoRA))
			require.GreaterOrEqual(t, at, 0)
			keys = slices.Delete(slices.Clone(keys), at, at+1)
		}
		if i == 0 && e.Parent == nil && len(keys) > 0 {
			out.Salt = keys[0].(string)
			keys = keys[1:]
		}
		require.Empty(t, keys, "the recordings have no images")
	}
	return out
}

// TestDecodeRecorded: every recorded frame reads as the JSON beside it does.
func TestDecodeRecorded(t *testing.T) {
	own := 0
	for _, path := range recordings.Glob(t, "*.frames.jsonl*") {
		if strings.Contains(path, ".replay-") {
			continue // their payloads stand in the live frames, too: TestReplayRecorded
		}
		t.Run(path, func(t *testing.T) {
			var d Decoder
			recorded := shared.Lines[frames](t, path)
			want := shared.Lines[recordings.Message](t, sibling(t, path, ".frames.jsonl", ".events.jsonl"))
			require.Len(t, recorded, len(want))
			for i, f := range recorded {
				seq, payload, ok := parse(f)
				require.True(t, ok)
				require.Equal(t, want[i].Seq, seq)
				b, err := d.Decode(payload)
				require.NoError(t, err)
				require.Zero(t, b.Skipped)
				require.False(t, b.LostRemoval)

				var seconds float64
				require.NoError(t, json.Unmarshal(want[i].Batch[0], &seconds))
				require.InDelta(t, seconds, float64(b.At.UnixMicro())/1e6, 2e-6)
				var rank int
				require.NoError(t, json.Unmarshal(want[i].Batch[2], &rank))
				require.True(t, b.Ranked)
				require.Equal(t, rank, b.Rank)
				peeked, ok := rankOf(payload)
				require.True(t, ok)
				require.Equal(t, rank, peeked)
				events, err := want[i].Events()
				require.NoError(t, err)
				require.Len(t, b.Events, len(events))
				for k, e := range events {
					requireSameEvent(t, eventOf(t, e), b.Events[k])
				}
			}
			if filepath.Dir(path) == recordings.Own(t) {
				own += len(recorded)
			}
		})
	}
	require.Greater(t, own, 300, "batches read of our own copies")
}

// requireSameEvent compares by value: an empty list is like none.
func requireSameEvent(t *testing.T, want, got prefix.Event) {
	t.Helper()
	for _, e := range []*prefix.Event{&want, &got} {
		e.Hashes = append([]uint64{}, e.Hashes...)
		e.Tokens = append([]uint32{}, e.Tokens...)
	}
	require.Equal(t, want, got)
}
