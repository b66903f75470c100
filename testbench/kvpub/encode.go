package kvpub

import (
	"fmt"
	"time"

	"plimsoll/scoring/prefix"
)

// Event is a cache event with what only the wire knows of it.
type Event struct {
	prefix.Event
	Session string // session of the request whose blocks were stored; "" for none
}

// Encoder writes batches. It has state: a server numbers its adapters as it meets them.
type Encoder struct {
	dialect Dialect
	form    Form
	fields  int
	rank    *int
	digest  func(uint64) []byte // spells a hash; nil: as an integer
	loras   map[string]uint64
}

// NewEncoder returns the encoder of a configuration that is valid.
func NewEncoder(cfg Config) *Encoder {
	return &Encoder{
		dialect: cfg.Dialect, form: cfg.Form, fields: cfg.StoredFields, rank: cfg.Rank, digest: cfg.Hashes.digest(),
		loras: make(map[string]uint64),
	}
}

// AppendBatch appends the payload of a batch made at a time. Of a prefix.Stored event the keys of real engines are filled in
// from tier, group, attention, adapter, salt and extras. A prefix.Removed of several blocks is one event each for vLLM.
func (e *Encoder) AppendBatch(b []byte, at time.Time, events []Event) []byte {
	b = appendArray(b, e.envelope())
	b = appendFloat(b, seconds(at))
	b = appendArray(b, e.count(events))
	for i := range events {
		b = e.event(b, &events[i])
	}
	switch {
	case e.rank != nil:
		b = appendInt(b, int64(*e.rank))
	case e.envelope() == 3:
		b = appendNil(b)
	}
	return b
}

// seconds are those since 1970, as precise as Python has them.
func seconds(at time.Time) float64 {
	return float64(at.Unix()) + float64(at.Nanosecond())/1e9
}

// envelope counts the members of a batch: SGLang has a place for the rank always.
func (e *Encoder) envelope() int {
	if e.rank == nil && e.dialect == VLLM {
		return 2
	}
	return 3
}

func (e *Encoder) count(events []Event) int {
	n := len(events)
	for i := range events {
		if e.splits(&events[i]) {
			n += len(events[i].Hashes) - 1
		}
	}
	return n
}

// splits reports whether each hash of the event gets an event of its own.
func (e *Encoder) splits(event *Event) bool { return e.dialect == VLLM && event.Kind == prefix.Removed }

func (e *Encoder) event(b []byte, event *Event) []byte {
	switch event.Kind {
	case prefix.Stored:
		if e.dialect == SGLang {
			return e.storedSGLang(b, event)
		}
		return e.stored(b, event)
	case prefix.Removed:
		if !e.splits(event) {
			return e.removed(b, event, event.Hashes)
		}
		for i := range event.Hashes {
			b = e.removed(b, event, event.Hashes[i:i+1])
		}
		return b
	case prefix.Cleared:
		return e.open(b, 1, "AllBlocksCleared")
	case prefix.NumEventKinds:
	}
	panic(fmt.Sprintf("kvpub: an event of kind %d", event.Kind))
}

// open begins an event of so many members, its type included.
func (e *Encoder) open(b []byte, members int, kind string) []byte {
	if e.form == Array {
		return appendText(appendArray(b, members), kind)
	}
	return appendText(appendText(appendMap(b, members), "type"), kind)
}

// key precedes a value, where values have keys.
func (e *Encoder) key(b []byte, name string) []byte {
	if e.form == Array {
		return b
	}
	return appendText(b, name)
}

// stored writes vLLM's keys. What an old version does not know is the end of its array; a key without a value is left out of a
// map, and stands as nil in an array.
func (e *Encoder) stored(b []byte, event *Event) []byte {
	known := Newest
	if e.form == Array {
		known = e.fields
	}
	described := event.BlockTokens > 0 && len(event.Hashes) > 0
	windowed := event.Attention == prefix.SlidingWindow
	inSession := event.Session != "" && e.form == Map
	b = e.open(b, e.storedMembers(known, described, windowed, inSession), "BlockStored")
	b = e.common(b, event)
	b = e.loraID(e.key(b, "lora_id"), event.LoRA)
	b = appendText(e.key(b, "medium"), e.medium(event.Tier))
	if known > 7 {
		b = appendTextOrNil(e.key(b, "lora_name"), event.LoRA)
	}
	switch {
	case known <= 8:
	case described:
		b = extraKeys(e.key(b, "extra_keys"), event)
	case e.form == Array:
		b = appendNil(b)
	}
	if known > 9 {
		b = appendInt(e.key(b, "group_idx"), int64(event.Group))
	}
	if known > 10 {
		b = appendText(e.key(b, "kv_cache_spec_kind"), attention(event.Attention))
	}
	if known > 11 && windowed {
		b = appendInt(e.key(b, "kv_cache_spec_sliding_window"), int64(event.WindowTokens))
	}
	if inSession {
		b = appendText(e.key(b, "session_id"), event.Session)
	}
	return b
}

