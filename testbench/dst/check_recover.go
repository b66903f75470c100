package dst

import (
	"plimsoll/actors/fleet"
	"plimsoll/engine"
)

// Two things a replica says of itself, that it recovers and that it cools, are held against what it has heard: what it grants
// meanwhile is held against what it says (granted).

// awaits notes how many calls are to announce their tickets to an epoch that begins.
func (b *books) awaits(calls int) { b.awaited, b.opens = calls, b.host.w.now+b.host.cfg.AnnounceWait }

// recovers follows a message: who has heard of all, or has waited long enough, is open, and nobody else.
func (b *books) recovers(snap *fleet.Snapshot) {
	if m, ok := b.message.(fleet.Announced); ok && m.Epoch == snap.Epoch {
		b.awaited--
	}
	if b.old.Epoch == snap.Epoch && b.old.Recovering && !snap.Recovering && b.awaited > 0 && b.host.w.now < b.opens {
		b.host.w.violate(Grant, "%s is open while %d calls have not told it what runs there", b.host.id, b.awaited)
	}
}

// sheds notes that its engine has turned a request away, and for how long it is left alone at least.
func (b *books) sheds(m *fleet.AttemptFailed) {
	if m.Failure.Kind != engine.Shed || b.live[m.Claim.Ticket.Number] == nil {
		return
	}
	wait := b.host.cfg.ShedFirst
	if m.Failure.RetryAfter > 0 {
		wait = m.Failure.RetryAfter
	}
	b.cools = max(b.cools, b.host.w.now+min(wait, b.host.cfg.ShedMost))
}

// hot says whether a grant comes too soon after that.
func (b *books) hot() bool { return b.host.w.now < b.cools }
