package queue

// Remembered counts what is kept: tenants and planned promotions.
func (q *Queue[T]) Remembered() (tenants, promotions int) {
	for i := range q.classes {
		tenants += len(q.classes[i].tenants)
	}
	return tenants, len(q.aging.items)
}
