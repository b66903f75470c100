package router

// The lines in which a reservation can stand.
const (
	ofReplica  = iota // booked there
	unanswered        // of all replicas

	numLines
)

// links are the neighbours of a reservation in a line.
type links struct{ before, after *asked }

// line is reservations in the order in which they were added. The zero line is one of those of a replica.
type line struct {
	first, last *asked
	which       int
}

func (l *line) add(a *asked) {
	a.links[l.which] = links{before: l.last}
	if l.last == nil {
		l.first = a
	} else {
		l.last.links[l.which].after = a
	}
	l.last = a
}

// remove takes out one that stands in the line.
func (l *line) remove(a *asked) {
	at := a.links[l.which]
	if at.before == nil {
		l.first = at.after
	} else {
		at.before.links[l.which].after = at.after
	}
	if at.after == nil {
		l.last = at.before
	} else {
		at.after.links[l.which].before = at.before
	}
	a.links[l.which] = links{}
}
