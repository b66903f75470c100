package kvpub_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/prefix"
	"plimsoll/testbench/kvpub"
	"plimsoll/testbench/recordings"
	"plimsoll/testbench/shared"
)

// The vectors of the wire contract, which were built with msgspec.
func TestVectors(t *testing.T) {
	const hash = 15760518052499183552
	store := prefix.Event{Kind: prefix.Stored, Hashes: []uint64{hash}, Tokens: []uint32{1, 2, 3, 4}, BlockTokens: 4}
	remove := prefix.Event{Kind: prefix.Removed, Hashes: []uint64{hash}}
	cleared := prefix.Event{Kind: prefix.Cleared}
	array, sglang := kvpub.DefaultConfig(), kvpub.SGLangConfig()
	array.Form, array.StoredFields = kvpub.Array, 10
	minusFive := store
	minusFive.Hashes = []uint64{math.MaxUint64 - 4}
	for _, c := range []struct {
		name   string
		cfg    kvpub.Config
		events []prefix.Event
		want   string
	}{
		{"map store", kvpub.DefaultConfig(), []prefix.Event{store}, "93cb3ff8000000000000918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cfdab89baa7b5857c0b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b65797391c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00"},
		{"map removal and clear", kvpub.DefaultConfig(), []prefix.Event{remove, cleared}, "93cb3ff80000000000009284a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cfdab89baa7b5857c0a66d656469756da3475055a967726f75705f6964780081a474797065b0416c6c426c6f636b73436c656172656400"},
		{"array, all three", array, []prefix.Event{store, remove, cleared}, "93cb3ff8000000000000939aab426c6f636b53746f72656491cfdab89baa7b5857c0c0940102030404c0a3475055c091c00094ac426c6f636b52656d6f76656491cfdab89baa7b5857c0a34750550091b0416c6c426c6f636b73436c656172656400"},
		{"SGLang", sglang, []prefix.Event{minusFive}, "93cb3ff80000000000009187a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391fbb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da347505500"},
	} {
		require.Equal(t, c.want, hex.EncodeToString(encode(c.cfg, c.events...)), c.name)
	}
}

func encode(cfg kvpub.Config, events ...prefix.Event) []byte {
	wrapped := make([]kvpub.Event, len(events))
	for i, e := range events {
		wrapped[i].Event = e
	}
	return kvpub.NewEncoder(cfg).AppendBatch(nil, at(), wrapped)
}

type recordedFrame struct {
	Frames []string `json:"frames"`
}

type recordedBatch struct {
	Seq   uint64 `json:"seq"`
	Batch struct {
		At     float64
		Events []recordedEvent
		Rank   int
	} `json:"-"`
	Raw []json.RawMessage `json:"batch"`
}

type recordedEvent struct {
	Type    string            `json:"type"`
	Hashes  []json.RawMessage `json:"block_hashes"`
	Parent  json.RawMessage   `json:"parent_block_hash"`
	Tokens  []uint32          `json:"token_ids"`
	Block   int               `json:"block_size"`
	LoRA    string            `json:"lora_name"`
	Extras  [][]string        `json:"extra_keys"`
	Group   int               `json:"group_idx"`
	Spec    string            `json:"kv_cache_spec_kind"`
	Window  int               `json:"kv_cache_spec_sliding_window"`
	Session string            `json:"session_id"`
}

// hashOf reads a hash and remembers the bytes of one that has more than its integer.
func hashOf(t *testing.T, raw json.RawMessage, digests map[uint64][]byte) uint64 {
	t.Helper()
	var n uint64
	if json.Unmarshal(raw, &n) == nil {
		return n
	}
	var long struct {
		Bytes string `json:"bytes"`
	}
	require.NoError(t, json.Unmarshal(raw, &long))
	digest, err := hex.DecodeString(long.Bytes)
	require.NoError(t, err)
	for _, b := range digest[len(digest)-8:] {
		n = n<<8 | uint64(b)
	}
	digests[n] = digest
	return n
}

func (r recordedEvent) event(t *testing.T, digests map[uint64][]byte) kvpub.Event {
	t.Helper()
	e := kvpub.Event{Session: r.Session, Event: prefix.Event{
		Tokens: r.Tokens, BlockTokens: r.Block, LoRA: r.LoRA, Group: r.Group, WindowTokens: r.Window,
	}}
	switch r.Type {
	case "BlockStored":
		e.Kind = prefix.Stored
	case "BlockRemoved":
		e.Kind = prefix.Removed
	case "AllBlocksCleared":
		e.Kind = prefix.Cleared
	default:
		require.Fail(t, "an event of another type", r.Type)
	}
	for _, raw := range r.Hashes {
		e.Hashes = append(e.Hashes, hashOf(t, raw, digests))
	}
	if len(r.Parent) > 0 && string(r.Parent) != "null" {
		parent := hashOf(t, r.Parent, digests)
		e.Parent = &parent
	}
	if r.Spec == "sliding_window" {
		e.Attention = prefix.SlidingWindow
	}
	if len(r.Extras) > 0 {
		for _, word := range r.Extras[0] {
			if word != r.LoRA {
				e.Salt = word
			}
		}
	}
	return e
}

