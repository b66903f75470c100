package kvevents

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tinylib/msgp/msgp"
	"github.com/zeebo/xxh3"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// The test vectors of the wire contract, A.1.4 and B.3.
const (
	vectorMapStore  = "93cb3ff8000000000000918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cfdab89baa7b5857c0b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b65797391c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00"
	vectorMapRemove = "93cb3ff80000000000009284a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cfdab89baa7b5857c0a66d656469756da3475055a967726f75705f6964780081a474797065b0416c6c426c6f636b73436c656172656400"
	vectorArray     = "93cb3ff8000000000000939aab426c6f636b53746f72656491cfdab89baa7b5857c0c0940102030404c0a3475055c091c00094ac426c6f636b52656d6f76656491cfdab89baa7b5857c0a34750550091b0416c6c426c6f636b73436c656172656400"
	vectorSGLang    = "93cb3ff80000000000009187a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391fbb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da347505500"
)

func unhex(tb testing.TB, digits string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(digits)
	require.NoError(tb, err)
	return b
}

func TestVectors(t *testing.T) {
	stored := prefix.Event{Kind: prefix.Stored, Hashes: []uint64{15760518052499183552}, Tokens: []uint32{1, 2, 3, 4}, BlockTokens: 4}
	removed := prefix.Event{Kind: prefix.Removed, Hashes: []uint64{15760518052499183552}}
	negative := stored
	negative.Hashes = []uint64{math.MaxUint64 - 4}
	for name, c := range map[string]struct {
		payload string
		want    []prefix.Event
	}{
		"map store":            {vectorMapStore, []prefix.Event{stored}},
		"map remove and clear": {vectorMapRemove, []prefix.Event{removed, {Kind: prefix.Cleared}}},
		"array, all three":     {vectorArray, []prefix.Event{stored, removed, {Kind: prefix.Cleared}}},
		"SGLang, hash -5":      {vectorSGLang, []prefix.Event{negative}},
	} {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			b, err := d.Decode(unhex(t, c.payload))
			require.NoError(t, err)
			require.True(t, b.At.Equal(time.Unix(1, 5e8)))
			require.True(t, b.Ranked)
			require.Zero(t, b.Rank)
			require.Zero(t, b.Skipped)
			require.Equal(t, c.want, b.Events)
		})
	}
}

// pack encodes nested Go values: m and l are maps and lists in order; numbers, strings, bytes, nil and raw as they are.
type (
	m   []any
	l   []any
	raw []byte
)

func pack(v any) []byte {
	switch v := v.(type) {
	case m:
		b := msgp.AppendMapHeader(nil, uint32(len(v)/2))
		for _, e := range v {
			b = append(b, pack(e)...)
		}
		return b
	case l:
		b := msgp.AppendArrayHeader(nil, uint32(len(v)))
		for _, e := range v {
			b = append(b, pack(e)...)
		}
		return b
	case raw:
		return v
	default:
		b, err := msgp.AppendIntf(nil, v)
		if err != nil {
			panic(err)
		}
		return b
	}
}

// storeOf is a store of two blocks of two tokens, with changes of its fields; a nil change takes the key out, nothing is
// msgpack's nil.
func storeOf(changes ...any) m {
	fields := m{
		"type", "BlockStored", "block_hashes",
		l{1, 2},
		"parent_block_hash", nothing, "token_ids",
		l{10, 11, 12, 13},
		"block_size", 2, "lora_id", nothing, "medium", "GPU", "lora_name", nothing,
	}
	for i := 0; i < len(changes); i += 2 {
		at := -1
		for k := 0; k < len(fields); k += 2 {
			if fields[k] == changes[i] {
				at = k
			}
		}
		switch {
		case at < 0:
			fields = append(fields, changes[i], changes[i+1])
		case changes[i+1] == nil:
			fields = append(fields[:at:at], fields[at+2:]...)
		default:
			fields[at+1] = changes[i+1]
		}
	}
	return fields
}

var nothing = raw{0xc0}

func batchOf(events ...any) []byte { return pack(l{1.5, l(events), 0}) }

// one is what a store of two blocks reads as, changed.
func one(change func(*prefix.Event)) []prefix.Event {
	e := prefix.Event{Kind: prefix.Stored, Hashes: []uint64{1, 2}, Tokens: []uint32{10, 11, 12, 13}, BlockTokens: 2}
	if change != nil {
		change(&e)
	}
	return []prefix.Event{e}
}

