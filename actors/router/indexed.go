package router

import "container/heap"

// indexed is a heap whose members know their places, so that any of them can be taken out.
type indexed[T any] struct {
	items  []T // the first is least
	before func(a, b T) bool
	moved  func(item T, at int) // hears of each new place; -1 is outside
}

var _ heap.Interface = (*indexed[int])(nil)

func (x *indexed[T]) push(item T) { heap.Push(x, item) }

// remove takes out and returns the member at a place.
func (x *indexed[T]) remove(at int) T {
	item := x.items[at]
	heap.Remove(x, at)
	return item
}

// Len implements heap.Interface.
func (x *indexed[T]) Len() int { return len(x.items) }

// Less implements heap.Interface.
func (x *indexed[T]) Less(a, b int) bool { return x.before(x.items[a], x.items[b]) }

// Swap implements heap.Interface.
func (x *indexed[T]) Swap(a, b int) {
	x.items[a], x.items[b] = x.items[b], x.items[a]
	x.moved(x.items[a], a)
	x.moved(x.items[b], b)
}

// Push implements heap.Interface.
func (x *indexed[T]) Push(item any) {
	it, _ := item.(T)
	x.moved(it, len(x.items))
	x.items = append(x.items, it)
}

// Pop implements heap.Interface.
func (x *indexed[T]) Pop() any {
	last := len(x.items) - 1
	item := x.items[last]
	clear(x.items[last:])
	x.items = x.items[:last]
	x.moved(item, -1)
	return item
}
