package dst

import (
	"slices"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/scoring/prefix"
)

// slotModel is what the cache of one replica may be said to hold: what its engine had published when its feed stood where it
// stands, or what was routed there. It remembers where it stood before, because a decision shows only some moments after it
// was taken.
type slotModel struct {
	looks  []look // the last one is of now
	claims []claimed

	routed   map[prefix.Key]bool // what an engine without events was sent
	unrouted []unrouted          // what it was before, as often as it was forgotten of late
}

// unrouted is what was forgotten.
type unrouted struct {
	at    time.Duration
	names map[prefix.Key]bool
}

// look is from when on others saw what.
type look struct {
	at time.Duration
	shown
}

// shown is what others see.
type shown struct {
	position
	routed bool // what was routed there; else what was published up to the position
}

// claimed is a prompt that was sent there a moment ago.
type claimed struct {
	ticket uint64
	names  []prefix.Key
	whole  bool          // it ends with a whole block, which its claim does not share and the router counts all the same
	until  time.Duration // when it was withdrawn, or its time is up
}

// remembered is for how long what was seen before may show in a decision.
const remembered = 5 * time.Second

// shows notes what others see from now on.
func (m *slotModel) shows(now time.Duration, s shown) {
	if n := len(m.looks); n > 0 && m.looks[n-1].shown == s {
		return
	}
	if len(m.looks) > 256 {
		old := 0
		for old+1 < len(m.looks) && m.looks[old+1].at < now-remembered {
			old++
		}
		m.looks = slices.Delete(m.looks, 0, old)
	}
	m.looks = append(m.looks, look{now, s})
}

// turn ends what was claimed of a slot that is void, or is another now.
func (m *slotModel) turn(now time.Duration) {
	for i := range m.claims {
		m.claims[i].until = min(m.claims[i].until, now)
	}
}

// learn notes a sequence that the engine has computed.
func (m *slotModel) learn(l *fleet.Learned) {
	if m.routed == nil {
		m.routed = map[prefix.Key]bool{}
	}
	for _, n := range names(l.LoRA, l.Salt, slices.Concat(l.Prompt, l.Output)) {
		m.routed[n] = true
	}
}

// unlearn forgets all such.
func (m *slotModel) unlearn(now time.Duration) {
	old := 0
	for old < len(m.unrouted) && m.unrouted[old].at < now-remembered {
		old++
	}
	m.unrouted, m.routed = append(slices.Delete(m.unrouted, 0, old), unrouted{now, m.routed}), nil
	m.turn(now)
}

// speculate notes a prompt that is on its way there.
func (m *slotModel) speculate(now time.Duration, ticket uint64, names []prefix.Key, whole bool, ttl time.Duration) {
	kept := m.claims[:0]
	for _, c := range m.claims {
		if now-c.until < time.Second {
			kept = append(kept, c)
		}
	}
	m.claims = append(kept, claimed{ticket, names, whole, now + ttl})
}

// withdraw ends a speculation.
func (m *slotModel) withdraw(now time.Duration, ticket uint64) {
	for i := range m.claims {
		if m.claims[i].ticket == ticket {
			m.claims[i].until = min(m.claims[i].until, now)
		}
	}
}

// most is the longest overlap that anybody may have counted at some moment since.
func (m *slotModel) most(since time.Duration, names []prefix.Key) int {
	for i, n := range names {
		if !m.had(since, n) && !m.claimed(since, i, n) {
			return i
		}
	}
	return len(names)
}

// now is the longest overlap that anybody may count now.
func (m *slotModel) now(now time.Duration, names []prefix.Key) int {
	last := &m.looks[len(m.looks)-1]
	for i, n := range names {
		if !m.has(now, last, n) && !m.claimed(now, i, n) {
			return i
		}
	}
	return len(names)
}

func (m *slotModel) had(since time.Duration, n prefix.Key) bool {
	for i := len(m.looks) - 1; i >= 0; i-- {
		l := &m.looks[i]
		if m.has(since, l, n) {
			return true
		}
		if l.at < since {
			break
		}
	}
	return false
}

func (m *slotModel) has(since time.Duration, l *look, n prefix.Key) bool {
	if !l.routed {
		return l.had(n)
	}
	return m.routed[n] || slices.ContainsFunc(m.unrouted, func(u unrouted) bool { return u.at >= since && u.names[n] })
}

func (m *slotModel) claimed(since time.Duration, at int, n prefix.Key) bool {
	for i := range m.claims {
		c := &m.claims[i]
		if c.until >= since && (at < len(c.names) && c.names[at] == n || at == len(c.names) && c.whole) {
			return true
		}
	}
	return false
}