func withExtra(hashes ...uint64) func(*prefix.Event) {
	return func(e *prefix.Event) { e.Extras = hashes }
}

// TestDecodeFields: every field, in every shape that is known of it.
func TestDecodeFields(t *testing.T) {
	digest := append(bytes.Repeat([]byte{0xaa}, 24), 0, 0, 0, 0, 0, 0, 0, 7)
	image := chainExtra(0, xxhOf(pack(l{"image", 3})))
	bigger := l{"BlockStored", l{1, 2}, nothing, l{10, 11, 12, 13}, 2, nothing, "GPU"}
	for name, c := range map[string]struct {
		event any
		want  []prefix.Event
	}{
		"plain":                       {storeOf(), one(nil)},
		"keys in another order":       {append(m{"medium", "GPU", "group_idx", 0}, storeOf("medium", nil)...), one(nil)},
		"unknown keys":                {storeOf("origin", "NEW", "remaining_copy_counts", l{1, m{"a", l{}}}), one(nil)},
		"session and ownership":       {storeOf("session_id", "s", "ownership", "kvcr", "locality", "LOCAL"), one(nil)},
		"ints of every width":         {storeOf("token_ids", l{raw{0x0a}, raw{0xcc, 11}, raw{0xcd, 0, 12}, raw{0xce, 0, 0, 0, 13}}), one(nil)},
		"ints of every signed width":  {storeOf("token_ids", l{raw{0xd0, 10}, raw{0xd1, 0, 11}, raw{0xd2, 0, 0, 0, 12}, raw{0xd3, 0, 0, 0, 0, 0, 0, 0, 13}}), one(nil)},
		"64-bit token":                {storeOf("token_ids", l{10, 11, 12, raw{0xcf, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}}), one(func(e *prefix.Event) { e.Tokens[3] = math.MaxUint32 })},
		"pairs of neighbours":         {storeOf("token_ids", l{l{10, 11}, l{11, 12}, l{12, 13}, l{13, 14}}), one(nil)},
		"no tokens at all":            {storeOf("token_ids", l{}, "block_size", 0), one(func(e *prefix.Event) { e.Tokens, e.BlockTokens = nil, 0 })},
		"hash negative, 64 bits":      {storeOf("block_hashes", l{raw{0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe}, 2}), one(func(e *prefix.Event) { e.Hashes[0] = math.MaxUint64 - 1 })},
		"hashes as digests":           {storeOf("block_hashes", l{digest, digest[16:]}, "parent_block_hash", digest), one(func(e *prefix.Event) { e.Hashes, e.Parent = []uint64{7, 7}, new(uint64(7)) })},
		"parent":                      {storeOf("parent_block_hash", -9), one(func(e *prefix.Event) { e.Parent = new(uint64(math.MaxUint64 - 8)) })},
		"no hashes":                   {storeOf("block_hashes", l{}), one(func(e *prefix.Event) { e.Hashes = nil })},
		"no medium":                   {storeOf("medium", nothing), one(nil)},
		"medium cpu":                  {storeOf("medium", "cpu"), one(tier(prefix.Host))},
		"medium CPU_PINNED":           {storeOf("medium", "CPU_PINNED"), one(tier(prefix.Host))},
		"medium CPU_TIER2":            {storeOf("medium", "Cpu_Tier2"), one(tier(prefix.Host))},
		"medium STORAGE":              {storeOf("medium", "STORAGE"), one(tier(prefix.Disk))},
		"medium EXTERNAL":             {storeOf("medium", "EXTERNAL"), one(tier(prefix.Disk))},
		"medium of another name":      {storeOf("medium", "lmcache"), one(tier(prefix.Disk))},
		"remote":                      {storeOf("medium", "GPU", "locality", "REMOTE"), one(tier(prefix.Disk))},
		"adapter":                     {storeOf("lora_id", 1, "lora_name", "a", "extra_keys", l{l{"a"}, l{"a"}}), one(func(e *prefix.Event) { e.LoRA = "a" })},
		"adapter by number only":      {storeOf("lora_id", 3, "lora_name", nil), one(func(e *prefix.Event) { e.LoRA = "\x00lora_id \x03" })},
		"salt":                        {storeOf("extra_keys", l{l{"s"}, nothing}), one(func(e *prefix.Event) { e.Salt = "s" })},
		"salt and adapter":            {storeOf("lora_id", 1, "lora_name", "a", "extra_keys", l{l{"a", "s"}, l{"a"}}), one(func(e *prefix.Event) { e.LoRA, e.Salt = "a", "s" })},
		"salt named like the adapter": {storeOf("lora_id", 1, "lora_name", "a", "extra_keys", l{l{"a", "a"}, l{"a"}}), one(func(e *prefix.Event) { e.LoRA, e.Salt = "a", "a" })},
		"string of a later block": {storeOf("parent_block_hash", 5, "extra_keys", l{l{"s"}, nothing}), one(func(e *prefix.Event) {
			e.Parent, e.Extras = new(uint64(5)), []uint64{chainExtra(0, xxhOf(pack("s"))), 0}
		})},
		"image":                       {storeOf("extra_keys", l{nothing, l{l{"image", 3}}}), one(withExtra(0, image))},
		"image before the salt":       {storeOf("extra_keys", l{l{l{"image", 3}, "s"}, nothing}), one(func(e *prefix.Event) { e.Salt, e.Extras = "s", []uint64{image, 0} })},
		"two images":                  {storeOf("extra_keys", l{nothing, l{l{"image", 3}, l{"image", 3}}}), one(withExtra(0, chainExtra(image, xxhOf(pack(l{"image", 3})))))},
		"digest of embeddings":        {storeOf("extra_keys", l{l{digest}, nothing}), one(withExtra(chainExtra(0, xxhOf(pack(digest))), 0))},
		"fewer extra keys":            {storeOf("extra_keys", l{l{l{"image", 3}}}), one(withExtra(image, 0))},
		"more extra keys":             {storeOf("extra_keys", l{nothing, nothing, l{l{"image", 3}}}), one(nil)},
		"SGLang's salt":               {storeOf("lora_name", nil, "cache_salt", "s", "session_id", "x"), one(func(e *prefix.Event) { e.Salt = "s" })},
		"second group":                {storeOf("group_idx", 2, "kv_cache_spec_kind", "mla_attention"), one(func(e *prefix.Event) { e.Group = 2 })},
		"second group without a kind": {storeOf("group_idx", 2), one(func(e *prefix.Event) { e.Group, e.Attention = 2, prefix.OtherAttention })},
		"sliding window": {storeOf("group_idx", 1, "kv_cache_spec_kind", "sliding_window", "kv_cache_spec_sliding_window", 64, "block_hashes", l{2}), one(func(e *prefix.Event) {
			e.Group, e.Attention, e.WindowTokens, e.Hashes = 1, prefix.SlidingWindow, 64, []uint64{2}
		})},
		"window of unknown length":   {storeOf("kv_cache_spec_kind", "sliding_window", "kv_cache_spec_sliding_window", nothing), one(nil)},
		"mamba":                      {storeOf("kv_cache_spec_kind", "mamba"), one(func(e *prefix.Event) { e.Attention = prefix.OtherAttention })},
		"a kind of another release":  {storeOf("kv_cache_spec_kind", "spiral"), one(func(e *prefix.Event) { e.Attention = prefix.OtherAttention })},
		"array of 0.11":              {bigger, one(nil)},
		"array of the first release": {bigger[:6], one(nil)},
		"array, adapter":             {append(bigger[:7:7], "a"), one(func(e *prefix.Event) { e.LoRA = "a" })},
		"array, all": {append(bigger[:7:7], "a", l{l{"a", "s"}, l{"a"}}, 1, "sliding_window", 32, "LOCAL", "more", l{}), one(func(e *prefix.Event) {
			e.LoRA, e.Salt, e.Group, e.Attention, e.WindowTokens = "a", "s", 1, prefix.SlidingWindow, 32
		})},
		"array of SGLang 0.5.18":   {append(bigger[:7:7], m{"cache_salt", "s", "session_id", "x"}), one(func(e *prefix.Event) { e.Salt = "s" })},
		"array with 16-bit length": {raw(append([]byte{0xdc, 0, 1}, pack("AllBlocksCleared")...)), []prefix.Event{{Kind: prefix.Cleared}}},
		"removal of several":       {m{"type", "BlockRemoved", "block_hashes", l{1, -2}, "medium", "CPU", "group_idx", 3}, []prefix.Event{{Kind: prefix.Removed, Hashes: []uint64{1, math.MaxUint64 - 1}, Tier: prefix.Host, Group: 3}}},
		"removal, array":           {l{"BlockRemoved", l{1}, nothing, 3}, []prefix.Event{{Kind: prefix.Removed, Hashes: []uint64{1}, Group: 3}}},
		"removal, shortest array":  {l{"BlockRemoved", l{1}}, []prefix.Event{{Kind: prefix.Removed, Hashes: []uint64{1}}}},
		"cleared with more":        {m{"type", "AllBlocksCleared", "medium", l{}}, []prefix.Event{{Kind: prefix.Cleared}}},
	} {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			b, err := d.Decode(batchOf(c.event, m{"type", "AllBlocksCleared"}))
			require.NoError(t, err)
			require.Zero(t, b.Skipped)
			require.False(t, b.LostRemoval)
			require.Len(t, b.Events, len(c.want)+1)
			for i, want := range c.want {
				requireSameEvent(t, want, b.Events[i])
			}
		})
	}
}