// storedMembers counts what stored writes.
func (e *Encoder) storedMembers(known int, described, windowed, inSession bool) int {
	members := known
	if !windowed {
		members = min(members, Newest-1)
	}
	if e.form == Map && !described {
		members--
	}
	if inSession {
		members++
	}
	return members
}

// storedSGLang writes SGLang's keys. Version 0.5.18 hangs what is newer than its array on it as a map.
func (e *Encoder) storedSGLang(b []byte, event *Event) []byte {
	late := 0
	if event.Salt != "" {
		late++
	}
	if event.Session != "" {
		late++
	}
	members := 7 + late
	if e.form == Array {
		members = 7 + min(late, 1)
	}
	b = e.open(b, members, "BlockStored")
	b = e.common(b, event)
	b = appendNil(e.key(b, "lora_id"))
	b = appendText(e.key(b, "medium"), e.medium(event.Tier))
	if e.form == Array && late > 0 {
		b = appendMap(b, late)
	}
	if event.Salt != "" {
		b = appendText(appendText(b, "cache_salt"), event.Salt)
	}
	if event.Session != "" {
		b = appendText(appendText(b, "session_id"), event.Session)
	}
	return b
}

// common writes what all stores begin with.
func (e *Encoder) common(b []byte, event *Event) []byte {
	b = e.hashes(e.key(b, "block_hashes"), event.Hashes)
	b = e.key(b, "parent_block_hash")
	if event.Parent == nil {
		b = appendNil(b)
	} else {
		b = e.hash(b, *event.Parent)
	}
	b = appendArray(e.key(b, "token_ids"), len(event.Tokens))
	for _, id := range event.Tokens {
		b = appendUint(b, uint64(id))
	}
	return appendInt(e.key(b, "block_size"), int64(event.BlockTokens))
}

func (e *Encoder) removed(b []byte, event *Event, hashes []uint64) []byte {
	grouped := e.dialect == VLLM && (e.form == Map || e.fields >= 10)
	members := 3
	if grouped {
		members++
	}
	b = e.open(b, members, "BlockRemoved")
	b = e.hashes(e.key(b, "block_hashes"), hashes)
	b = appendText(e.key(b, "medium"), e.medium(event.Tier))
	if grouped {
		b = appendInt(e.key(b, "group_idx"), int64(event.Group))
	}
	return b
}

func (e *Encoder) hashes(b []byte, hashes []uint64) []byte {
	b = appendArray(b, len(hashes))
	for _, h := range hashes {
		b = e.hash(b, h)
	}
	return b
}

func (e *Encoder) hash(b []byte, h uint64) []byte {
	switch {
	case e.dialect == SGLang:
		return appendInt(b, int64(h)) //nolint:gosec // the same 64 bits, signed
	case e.digest != nil:
		return appendBytes(b, e.digest(h))
	}
	return appendUint(b, h)
}

// loraID writes the number that the server has given to an adapter: 1 for the first it has met.
func (e *Encoder) loraID(b []byte, name string) []byte {
	if name == "" {
		return appendNil(b)
	}
	id, ok := e.loras[name]
	if !ok {
		id = uint64(len(e.loras)) + 1
		e.loras[name] = id
	}
	return appendUint(b, id)
}

func (e *Encoder) medium(tier prefix.Tier) string {
	switch tier {
	case prefix.Device:
		return "GPU"
	case prefix.Host:
		if e.dialect == SGLang {
			return "CPU_PINNED"
		}
		return "CPU"
	case prefix.Disk:
		if e.dialect == SGLang {
			return "DISK"
		}
		return "STORAGE"
	case prefix.NumTiers:
	}
	panic(fmt.Sprintf("kvpub: an event of tier %d", tier))
}

func attention(a prefix.Attention) string {
	switch a {
	case prefix.FullAttention:
		return "full_attention"
	case prefix.SlidingWindow:
		return "sliding_window"
	case prefix.OtherAttention:
		return "mamba"
	case prefix.NumAttentions:
	}
	panic(fmt.Sprintf("kvpub: an event of attention %d", a))
}

// extraKeys writes, for every block that the event names, nil or what it depends on beside its tokens: adapter, image and its
// offset, salt. Where fewer blocks are named than the tokens have, they are the last ones.
func extraKeys(b []byte, event *Event) []byte {
	unnamed := (len(event.Tokens)+event.BlockTokens-1)/event.BlockTokens - len(event.Hashes)
	b = appendArray(b, len(event.Hashes))
	for i := range event.Hashes {
		extra := i < len(event.Extras) && event.Extras[i] != 0
		salted := i+unnamed == 0 && event.Parent == nil && event.Salt != ""
		n := 0
		for _, has := range [...]bool{event.LoRA != "", extra, salted} {
			if has {
				n++
			}
		}
		if n == 0 {
			b = appendNil(b)
			continue
		}
		b = appendArray(b, n)
		if event.LoRA != "" {
			b = appendText(b, event.LoRA)
		}
		if extra {
			b = appendUint(appendText(appendArray(b, 2), fmt.Sprintf("%016x", event.Extras[i])), 0)
		}
		if salted {
			b = appendText(b, event.Salt)
		}
	}
	return b
}
