package kvevents

import (
	"github.com/tinylib/msgp/msgp"
)

// kind is the type of an event on the wire.
type kind uint8

const (
	unreadKind  kind = iota // the type itself cannot be read
	unknownKind             // a type of another release
	storedKind
	removedKind
	clearedKind
)

func kindOf(tag []byte) kind {
	switch string(tag) {
	case "BlockStored":
		return storedKind
	case "BlockRemoved":
		return removedKind
	case "AllBlocksCleared":
		return clearedKind
	default:
		return unknownKind
	}
}

// field is a field of an event.
type field uint8

const (
	otherField field = iota // one that says nothing to us
	hashesField
	parentField
	tokensField
	sizeField
	adapterIDField
	mediumField
	adapterField
	adapterOrSaltField // place 7 of the array form: a name in vLLM, a map with the salt in SGLang 0.5.18
	extrasField
	groupField
	specField
	windowField
	localityField
	saltField
)

// The array form has its fields by place, after the tag; trailing ones may be absent.
var (
	storedPlaces = [...]field{
		hashesField, parentField, tokensField, sizeField, adapterIDField, mediumField, adapterOrSaltField,
		extrasField, groupField, specField, windowField, localityField,
	}
	removedPlaces = [...]field{hashesField, mediumField, groupField, localityField}
)

func fieldOf(key []byte) field {
	switch string(key) {
	case "block_hashes":
		return hashesField
	case "parent_block_hash":
		return parentField
	case "token_ids":
		return tokensField
	case "block_size":
		return sizeField
	case "lora_id":
		return adapterIDField
	case "medium":
		return mediumField
	case "lora_name":
		return adapterField
	case "extra_keys":
		return extrasField
	case "group_idx":
		return groupField
	case "kv_cache_spec_kind":
		return specField
	case "kv_cache_spec_sliding_window":
		return windowField
	case "locality":
		return localityField
	case "cache_salt":
		return saltField
	default:
		return otherField
	}
}

// fields is what an event says, as far as it was read. Byte slices are views of the payload; nil ones are absent.
type fields struct {
	hashes    []uint64
	hasHashes bool
	badHashes int // elements of the list that are no hashes

	parent    uint64
	isRoot    bool // parent is nil
	hasParent bool

	tokens      []uint32
	blockTokens int

	adapter, adapterID []byte // name; the raw value of lora_id
	salt               []byte
	medium, locality   []byte
	extras             []byte // raw value of extra_keys
	spec               []byte

	group        int
	hasGroup     bool
	windowTokens int
	hasWindow    bool
}

// readFields reads an event of either form and returns what follows it.
func (d *Decoder) readFields(b []byte, f *fields) (kind, []byte, error) {
	switch msgp.NextType(b) { //nolint:exhaustive // nothing else is an event
	case msgp.MapType:
		return d.readMap(b, f)
	case msgp.ArrayType:
		return d.readArray(b, f)
	default:
		return unreadKind, nil, errShape
	}
}

func (d *Decoder) readArray(b []byte, f *fields) (kind, []byte, error) {
	n, b, err := readLength(b)
	if err != nil {
		return unreadKind, nil, err
	}
	if n == 0 {
		return unreadKind, nil, errMissing
	}
	tag, b, err := msgp.ReadStringZC(b)
	if err != nil {
		return unreadKind, nil, err
	}
	k := kindOf(tag)
	var places []field
	switch k {
	case storedKind:
		places = storedPlaces[:]
	case removedKind:
		places = removedPlaces[:]
	case clearedKind, unknownKind, unreadKind:
	}
	for i := range n - 1 {
		at := otherField
		if i < len(places) {
			at = places[i]
		}
		if b, err = d.readField(at, b, f); err != nil {
			return k, nil, err
		}
	}
	return k, b, nil
}

