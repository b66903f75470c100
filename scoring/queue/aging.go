package queue

import (
	"container/heap"
	"time"
)

// aging are those that can be promoted, by when. Who left the queue stays in it until then, or until it is tidied.
type aging[T any] struct{ items []promotion[T] }

type promotion[T any] struct {
	at     time.Time
	waiter *waiter[T]
	class  Class // it leaves
}

var _ heap.Interface = (*aging[int])(nil)

func (a *aging[T]) reset() {
	clear(a.items)
	a.items = a.items[:0]
}

// Len implements heap.Interface.
func (a *aging[T]) Len() int { return len(a.items) }

// Less implements heap.Interface.
func (a *aging[T]) Less(i, j int) bool { return a.items[i].at.Before(a.items[j].at) }

// Swap implements heap.Interface.
func (a *aging[T]) Swap(i, j int) { a.items[i], a.items[j] = a.items[j], a.items[i] }

// Push implements heap.Interface.
func (a *aging[T]) Push(x any) {
	p, _ := x.(promotion[T])
	a.items = append(a.items, p)
}

// Pop implements heap.Interface.
func (a *aging[T]) Pop() any {
	last := len(a.items) - 1
	p := a.items[last]
	a.items[last] = promotion[T]{}
	a.items = a.items[:last]
	return p
}

// age plans a request's next promotion.
func (q *Queue[T]) age(w *waiter[T]) {
	if w.class == 0 {
		return
	}
	if len(q.aging.items) >= 2*len(q.byID)+spare {
		q.tidy()
	}
	heap.Push(&q.aging, promotion[T]{w.due, w, w.class})
}

// tidy drops those that have left.
func (q *Queue[T]) tidy() {
	kept := q.aging.items[:0]
	for _, p := range q.aging.items {
		if q.stands(p) {
			kept = append(kept, p)
		}
	}
	clear(q.aging.items[len(kept):])
	q.aging.items = kept
	heap.Init(&q.aging)
}

// stands says whether a promotion is of somebody who still waits there.
func (q *Queue[T]) stands(p promotion[T]) bool {
	return q.byID[p.waiter.ID] == p.waiter && p.waiter.class == p.class
}

// promote moves those up whose time it is.
func (q *Queue[T]) promote(now time.Time) {
	for len(q.aging.items) > 0 && !now.Before(q.aging.items[0].at) {
		p, _ := heap.Pop(&q.aging).(promotion[T])
		if !q.stands(p) {
			continue
		}
		w := p.waiter
		q.classes[w.class].remove(w)
		w.class--
		w.due = w.due.Add(q.cfg.PromoteAfter)
		q.classes[w.class].insert(w)
		q.age(w)
	}
}
