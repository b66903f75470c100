package fleet

import (
	"sync/atomic"
	"time"
)

// Pulse is where the goroutines that read a replica's streams leave what its actor must know of every token: that there was
// one, and how long after the one before it. Messages would be too many. It is safe for concurrent use; the actor alone
// takes what has gathered.
type Pulse struct {
	base    time.Time    // what the instants below count from, so that a wall clock that is set changes nothing
	last    atomic.Int64 // the last token or end of any stream; -1 before the first
	counted atomic.Int64 // the end of the last gap that was counted
	gaps    [PaceBuckets]atomic.Uint32
}

// Start begins with no sign of life. It is called before any stream begins.
func (p *Pulse) Start(now time.Time) {
	p.base = now
	p.last.Store(-1)
}

// Beats is what has gathered in a Pulse.
type Beats struct {
	Last *time.Time // the last sign of life of any stream; nil: there was none yet
	Gaps [PaceBuckets]uint32
	// Peers are the other replicas of the model.
	Peers []Peer
}

// Last is the last sign of life of any stream; false: there was none yet.
func (p *Pulse) Last() (time.Time, bool) {
	last := p.last.Load()
	return p.base.Add(time.Duration(last)), last >= 0
}

// Take empties the gaps into a Beats. Peers are not set. The replica's owner alone calls it.
func (p *Pulse) Take() Beats {
	var b Beats
	if last := p.last.Load(); last >= 0 {
		at := p.base.Add(time.Duration(last))
		b.Last = &at
	}
	for i := range p.gaps {
		if p.gaps[i].Load() != 0 {
			b.Gaps[i] = p.gaps[i].Swap(0)
		}
	}
	return b
}

// Beat is one stream's hand on the pulse. It belongs to the goroutine that reads the stream.
type Beat struct {
	pulse  *Pulse
	before int64 // its last token; -1 before the first
}

// Beat returns a hand on the replica's pulse for a stream that begins.
func (r *Ref) Beat() Beat { return Beat{pulse: &r.pulse, before: -1} }

// Heard notes that the stream has progressed: a token, or its end. Frames that say nothing are not told.
//
// Of gaps that overlap one is counted: the streams of a batch move in step, and a pause of the whole engine must not weigh
// as much as there are streams.
func (b *Beat) Heard(now time.Time) {
	at := int64(now.Sub(b.pulse.base))
	for last := b.pulse.last.Load(); at > last; last = b.pulse.last.Load() {
		if b.pulse.last.CompareAndSwap(last, at) {
			break
		}
	}
	if counted := b.pulse.counted.Load(); b.before >= 0 && b.before >= counted && b.pulse.counted.CompareAndSwap(counted, at) {
		b.pulse.gaps[PaceBucket(time.Duration(at-b.before))].Add(1)
	}
	b.before = at
}
