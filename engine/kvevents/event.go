package kvevents

import (
	"bytes"
	"math/bits"

	"github.com/tinylib/msgp/msgp"
	"github.com/zeebo/xxh3"

	"plimsoll/scoring/prefix"
)

// add turns the fields of an event of a known kind into an event of the index.
func (d *Decoder) add(k kind, f *fields) error {
	e := prefix.Event{Tier: tierOf(f.medium, f.locality), Group: f.group}
	switch k {
	case storedKind:
		if !f.hasHashes || !f.hasParent || f.badHashes > 0 {
			return errMissing // without its place in the sequence, or with holes, nothing of it can be claimed
		}
		e.Kind, e.Hashes = prefix.Stored, f.hashes
		e.Tokens, e.BlockTokens = f.tokens, f.blockTokens
		if !f.isRoot {
			d.parents = append(d.parents, f.parent)
			e.Parent = &d.parents[len(d.parents)-1]
		}
		e.Attention, e.WindowTokens = attentionOf(f)
		e.LoRA = d.adapter(f)
		if err := d.readExtras(f, &e); err != nil {
			return err
		}
	case removedKind:
		if !f.hasHashes {
			return errMissing
		}
		e.Kind, e.Hashes = prefix.Removed, f.hashes
	case clearedKind:
		e = prefix.Event{Kind: prefix.Cleared}
	case unreadKind, unknownKind:
		return errShape
	}
	d.events = append(d.events, e)
	return nil
}

// adapter returns the name of the LoRA adapter. Releases before lora_name tell only a number that each server counts for
// itself: no prompt is asked for under such a name, so that those blocks are known and never taken for the base model's.
func (d *Decoder) adapter(f *fields) string {
	switch {
	case len(f.adapter) > 0:
		return d.names.name(f.adapter)
	case f.adapterID != nil:
		d.scratch = append(append(d.scratch[:0], "\x00lora_id "...), f.adapterID...)
		return d.names.name(d.scratch)
	default:
		return ""
	}
}

// tierOf maps where a block lies. A nil medium is the accelerator's. What lies on another machine counts like a remote
// store, whatever its medium there; so does a medium of a name that we do not know, because the slowest tier claims least.
func tierOf(medium, locality []byte) prefix.Tier {
	if bytes.EqualFold(locality, []byte("REMOTE")) {
		return prefix.Disk
	}
	is := func(name string) bool { return len(name) == len(medium) && bytes.EqualFold(medium, []byte(name)) }
	switch {
	case len(medium) == 0 || is("GPU"):
		return prefix.Device
	case is("CPU") || is("CPU_PINNED") || is("CPU_TIER1") || is("CPU_TIER2"):
		return prefix.Host
	default: // STORAGE, FS, OBJ, DISK, EXTERNAL, and what connectors call theirs
		return prefix.Disk
	}
}

// attentionOf maps the kind of a group's layers. A group without a kind is full attention if it is the only one; further
// ones of releases that do not tell the kind may be anything. A sliding window of unknown length is taken for a full one:
// that asks for more blocks than a hit needs, never for fewer.
func attentionOf(f *fields) (a prefix.Attention, windowTokens int) {
	switch string(f.spec) {
	case "full_attention", "mla_attention", "sink_full_attention":
		return prefix.FullAttention, 0
	case "sliding_window", "sliding_window_mla":
		if f.windowTokens > 0 {
			return prefix.SlidingWindow, f.windowTokens
		}
		return prefix.FullAttention, 0
	case "":
		if f.group == 0 {
			return prefix.FullAttention, 0
		}
	}
	return prefix.OtherAttention, 0
}

// readExtras reads extra_keys: for each block nil or a list of what its KV depends on beside the tokens. vLLM lists the
// adapter's name (on every block), [id, offset] of images, the cache salt (on the first block of a sequence) and digests
// of embeddings, in this order and without saying which is which. The adapter's name is told apart by being the first
// one equal to it, even if the salt is the same word; the salt by being the next string.
func (d *Decoder) readExtras(f *fields, e *prefix.Event) error {
	if f.salt != nil {
		e.Salt = d.names.name(f.salt)
	}
	if f.extras == nil {
		return nil
	}
	n, b, err := readLength(f.extras)
	if err != nil {
		return err
	}
	blocks := len(f.hashes)
	if f.blockTokens > 0 {
		blocks = max(blocks, len(f.tokens)/f.blockTokens)
	}
	from, found := len(d.extras), false
	for i := range n {
		var salt *string
		if i == 0 && f.isRoot && f.salt == nil {
			salt = &e.Salt
		}
		var extra uint64
		if extra, b, err = d.readExtra(b, f.adapter, salt); err != nil {
			return err
		}
		if i < blocks {
			d.extras = append(d.extras, extra)
			found = found || extra != 0
		}
	}
	for len(d.extras) < from+blocks {
		d.extras = append(d.extras, 0)
	}
	if found {
		e.Extras = d.extras[from:len(d.extras):len(d.extras)]
	} else {
		d.extras = d.extras[:from]
	}
	return nil
}

// readExtra hashes one block's list, 0 for nothing. The first string that is not the adapter's name goes to salt, unless
// that is nil.
func (d *Decoder) readExtra(b, adapter []byte, salt *string) (extra uint64, rest []byte, err error) {
	if msgp.NextType(b) == msgp.NilType {
		rest, err = msgp.ReadNilBytes(b)
		return 0, rest, err
	}
	n, b, err := readLength(b)
	if err != nil {
		return 0, nil, err
	}
	named := len(adapter) == 0
	for range n {
		if msgp.NextType(b) == msgp.StrType {
			text, after, err := msgp.ReadStringZC(b)
			switch {
			case err != nil:
				return 0, nil, err
			case !named && bytes.Equal(text, adapter):
				named, b = true, after
				continue
			case salt != nil:
				*salt, salt, b = d.names.name(text), nil, after
				continue
			}
		}
		if rest, err = msgp.Skip(b); err != nil {
			return 0, nil, err
		}
		extra = chainExtra(extra, xxh3.Hash(b[:len(b)-len(rest)]))
		b = rest
	}
	return extra, b, nil
}

// chainExtra mixes one more hash in; the result depends on the order and is never 0, which means nothing.
func chainExtra(sum, hash uint64) uint64 {
	return max(1, bits.RotateLeft64(sum, 23)^hash)
}

// interner gives equal strings one copy. It forgets all of them at namesMax or nameBytesMax, so that tenants who make up
// a salt a request do not fill the memory.
type interner struct {
	names map[string]string
	bytes int
}

const (
	namesMax     = 4096
	nameBytesMax = 1 << 20
)

func (n *interner) name(text []byte) string {
	if s, ok := n.names[string(text)]; ok { // no copy is made for the look-up
		return s
	}
	if n.names == nil || len(n.names) >= namesMax || n.bytes+len(text) > nameBytesMax {
		n.names, n.bytes = map[string]string{}, 0
	}
	s := string(text)
	n.names[s] = s
	n.bytes += len(s)
	return s
}