// readMap reads the map form. Its type comes first from every known encoder; where it does not it is looked for, because
// the fields of an unknown type may be of any shape.
func (d *Decoder) readMap(b []byte, f *fields) (kind, []byte, error) {
	n, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return unreadKind, nil, err
	}
	k, err := findKind(b, n)
	if err != nil {
		return k, nil, err
	}
	for range n {
		key, rest, err := msgp.ReadMapKeyZC(b)
		if err != nil {
			return k, nil, err
		}
		at := otherField
		if k == storedKind || k == removedKind {
			at = fieldOf(key)
		}
		if b, err = d.readField(at, rest, f); err != nil {
			return k, nil, err
		}
	}
	return k, b, nil
}

// findKind returns the type of an event of n keys.
func findKind(b []byte, n uint32) (kind, error) {
	for range n {
		key, rest, err := msgp.ReadMapKeyZC(b)
		if err != nil {
			return unreadKind, err
		}
		if string(key) == "type" {
			tag, _, err := msgp.ReadStringZC(rest)
			if err != nil {
				return unreadKind, err
			}
			return kindOf(tag), nil
		}
		if b, err = msgp.Skip(rest); err != nil {
			return unreadKind, err
		}
	}
	return unreadKind, errMissing
}

// readField reads the value of a field.
func (d *Decoder) readField(at field, b []byte, f *fields) (rest []byte, err error) {
	switch at {
	case hashesField:
		if err := d.fits(b, hashBytes); err != nil {
			return nil, err
		}
		from := len(d.hashes)
		d.hashes, f.badHashes, rest, err = appendHashes(d.hashes, b)
		f.hashes, f.hasHashes = d.hashes[from:len(d.hashes):len(d.hashes)], err == nil
		return rest, err
	case parentField:
		f.hasParent = true
		if msgp.NextType(b) == msgp.NilType {
			f.isRoot = true
			return msgp.ReadNilBytes(b)
		}
		f.parent, rest, err = readHash(b)
		return rest, err
	case tokensField:
		if err := d.fits(b, tokenBytes); err != nil {
			return nil, err
		}
		from := len(d.tokens)
		d.tokens, rest, err = appendTokens(d.tokens, b)
		f.tokens = d.tokens[from:len(d.tokens):len(d.tokens)]
		return rest, err
	case sizeField:
		f.blockTokens, _, rest, err = readCount(b, blockTokensMax)
		return rest, err
	case groupField:
		f.group, f.hasGroup, rest, err = readCount(b, groupMax)
		return rest, err
	case windowField:
		f.windowTokens, f.hasWindow, rest, err = readCount(b, windowMax)
		return rest, err
	case mediumField:
		f.medium, rest, err = readText(b)
	case adapterField:
		f.adapter, rest, err = readText(b)
	case localityField:
		f.locality, rest, err = readText(b)
	case specField:
		f.spec, rest, err = readText(b)
	case saltField:
		f.salt, rest, err = readText(b)
	case adapterIDField:
		f.adapterID, rest, err = rawValue(b)
	case extrasField:
		f.extras, rest, err = rawValue(b)
	case adapterOrSaltField:
		if msgp.NextType(b) == msgp.MapType {
			return readSaltMap(b, f)
		}
		f.adapter, rest, err = readText(b)
	case otherField:
		rest, err = msgp.Skip(b)
	}
	return rest, err
}

// rawValue returns the bytes of a value, nil for a nil.
func rawValue(b []byte) (raw, rest []byte, err error) {
	rest, err = msgp.Skip(b)
	if err != nil {
		return nil, nil, err
	}
	if msgp.NextType(b) == msgp.NilType {
		return nil, rest, nil
	}
	return b[:len(b)-len(rest)], rest, nil
}

// readSaltMap reads what SGLang 0.5.18 puts at the place of the adapter's name: {"cache_salt": .., "session_id": ..}.
func readSaltMap(b []byte, f *fields) ([]byte, error) {
	n, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return nil, err
	}
	for range n {
		key, rest, err := msgp.ReadMapKeyZC(b)
		if err != nil {
			return nil, err
		}
		if string(key) == "cache_salt" {
			f.salt, b, err = readText(rest)
		} else {
			b, err = msgp.Skip(rest)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}
