package fleet

import (
	"time"

	"plimsoll/scoring"
)

// Peer is what a replica is told of another one of its model, so that it can tell its own trouble from that of all.
type Peer struct {
	ID scoring.ReplicaID
	// Serves: it takes new work. Turned is since when it does, or does not.
	Serves bool
	Turned time.Time
	// Rises: it can be expected to serve soon, because its first life begins or it is about to be ready.
	Rises bool
	// Left: it does not serve for a reason that has nothing to do with silence: it is drained, gone, or nobody is there.
	Left bool
	Busy bool      // it has something to do
	Last time.Time // its last sign of life, or when its work began
	Room int       // free seats
	Seen *Seen
}

// Peers tells a replica of the others.
func Peers(refs []*Ref, than *Ref) []Peer {
	peers := make([]Peer, 0, len(refs))
	for _, ref := range refs {
		if ref != than {
			peers = append(peers, ref.peer())
		}
	}
	return peers
}

func (r *Ref) peer() Peer {
	s := r.Snapshot()
	p := Peer{
		ID: r.ID, Serves: s.Serves(), Rises: s.rises(), Turned: s.Turned, Left: !s.State.Routable() && (s.State != Down || !s.Hung), Busy: s.Load.Reserved+s.Load.Running > 0,
		Last: s.Life, Room: max(0, s.Load.FreeSeats()), Seen: s.Seen,
	}
	if last, ok := r.pulse.Last(); ok && last.After(p.Last) {
		p.Last = last
	}
	return p
}

func (s *Snapshot) rises() bool {
	return s.State == Starting || s.State == Warming || s.State == Down && s.Incarnation == 0
}

// CouldServe says whether the replica took new work at a moment. Of one that has left since nothing is to be concluded.
func (p *Peer) CouldServe(at time.Time) bool {
	return !p.Left && p.Serves != p.Turned.After(at)
}

// Well says whether it takes new work, and has not been silent itself since a moment.
func (p *Peer) Well(since time.Time) bool {
	return p.Serves && (!p.Busy || p.Last.After(since))
}

// Gave says whether it takes new work and has given a token since a moment.
func (p *Peer) Gave(since time.Time) bool { return p.Serves && p.Last.After(since) }

// Leaving says which attempts on a life of a replica are to go on elsewhere.
type Leaving struct {
	Incarnation uint64
	Why         string
	// Hung: the engine is not known to work on them any more; else it works, and is to be emptied. Silent: it gives nothing, and is not
	// known to have failed anybody.
	Hung, Silent bool
	// Suspects were in their prefill when a silence began, and may be its cause. Each is tried on one other replica, if Try says so.
	Suspects []scoring.Ticket
	Try      bool
	// Tickets are those that may leave; nil: all. Only is where they may go; nil: anywhere.
	Tickets []scoring.Ticket
	Only    []scoring.ReplicaID
}
