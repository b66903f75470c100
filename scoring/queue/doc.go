// Package queue is the waiting room of a model's router: requests that no replica can take now, in the order in which
// they are tried, bounded in number and in tokens.
//
//	class 0   head ▷ ▷      acme ▷ ▷ ▷     default ▷        tried first
//	class 1   head          acme ▷         default ▷ ▷          ▲
//	class 2   head ▷        acme ▷ ▷                            │ promotion after an age
//
// # Order
//
// By class. Who has waited for Config.PromoteAfter in a class is in the one above it from then on, so that none starves.
// In a class, what came back to the head (resumed, or refused by the replica it was sent to) goes first, by its time. Then
// tenants take turns by start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queueing", SIGCOMM 1996): a tenant has
// a tag, the service it has had in seconds divided by its weight, and the least tag goes first; who comes after having had
// nothing waiting starts from where the last one served stood. Of one tenant the requests go by arrival + K x own prefill,
// so that short prompts pass a long one for a while, and not for ever; then by ID.
//
// Charged is what a scan takes, unless it stood at the head: that was charged before. What is turned away is charged nothing. A
// request that does not fit lets others pass, of whatever tenant; its tenant is charged for what it got, not for what it wanted.
// The order alone would have a large request wait as long as small ones of a lower class go on coming, which take what becomes free
// piece by piece: who scans keeps room against the classes below (package policy), which [Queue.Span] and [Config.Standing] are for.
//
// While every request that is tried is taken, two tenants of one class that both have requests waiting differ in charged
// seconds ÷ weight by at most the sum of their largest charges ÷ weight. An empty queue forgets all tags: whoever finds room
// at once takes nothing away from anybody.
//
// # Ownership
//
// The router actor owns a queue and is its only user; it is not safe for concurrent use. Times are arguments.
//
// Invariants: length and token sum stay within the bounds, except for what PushHead brings back, which was let in
// before; an ID is in the queue at most once; tags are kept of tenants that wait, and of a bounded number of others who have had
// more than the last one served.
package queue