func xxhOf(b []byte) uint64 { return xxh3.Hash(b) }

func tier(where prefix.Tier) func(*prefix.Event) { return func(e *prefix.Event) { e.Tier = where } }

// TestDecodeSkips: what cannot be read is left out and counted, the rest of its batch stays; where it may have been a
// removal that is said.
func TestDecodeSkips(t *testing.T) {
	event, unknown := engine.KVSkipEvent, engine.KVSkipUnknownType
	for name, c := range map[string]struct {
		event  any
		reason engine.KVSkip
		lost   bool
		events int // that are kept all the same
	}{
		"unknown type":               {m{"type", "BlockInactive", "block_hashes", "what"}, unknown, false, 0},
		"unknown type, array":        {l{"TierBlocksCleared", m{}}, unknown, false, 0},
		"no event at all":            {7, event, true, 0},
		"empty map":                  {m{}, event, true, 0},
		"empty array":                {l{}, event, true, 0},
		"no type":                    {m{"block_hashes", l{1}}, event, true, 0},
		"type is a number":           {m{"type", 7}, event, true, 0},
		"tag is a number":            {l{7}, event, true, 0},
		"key is a number":            {m{"type", "BlockStored", 3, 4}, event, false, 0},
		"store without hashes":       {storeOf("block_hashes", nil), event, false, 0},
		"store without parent":       {storeOf("parent_block_hash", nil), event, false, 0},
		"parent is a text":           {storeOf("parent_block_hash", "x"), event, false, 0},
		"hash is a text":             {storeOf("block_hashes", l{1, "x"}), event, false, 0},
		"hash is a short digest":     {storeOf("block_hashes", l{1, []byte{1, 2, 3}}), event, false, 0},
		"token is negative":          {storeOf("token_ids", l{10, -1, 12, 13}), event, false, 0},
		"token is too large":         {storeOf("token_ids", l{10, uint64(1) << 32, 12, 13}), event, false, 0},
		"token is an empty pair":     {storeOf("token_ids", l{10, l{}, 12, 13}), event, false, 0},
		"token is nothing":           {storeOf("token_ids", l{10, nothing, 12, 13}), event, false, 0},
		"block size is negative":     {storeOf("block_size", -1), event, false, 0},
		"adapter is a number":        {storeOf("lora_name", 5), event, false, 0},
		"medium is a number":         {storeOf("medium", 5), event, false, 0},
		"group is too large":         {storeOf("group_idx", 1<<40), event, false, 0},
		"extra keys are a text":      {storeOf("extra_keys", "x"), event, false, 0},
		"an extra key is a text":     {storeOf("extra_keys", l{"x", nothing}), event, false, 0},
		"removal without hashes":     {m{"type", "BlockRemoved"}, event, true, 0},
		"removal, hashes are a text": {m{"type", "BlockRemoved", "block_hashes", "x"}, event, true, 0},
		"removal, one hash is none":  {m{"type", "BlockRemoved", "block_hashes", l{1, "x", 3}}, event, true, 1},
		"removal, medium is a map":   {m{"type", "BlockRemoved", "block_hashes", l{1}, "medium", m{}}, event, true, 0},
		"very deep":                  {raw(append(bytes.Repeat([]byte{0x91}, 5000), 0xc0)), event, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			b, err := d.Decode(batchOf(storeOf(), c.event, m{"type", "AllBlocksCleared"}))
			require.NoError(t, err)
			var want [engine.NumKVSkips]int
			want[c.reason] = 1
			require.Equal(t, want, b.Skipped)
			require.Equal(t, c.lost, b.LostRemoval)
			require.Len(t, b.Events, 2+c.events)
			requireSameEvent(t, one(nil)[0], b.Events[0])
			require.Equal(t, prefix.Event{Kind: prefix.Cleared}, b.Events[1+c.events])
		})
	}
}

