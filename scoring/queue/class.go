package queue

import (
	"cmp"
	"slices"
)

// class is one rank: its head, and its tenants.
type class[T any] struct {
	head    line[T]
	tenants map[string]*tenant[T]
	waiting int     // tenants with requests
	served  float64 // the tag of the last one that was charged
}

// line is an ordered list of waiting requests.
type line[T any] []*waiter[T]

func (l line[T]) place(w *waiter[T]) int {
	at, _ := slices.BinarySearchFunc(l, w, (*waiter[T]).before)
	return at
}

func (l *line[T]) insert(w *waiter[T]) { *l = slices.Insert(*l, l.place(w), w) }

func (l *line[T]) remove(w *waiter[T]) {
	at := l.place(w)
	*l = slices.Delete(*l, at, at+1)
}

// close moves the first kept of the first seen members to where these end, so that what left the line among them is gone.
func (l *line[T]) close(seen, kept int) {
	gone := seen - kept
	if gone == 0 {
		return
	}
	copy((*l)[gone:seen], (*l)[:kept])
	clear((*l)[:gone])
	*l = (*l)[gone:]
}

// tenant is who shares a class with others.
type tenant[T any] struct {
	line line[T]
	// tag is the service it has had, in seconds ÷ weight, on the class's scale.
	tag float64
}

func (c *class[T]) insert(w *waiter[T]) {
	if w.head {
		c.head.insert(w)
		return
	}
	t := c.tenants[w.Tenant]
	if t == nil {
		c.prune()
		t = &tenant[T]{}
		c.tenants[w.Tenant] = t
	}
	if len(t.line) == 0 {
		t.tag = max(t.tag, c.served)
		c.waiting++
	}
	t.line.insert(w)
}

func (c *class[T]) remove(w *waiter[T]) {
	if w.head {
		c.head.remove(w)
		return
	}
	t := c.tenants[w.Tenant]
	t.line.remove(w)
	if len(t.line) == 0 {
		c.waiting--
	}
}

// spare is how many tenants of whom nothing waits may be remembered beside as many as do wait.
const spare = 1024

// prune forgets tenants of whom nothing waits: those who have had no more than the last one served, who would begin there
// anyway, and if that is not enough those who have had the least.
func (c *class[T]) prune() {
	if len(c.tenants) < 2*c.waiting+spare {
		return
	}
	var idle []string
	for name, t := range c.tenants {
		switch {
		case len(t.line) > 0:
		case t.tag <= c.served:
			delete(c.tenants, name)
		default:
			idle = append(idle, name)
		}
	}
	if len(idle) <= spare/2 {
		return
	}
	slices.SortFunc(idle, func(a, b string) int {
		return cmp.Or(cmp.Compare(c.tenants[a].tag, c.tenants[b].tag), cmp.Compare(a, b))
	})
	for _, name := range idle[:len(idle)-spare/2] {
		delete(c.tenants, name)
	}
}

func (c *class[T]) reset() {
	clear(c.tenants)
	c.head, c.waiting, c.served = nil, 0, 0
}

// cursor is where a scan stands in a tenant's line.
type cursor[T any] struct {
	tenant     *tenant[T]
	tag        float64 // of the next one: as if those before it had all been taken
	seen, kept int
}

func (c *cursor[T]) next() *waiter[T] { return c.tenant.line[c.seen] }

// order is that of the tenants: by tag, then by whose next request goes first.
func (c *cursor[T]) order(o *cursor[T]) int {
	return cmp.Or(cmp.Compare(c.tag, o.tag), c.next().before(o.next()))
}

// scan is one walk through the queue.
type scan[T any] struct {
	queue *Queue[T]
	left  int // to be kept
	visit func(Entry[T]) Visit
}

// try visits one request and says what becomes of it.
func (s *scan[T]) try(w *waiter[T]) Visit {
	v := s.visit(w.Entry)
	switch v {
	case Take, Drop:
		s.queue.forget(w)
	case Stop:
		s.left = 0
	case Keep:
		s.left--
	}
	return v
}

func (s *scan[T]) class(c *class[T]) {
	seen, kept := 0, 0
	for ; s.left > 0 && seen < len(c.head); seen++ {
		w := c.head[seen]
		if v := s.try(w); v == Keep || v == Stop {
			c.head[kept] = w
			kept++
		}
	}
	c.head.close(seen, kept)
	if s.left > 0 && c.waiting > 0 {
		s.tenants(c)
	}
}

// tenants merges the lines of a class's tenants.
func (s *scan[T]) tenants(c *class[T]) {
	cursors := s.queue.cursors[:0]
	for _, t := range c.tenants {
		if len(t.line) > 0 {
			cursors = append(cursors, cursor[T]{tenant: t, tag: t.tag})
		}
	}
	slices.SortFunc(cursors, func(a, b cursor[T]) int { return a.order(&b) })
	rest := cursors // those with somebody to visit, in order
	for s.left > 0 && len(rest) > 0 {
		at := &rest[0]
		w := at.next()
		share := w.ChargeSeconds / w.Weight
		switch s.try(w) {
		case Take:
			c.served = max(c.served, at.tag)
			at.tenant.tag += share
		case Drop:
			share = 0
		case Keep, Stop:
			at.tenant.line[at.kept] = w
			at.kept++
		}
		at.seen++
		at.tag += share
		if at.seen == len(at.tenant.line) {
			rest = rest[1:]
			continue
		}
		sink(rest)
	}
	for i := range cursors {
		at := &cursors[i]
		at.tenant.line.close(at.seen, at.kept)
		if len(at.tenant.line) == 0 {
			c.waiting--
		}
	}
	clear(cursors)
	s.queue.cursors = cursors[:0]
}

// sink moves the first cursor to its place among the others, which are in order.
func sink[T any](rest []cursor[T]) {
	first := rest[0]
	at, _ := slices.BinarySearchFunc(rest[1:], first, func(a, b cursor[T]) int { return a.order(&b) })
	copy(rest, rest[1:at+1])
	rest[at] = first
}
