// Package supervise is what the actors share: how they are restarted, how a panic is answered and reported, and how a
// goroutine of an actor is run so that its panic reaches the actor instead of ending the process.
//
//	panic in Receive ──▶ Guard (logs the stack, lets the actor answer the requester) ──▶ parent's Strategy
//	                                                                                     Backoff says when to restart
//	panic in a goroutine of Go ──▶ the onPanic function, usually a message to the actor
//
// The actor library's own strategies are not used: its back-off is linear, without cap and jitter, and its default gives
// a child up after ten failures, for good. [Strategy] restarts always, after a delay that doubles to a cap.
//
// A Strategy belongs to the supervising actor's instance, which closes it when it stops or restarts.
package supervise