// TestDecodeEnvelope: what a batch may look like around its events, and what is none.
func TestDecodeEnvelope(t *testing.T) {
	events := l{storeOf()}
	for name, c := range map[string]struct {
		batch  any
		events int
		at     time.Time
		rank   *int
	}{
		"two":             {l{2.25, events}, 1, time.Unix(2, 25e7), nil},
		"three":           {l{2.25, events, 5}, 1, time.Unix(2, 25e7), new(5)},
		"rank is nothing": {l{2.25, events, nothing}, 1, time.Unix(2, 25e7), nil},
		"four and more":   {l{2.25, events, 1, []byte{1, 2}, m{"a", 1}}, 1, time.Unix(2, 25e7), new(1)},
		"no events":       {l{2.25, l{}, 0}, 0, time.Unix(2, 25e7), new(0)},
		"events nothing":  {l{2.25, nothing, 0}, 0, time.Unix(2, 25e7), new(0)},
		"whole seconds":   {l{3, l{}}, 0, time.Unix(3, 0), nil},
		"short float":     {l{float32(0.5), l{}}, 0, time.Unix(0, 5e8), nil},
		"no time":         {l{nothing, l{}}, 0, time.Time{}, nil},
		"no time at all":  {l{math.NaN(), l{}}, 0, time.Time{}, nil},
		"endless time":    {l{math.Inf(1), l{}}, 0, time.Time{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			b, err := d.Decode(pack(c.batch))
			require.NoError(t, err)
			require.Len(t, b.Events, c.events)
			require.True(t, c.at.Equal(b.At), "%v", b.At)
			require.Equal(t, c.rank != nil, b.Ranked)
			rank, ok := rankOf(pack(c.batch))
			require.Equal(t, b.Ranked, ok)
			if c.rank != nil {
				require.Equal(t, *c.rank, b.Rank)
				require.Equal(t, *c.rank, rank)
			}
		})
	}
	whole := batchOf(storeOf("extra_keys", l{l{"s"}, nothing}))
	for name, payload := range map[string][]byte{
		"empty": {}, "nothing": nothing, "a map": pack(m{"a", 1}), "one": pack(l{1.5}), "time is a text": pack(l{"x", l{}}),
		"events are a text": pack(l{1.5, "x"}), "rank is a text": pack(l{1.5, l{}, "x"}), "rank is negative": pack(l{1.5, l{}, -1}),
		"more after it": append(batchOf(), 0), "a byte that msgpack never uses": append([]byte{0xc1}, whole[1:]...),
		"a list that claims too much": {0x92, 0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			_, err := d.Decode(payload)
			require.ErrorIs(t, err, ErrGarbled)
		})
	}
	for n := range whole {
		var d Decoder
		_, err := d.Decode(whole[:n])
		require.ErrorIs(t, err, ErrGarbled, "cut at %d", n)
	}
}

// TestDecodeClaims: a length that is claimed costs nothing before its elements have come.
func TestDecodeClaims(t *testing.T) {
	for name, field := range map[string]string{"hashes": "block_hashes", "tokens": "token_ids", "extra keys": "extra_keys"} {
		t.Run(name, func(t *testing.T) {
			huge := raw(binary.BigEndian.AppendUint32([]byte{0xdd}, math.MaxUint32))
			payload := pack(l{1.5, l{storeOf(field, huge)}})
			var d Decoder
			_, err := d.Decode(payload)
			require.ErrorIs(t, err, ErrGarbled, "what follows cannot be told apart from it")
			require.Less(t, cap(d.tokens)+cap(d.hashes)+cap(d.extras), 64)
		})
	}
}

// TestDecoderForgetsNames: salts that nobody uses twice do not fill the memory.
func TestDecoderForgetsNames(t *testing.T) {
	var n interner
	for i := range 3 * namesMax {
		name := strings.Repeat("s", 100) + string(binary.BigEndian.AppendUint32(nil, uint32(i)))
		require.Equal(t, name, n.name([]byte(name)))
		require.LessOrEqual(t, len(n.names), namesMax)
		require.LessOrEqual(t, n.bytes, nameBytesMax)
	}
}
