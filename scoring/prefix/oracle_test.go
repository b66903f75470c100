package prefix_test

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// oracle says what an index must answer, by rules that are short and slow. It names blocks by the whole text before and
// in them, so that it shares no hash with the index.
//
// A stored block is located if its parent is the root or a located block of which copies are held, or if copies of it
// are located already; else it waits, and is located as soon as its parent is. Located blocks with copies are held.
type oracle struct {
	entries []*entry
	specs   []*spec
	void    bool
}

// entry is what the engine reported of one block.
type entry struct {
	hash, parent uint64
	root         bool
	own          string // the namespace, or nothing, and this block's tokens
	text         string // all from the namespace on, once located
	located      bool
	copies       int
}

// spec is one speculation.
type spec struct {
	ticket scoring.Ticket
	texts  []string
	from   int
	until  time.Time
}

func (o *oracle) find(hash uint64) *entry {
	for _, e := range o.entries {
		if e.hash == hash {
			return e
		}
	}
	return nil
}

func (o *oracle) held(text string) bool {
	for _, e := range o.entries {
		if e.located && e.copies > 0 && e.text == text {
			return true
		}
	}
	return false
}

// stats is what the index says of itself, counted anew.
func (o *oracle) stats() (blocks, copies, orphans, holes int) {
	seen := map[string]bool{}
	for _, e := range o.entries {
		copies += e.copies
		if !e.located {
			orphans++
		}
		if !e.located || seen[e.text] {
			continue
		}
		seen[e.text] = true
		blocks++
		const blockBytes = 4 * blockTokens
		if !e.root && !o.held(e.text[:len(e.text)-blockBytes]) {
			holes++
		}
	}
	return blocks, copies, orphans, holes
}

func (o *oracle) store(hash uint64, parent *uint64, namespace, tokens string) {
	o.void = false
	e := o.find(hash)
	if e == nil {
		e = &entry{hash: hash, own: tokens}
		if parent == nil {
			e.root, e.own = true, namespace+tokens
		} else {
			e.parent = *parent
		}
		o.entries = append(o.entries, e)
	}
	e.copies++
	for again := true; again; {
		again = false
		for _, e := range o.entries {
			p := o.find(e.parent)
			switch {
			case e.located:
			case e.root:
				e.located, e.text, again = true, e.own, true
			case p != nil && p.located:
				e.located, e.text, again = true, p.text+e.own, true
			}
		}
	}
}

func (o *oracle) remove(hash uint64) {
	o.void = false
	e := o.find(hash)
	if e == nil {
		return
	}
	e.copies--
	if e.copies == 0 {
		o.entries = slices.DeleteFunc(o.entries, func(x *entry) bool { return x == e })
	}
}

func (o *oracle) cleared() {
	o.void = false
	o.entries = nil
}

func (o *oracle) confirm() {
	for _, s := range o.specs {
		for s.from < len(s.texts) && o.held(s.texts[s.from]) {
			s.from++
		}
	}
}

func (o *oracle) speculate(t scoring.Ticket, texts []string, until time.Time) {
	o.withdraw(t)
	o.specs = append(o.specs, &spec{ticket: t, texts: texts, until: until})
	o.confirm()
}

func (o *oracle) withdraw(t scoring.Ticket) {
	o.specs = slices.DeleteFunc(o.specs, func(s *spec) bool { return s.ticket == t })
}

func (o *oracle) reset() {
	*o = oracle{void: true}
}

// match is how many leading texts are held or claimed by a live speculation.
func (o *oracle) match(now time.Time, texts []string) int {
	if o.void {
		return 0
	}
	for n, text := range texts {
		claimed := slices.ContainsFunc(o.specs, func(s *spec) bool {
			return now.Before(s.until) && slices.Contains(s.texts[s.from:], text)
		})
		if !claimed && !o.held(text) {
			return n
		}
	}
	return len(texts)
}

// sequence is a prompt of small alphabet in some namespace.
type sequence struct {
	space  prefix.Namespace
	tokens []uint32
}

func (s sequence) blocks() int { return len(s.tokens) / blockTokens }

func (s sequence) block(i int) []uint32 { return s.tokens[i*blockTokens : (i+1)*blockTokens] }

func (s sequence) spaceText() string { return s.space.LoRA + "\x00" + s.space.Salt + "\x00" }

func (s sequence) blockText(i int) string {
	var b []byte
	for _, t := range s.block(i) {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	return string(b)
}

// texts names the sequence's blocks for the oracle.
func (s sequence) texts() []string {
	out := make([]string, s.blocks())
	text := s.spaceText()
	for i := range out {
		text += s.blockText(i)
		out[i] = text
	}
	return out
}

// keys names them for the index.
func (s sequence) keys() []prefix.Key {
	return prefix.AppendKeys(nil, s.space.Seed(), s.tokens, blockTokens)
}

// engineHash is the name an engine gives to block i: another function than the index's.
func (s sequence) engineHash(i int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.texts()[i]))
	return h.Sum64()
}

// stored is the engine's event for blocks [from, to).
func (s sequence) stored(from, to int) prefix.Event {
	e := prefix.Event{
		Kind: prefix.Stored, BlockTokens: blockTokens, Tokens: s.tokens[from*blockTokens : to*blockTokens],
		LoRA: s.space.LoRA, Salt: s.space.Salt,
	}
	for i := from; i < to; i++ {
		e.Hashes = append(e.Hashes, s.engineHash(i))
	}
	if from > 0 {
		parent := s.engineHash(from - 1)
		e.Parent = &parent
	}
	return e
}

// applyTo tells the oracle the same.
func (s sequence) applyTo(o *oracle, from, to int) {
	if from == 0 && s.reported(o, to) {
		return
	}
	for i := from; i < to; i++ {
		var parent *uint64
		if i > 0 {
			p := s.engineHash(i - 1)
			parent = &p
		}
		o.store(s.engineHash(i), parent, s.spaceText(), s.blockText(i))
	}
}

// reported says whether a store from the start names only what is held: then it is a report and no new copy.
func (s sequence) reported(o *oracle, to int) bool {
	for i := range to {
		if e := o.find(s.engineHash(i)); e == nil || !e.located {
			return false
		}
	}
	return true
}
