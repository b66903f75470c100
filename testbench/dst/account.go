package dst

import (
	"math"

	"plimsoll/scoring/prefix"
)

// account is what a life of an engine has published, by names of our own: which blocks its cache held after each batch.
// It is kept at the publisher, from the engine's own events, and knows nothing of what became of them on their way.
type account struct {
	named  map[uint64]prefix.Key // by the engine's hash
	blocks map[prefix.Key]*presence
	key    []prefix.Key // scratch
}

// presence is when a block was there.
type presence struct {
	copies int
	again  bool // stored again from its sequence's start on: that may be a copy, or a report of what is there
	spans  []span
}

// span counts batches: the block was there after batch from-1 and before batch to-1.
type span struct{ from, to uint64 }

func newAccount() account {
	return account{named: map[uint64]prefix.Key{}, blocks: map[prefix.Key]*presence{}}
}

// accountOf is the account of a cache that holds what was stored.
func accountOf(stores []prefix.Event) account {
	a := newAccount()
	a.apply(0, stores)
	return a
}

// root is the parent of a sequence's first block.
func root(lora, salt string) prefix.Key {
	return prefix.Namespace{Model: modelName, LoRA: lora, Salt: salt}.Seed()
}

// names are those of a sequence's full blocks.
func names(lora, salt string, tokens []uint32) []prefix.Key {
	return prefix.AppendKeys(nil, root(lora, salt), tokens, blockTokens)
}

// apply takes batch seq.
func (a *account) apply(seq uint64, events []prefix.Event) {
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case prefix.Stored:
			a.store(seq, e)
		case prefix.Removed:
			for _, h := range e.Hashes {
				if r := a.blocks[a.named[h]]; r != nil && r.copies > 0 {
					if r.copies--; r.copies == 0 {
						r.end(seq)
					}
				}
			}
		case prefix.Cleared:
			for _, r := range a.blocks {
				if r.copies > 0 {
					r.copies = 0
					r.end(seq)
				}
			}
		case prefix.NumEventKinds:
		}
	}
}

func (r *presence) end(seq uint64) { r.spans[len(r.spans)-1].to = seq + 1 }

func (a *account) store(seq uint64, e *prefix.Event) {
	n := root(e.LoRA, e.Salt)
	if e.Parent != nil {
		n = a.named[*e.Parent] // an engine stores what comes before first
	}
	again := e.Parent == nil
	for _, h := range e.Hashes {
		r := a.blocks[a.named[h]]
		again = again && r != nil && r.copies > 0
	}
	for i, h := range e.Hashes {
		a.key = prefix.AppendKeys(a.key[:0], n, e.Tokens[i*e.BlockTokens:(i+1)*e.BlockTokens], e.BlockTokens)
		n = a.key[0]
		a.named[h] = n
		r := a.blocks[n]
		if r == nil {
			r = &presence{}
			a.blocks[n] = r
		}
		if r.copies++; r.copies == 1 {
			r.spans = append(r.spans, span{seq + 1, math.MaxUint64})
		}
		r.again = r.again || again
	}
}

// has says whether a block was there after so many batches.
func (a *account) has(count uint64, n prefix.Key) bool {
	r := a.blocks[n]
	if r == nil {
		return false
	}
	for i := len(r.spans) - 1; i >= 0; i-- {
		if s := r.spans[i]; s.from <= count {
			return count < s.to
		}
	}
	return false
}

// sure is the overlap that an index which was told of so many batches must know of: not what may be gone with one of two
// copies.
func (a *account) sure(count uint64, names []prefix.Key) int {
	for i, n := range names {
		if !a.has(count, n) || a.blocks[n].again {
			return i
		}
	}
	return len(names)
}

// had says whether a block was there when a subscription stood at p.
func (p position) had(n prefix.Key) bool { return p.life != nil && p.life.account.has(p.count, n) }

// sure is the overlap that a subscription which has missed nothing must have told of.
func (p position) sure(names []prefix.Key) int {
	if p.life == nil {
		return 0
	}
	return p.life.account.sure(p.count, names)
}

// told says whether a subscription that stands at p was told all that an engine has published.
func (p position) told(l *life) bool {
	return p == position{l, l.published} || p.life == nil && l.published == 0
}