// What a real vLLM sent is written again byte for byte: all frames of every recorded session.
func TestRecordedFrames(t *testing.T) {
	frames, events := map[string]int{}, map[string]int{}
	for _, name := range recordings.Glob(t, "*.events.jsonl*") {
		dir := filepath.Dir(name)
		session, _, _ := strings.Cut(filepath.Base(name), ".events.jsonl")
		t.Run(filepath.Base(dir)+"/"+session, func(t *testing.T) {
			want := shared.Lines[recordedFrame](t, strings.Replace(name, ".events.jsonl", ".frames.jsonl", 1))
			batches := shared.Lines[recordedBatch](t, name)
			require.Len(t, batches, len(want))
			digests := make(map[uint64][]byte)
			encoder := kvpub.NewEncoder(kvpub.DefaultConfig())
			for i, b := range batches {
				require.Len(t, b.Raw, 3)
				require.NoError(t, json.Unmarshal(b.Raw[0], &b.Batch.At))
				require.NoError(t, json.Unmarshal(b.Raw[1], &b.Batch.Events))
				require.NoError(t, json.Unmarshal(b.Raw[2], &b.Batch.Rank))
				list := make([]kvpub.Event, len(b.Batch.Events))
				for j, r := range b.Batch.Events {
					list[j] = r.event(t, digests)
				}
				seconds, part := math.Modf(b.Batch.At)
				got := encoder.ForRank(b.Batch.Rank, digests).AppendBatch(nil, time.Unix(int64(seconds), int64(math.Round(part*1e9))), list)
				require.Equal(t, want[i].Frames[2], hex.EncodeToString(got), "batch %d", i)
				frames[dir], events[dir] = frames[dir]+1, events[dir]+len(list)
			}
		})
	}
	t.Logf("frames %v with events %v", frames, events)
	for _, dir := range recordings.Folders(t) {
		require.Positive(t, events[dir], "%s", dir)
	}
	require.Greater(t, frames[recordings.Own(t)], 500)
	require.Greater(t, events[recordings.Own(t)], 900)
}

// What no recording shows, as the wire contract has it. The bytes are Python literals of the payload's events, written by hand.
func TestForms(t *testing.T) {
	parent := uint64(3)
	event := prefix.Event{
		Kind: prefix.Stored, Hashes: []uint64{1, 2}, Tokens: []uint32{5, 6, 7, 8}, BlockTokens: 2, LoRA: "l", Salt: "s",
		Extras: []uint64{0, 0xab},
	}
	child := event
	child.Parent = &parent
	offloaded := prefix.Event{Kind: prefix.Stored, Hashes: []uint64{1}, Tier: prefix.Host}
	gone := prefix.Event{Kind: prefix.Removed, Hashes: []uint64{1, 2}, Tier: prefix.Disk}
	window := prefix.Event{Kind: prefix.Stored, Attention: prefix.SlidingWindow, WindowTokens: 64, Group: 2, BlockTokens: 2, Tokens: []uint32{1, 2}}
	array := kvpub.DefaultConfig()
	array.Form = kvpub.Array
	old := array
	old.StoredFields = 7
	named := array
	named.StoredFields = 8
	sglang := kvpub.SGLangConfig()
	oldSGLang := sglang
	oldSGLang.Form = kvpub.Array
	for _, c := range []struct {
		name  string
		cfg   kvpub.Config
		event prefix.Event
		want  []any
	}{
		{"array", array, event, list("BlockStored", list(1, 2), nil, list(5, 6, 7, 8), 2, 1, "GPU", "l", list(list("l", "s"), list("l", list("00000000000000ab", 0))), 0, "full_attention")},
		{"array, not at the root", array, child, list("BlockStored", list(1, 2), 3, list(5, 6, 7, 8), 2, 1, "GPU", "l", list(list("l"), list("l", list("00000000000000ab", 0))), 0, "full_attention")},
		{"array of 0.11", old, event, list("BlockStored", list(1, 2), nil, list(5, 6, 7, 8), 2, 1, "GPU")},
		{"array of 0.15", named, event, list("BlockStored", list(1, 2), nil, list(5, 6, 7, 8), 2, 1, "GPU", "l")},
		{"array, host tier", array, offloaded, list("BlockStored", list(1), nil, list(), 0, nil, "CPU", nil, nil, 0, "full_attention")},
		{"array, window", array, window, list("BlockStored", list(), nil, list(1, 2), 2, nil, "GPU", nil, nil, 2, "sliding_window", 64)},
		{"array of 0.11, removal", old, gone, list("BlockRemoved", list(1), "STORAGE")},
		{"SGLang of 0.5.18", oldSGLang, event, list("BlockStored", list(1, 2), nil, list(5, 6, 7, 8), 2, nil, "GPU", keys("cache_salt", "s"))},
		{"SGLang of 0.5.18, no salt", oldSGLang, offloaded, list("BlockStored", list(1), nil, list(), 0, nil, "CPU_PINNED")},
		{"SGLang", sglang, event, keys("type", "BlockStored", "block_hashes", list(1, 2), "parent_block_hash", nil, "token_ids", list(5, 6, 7, 8), "block_size", 2, "lora_id", nil, "medium", "GPU", "cache_salt", "s")},
		{"SGLang, removal", sglang, gone, keys("type", "BlockRemoved", "block_hashes", list(1, 2), "medium", "DISK")},
		{"map, host tier", kvpub.DefaultConfig(), offloaded, keys("type", "BlockStored", "block_hashes", list(1), "parent_block_hash", nil, "token_ids", list(), "block_size", 0, "lora_id", nil, "medium", "CPU", "lora_name", nil, "group_idx", 0, "kv_cache_spec_kind", "full_attention")},
	} {
		got := encode(c.cfg, c.event)
		if c.cfg.Dialect == kvpub.VLLM && c.event.Kind == prefix.Removed {
			require.Equal(t, byte(0x92), got[10], "%s: an event for each hash", c.name)
			got = got[:11+(len(got)-12)/2] // the first of two, which are of one length
		} else {
			got = got[:len(got)-1] // without the rank
		}
		require.Equal(t, hex.EncodeToString(pack(nil, c.want)), hex.EncodeToString(got[11:]), c.name)
	}
}

