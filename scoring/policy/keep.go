package policy

import (
	"slices"

	"plimsoll/scoring"
	"plimsoll/scoring/queue"
)

// keeps is what the requests that wait are to find on candidates, against those of lower classes.
type keeps struct {
	list []keep
	// room is the sum of the list, one a candidate; empty while the list is.
	room []room
	// serves is the class that is decided for; stale: something was kept for a higher one since.
	serves queue.Class
	stale  bool
	// Scratch of Serve.
	higher  []room
	changed []int
}

// keep is what one request is to find on one candidate.
type keep struct {
	class queue.Class
	at    int
	room  room
}

type room struct {
	blocks scoring.Blocks
	seats  int
}

func (r *room) add(o room) {
	r.blocks += o.blocks
	r.seats += o.seats
}

func (k *keeps) begin() {
	k.list, k.room, k.serves, k.stale = k.list[:0], k.room[:0], 0, false
}

// Keep notes, to the end of the pass, that a request that waits is to find room on a candidate: those that stand in a class below
// leave it alone. One that has to wait for room there gets it in bounded time that way, whatever comes in lower classes.
func (p *Pass) Keep(class queue.Class, d *Demand, f *Fit, i int) {
	k := &p.keeps
	if len(k.room) == 0 {
		k.room = append(k.room, make([]room, len(p.Fleet))...)
	}
	r := room{f.mostBlocks(), d.Seats}
	k.list = append(k.list, keep{class, i, r})
	k.room[i].add(r)
	k.stale = k.stale || class < k.serves
}

// mostBlocks is what a request may need on a candidate. One that refused it knows better what can be shared there.
func (f *Fit) mostBlocks() scoring.Blocks {
	if f.Barred {
		return f.NeedBlocks + f.RideBlocks
	}
	return f.NeedBlocks
}

// Keeps says whether room is kept for anybody in this pass.
func (p *Pass) Keeps() bool { return len(p.keeps.list) > 0 }

// Serve says of which class the requests are that are decided for next: what is kept for higher ones is not theirs. It returns the
// candidates where that changes what is kept, to be told to [Policy.Look]; the list is valid until the next call.
func (p *Pass) Serve(class queue.Class) []int {
	k := &p.keeps
	k.changed = k.changed[:0]
	if class == k.serves && !k.stale {
		return k.changed
	}
	k.serves, k.stale = class, false
	k.higher = slices.Grow(k.higher[:0], len(p.Fleet))[:len(p.Fleet)]
	clear(k.higher)
	for i := range k.list {
		if l := &k.list[i]; l.class < class {
			k.higher[l.at].add(l.room)
		}
	}
	for i, r := range k.higher {
		c := &p.Fleet[i]
		if r != (room{c.KeptBlocks, c.KeptSeats}) {
			c.KeptBlocks, c.KeptSeats = r.blocks, r.seats
			p.Booked(i)
			k.changed = append(k.changed, i)
		}
	}
	return k.changed
}

// Nearest is the candidate on which the least is missing for a request, beside what is kept there for others, as a share of what is
// usable; false if none has room for it when all that was sent there has ended. What is missing there becomes less as long as what is
// free is kept, and nothing is left to wait for when what runs there has ended: a caller that goes on to another one begins anew.
func (p *Pass) Nearest(d *Demand, fits []Fit) (nearest int, found bool) {
	least := 0.0
	for i := range p.Fleet {
		missing, ok := p.missing(d, &fits[i], i)
		if ok && (!found || missing < least) {
			nearest, least, found = i, missing, true
		}
	}
	return nearest, found
}

// HasRoom says whether a candidate has room for a request when all that was sent there has ended.
func (p *Pass) HasRoom(d *Demand, fits []Fit, i int) bool {
	_, ok := p.missing(d, &fits[i], i)
	return ok
}

// missing is the share of a candidate's usable room that is missing there for a request; below 0 if there is more than enough.
func (p *Pass) missing(d *Demand, f *Fit, i int) (share float64, ok bool) {
	c, s, need := &p.Fleet[i], &p.stands[i], f.mostBlocks()
	usable, seats := c.Load.UsableBlocks(), min(c.Load.UsableSeats(), c.usableWarm())
	if !s.eligible(d, c, f).LacksOnlyRoom() || need > usable || d.Seats > seats {
		return 0, false
	}
	var kept room
	if len(p.keeps.room) > 0 {
		kept = p.keeps.room[i]
	}
	blocks := need + kept.blocks - s.free
	if s.full {
		blocks = max(blocks, c.Load.BookedBlocks+c.Load.OverdraftBlocks-usable)
	}
	ofBlocks := float64(blocks) / float64(max(1, usable))
	ofSeats := float64(d.Seats+kept.seats-min(s.freeSeat, s.warmSeat)) / float64(max(1, seats))
	if ofBlocks > 0 && ofSeats > 0 {
		return ofBlocks + ofSeats, true
	}
	return max(ofBlocks, ofSeats), true
}

// usableWarm is how many seats a candidate's warming quota allows.
func (c *Candidate) usableWarm() int {
	if c.State == Warming {
		return c.WarmingSeats
	}
	return noLimit
}
