// Package queue is the waiting room of a model's router: requests that no replica can take now, in the order in which
// they are tried, bounded in number and in tokens.
//
// Order: what came back to the head (resumed or refused by the replica it was sent to) before the rest, then by
// arrival, then by ID. [Before] is that order, a pure function.
//
// The router actor owns a queue and is its only user; it is not safe for concurrent use.
//
// Invariants: length and token sum stay within the bounds, except for what PushHead brings back, which was let in
// before; an ID is in the queue at most once.
package queue
