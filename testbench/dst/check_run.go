package dst

import (
	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// heardOf is what a subscription was told since it last knew nothing: the blocks that its index must hold although it does not know what
// was there before. A block whose parent was told of later is one of them as soon as that was. Names are those of the life's account.
type heardOf struct {
	life   *life
	blocks map[prefix.Key]*heardBlock
}

// heardBlock is a block.
type heardBlock struct {
	copies int
	unsure bool // it was told of twice: that may be a copy, or a report of what is there
}

// hear takes a batch that was in order.
func (t *heardOf) hear(at *life, events []prefix.Event) {
	if t.life != at {
		*t = heardOf{life: at, blocks: map[prefix.Key]*heardBlock{}}
	}
	for i := range events {
		e := &events[i]
		for _, h := range e.Hashes {
			n, known := at.account.named[h]
			switch b := t.blocks[n]; {
			case !known:
			case e.Kind == prefix.Stored && b == nil:
				t.blocks[n] = &heardBlock{copies: 1}
			case e.Kind == prefix.Stored:
				b.unsure = b.unsure || b.copies > 0
				b.copies++
			case e.Kind == prefix.Removed && b != nil && b.copies > 0:
				b.copies--
			}
		}
		if e.Kind == prefix.Cleared {
			clear(t.blocks)
		}
	}
}

// sure is the overlap that the index must know of.
func (t *heardOf) sure(names []prefix.Key) int {
	for i, n := range names {
		if b := t.blocks[n]; b == nil || b.copies == 0 || b.unsure {
			return i
		}
	}
	return len(names)
}

// follow keeps the account of what a subscription was told.
func (l *link) follow(b engine.KVBatch) {
	if b.Reset {
		l.told = heardOf{}
	}
	if l.applied.life != nil && len(b.Events) > 0 {
		l.told.hear(l.applied.life, b.Events)
	}
}

// tail are the names of a call's first prompt without its first block: of a sequence that nobody has sent.
func (c *call) tail() []prefix.Key {
	if c.tailed == nil && len(c.ids[0]) > blockTokens {
		c.tailed = names(c.req.LoRA, c.req.CacheSalt, c.ids[0][blockTokens:])
	}
	return c.tailed
}

// unsent looks whether the index claims what comes behind the first block of a prompt to be a sequence of its own.
func (f *feed) unsent(c *call) {
	blocks := c.tail()
	if len(blocks) == 0 {
		return
	}
	if got, most := f.overlap(blocks), f.slot.now(f.w.now, blocks); got > most {
		f.w.violate(Index, "%s: of what call %d has behind its first block its index holds %d blocks as a sequence of its own, and %d were published",
			f.host.id, c.n, got, most)
	}
}