func list(members ...any) []any { return members }

// mapped marks a list of keys and values.
type mapped struct{}

func keys(pairs ...any) []any { return append([]any{mapped{}}, pairs...) }

// pack writes small values as msgpack has them.
func pack(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 0xc0)
	case int:
		return append(b, byte(v))
	case string:
		if len(v) > 31 {
			panic("not small")
		}
		return append(append(b, 0xa0|byte(len(v))), v...)
	case []any:
		head := byte(0x90 | len(v))
		if len(v) > 0 && v[0] == (mapped{}) {
			v = v[1:]
			head = byte(0x80 | len(v)/2)
		}
		b = append(b, head)
		for _, member := range v {
			b = pack(b, member)
		}
		return b
	}
	panic("not small")
}

// Integers and lengths have the shortest form that holds them.
func TestShortestForms(t *testing.T) {
	for want, token := range map[string]uint32{"7f": 127, "cc80": 128, "ccff": 255, "cd0100": 256, "cdffff": 65535, "ce00010000": 65536, "ceffffffff": math.MaxUint32} {
		require.Contains(t, hex.EncodeToString(encode(kvpub.DefaultConfig(), prefix.Event{Kind: prefix.Stored, Tokens: []uint32{token}, BlockTokens: 1})),
			hex.EncodeToString([]byte("token_ids"))+"91"+want)
	}
	for want, hash := range map[string]int64{"ff": -1, "e0": -32, "d0df": -33, "d080": -128, "d1ff7f": -129, "d18000": -32768, "d2ffff7fff": -32769, "d280000000": math.MinInt32, "d3ffffffff7fffffff": math.MinInt32 - 1, "cf0000000100000000": 1 << 32} {
		require.Contains(t, hex.EncodeToString(encode(kvpub.SGLangConfig(), prefix.Event{Kind: prefix.Removed, Hashes: []uint64{uint64(hash)}})),
			hex.EncodeToString([]byte("block_hashes"))+"91"+want)
	}
	for want, n := range map[string]int{"bf": 31, "d920": 32, "da0100": 256, "db00010000": 65536} {
		cfg := kvpub.SGLangConfig()
		salt := strings.Repeat("x", n)
		require.Contains(t, hex.EncodeToString(encode(cfg, prefix.Event{Kind: prefix.Stored, Salt: salt})), hex.EncodeToString([]byte("cache_salt"))+want+"78")
	}
	for want, n := range map[string]int{"9f": 15, "dc0010": 16, "dd00010000": 65536} {
		require.Contains(t, hex.EncodeToString(encode(kvpub.DefaultConfig(), prefix.Event{Kind: prefix.Stored, Tokens: make([]uint32, n), BlockTokens: 1})),
			hex.EncodeToString([]byte("token_ids"))+want+"00")
	}
}

func TestHashesAsBytes(t *testing.T) {
	for form, head := range map[kvpub.HashForm]string{kvpub.SHA256Hashes: "91c420", kvpub.XXH3x128Hashes: "91c410"} {
		cfg := kvpub.DefaultConfig()
		cfg.Hashes = form
		got := hex.EncodeToString(encode(cfg, prefix.Event{Kind: prefix.Removed, Hashes: []uint64{0x0102030405060708}}))
		require.Contains(t, got, hex.EncodeToString([]byte("block_hashes"))+head)
		require.Contains(t, got, "0102030405060708"+"a66d656469756d", "the integer's bytes are the last ones")
	}
}

func TestRankMayBeUnknown(t *testing.T) {
	vllm, sglang := kvpub.DefaultConfig(), kvpub.SGLangConfig()
	vllm.Rank, sglang.Rank = nil, nil
	require.Equal(t, "92cb3ff800000000000090", hex.EncodeToString(encode(vllm)))
	require.Equal(t, "93cb3ff800000000000090c0", hex.EncodeToString(encode(sglang)))
}
