// Package actors is what is alive in a node: it puts the actor system together and starts and ends it in order.
//
//	node                       supervises all; restarts a failed child after a back-off of our own
//	├─ router-0, ...           one a model: tokenization, ranking, queue (package router)
//	│   └─ worker-...          tokenizes
//	└─ replica-0, ...          one a replica: life cycle and ledger (package replica)
//	    ├─ connection          probes the engine
//	    └─ feed                writes the replica's part of the prefix index
//
// Requests run in goroutines of their own (package stream), the HTTP edge in package ingress.
//
// # State and its owners
//
//	state                         owner (only writer)          how others read it
//	ledger, life cycle            replica actor                Snapshot, an atomic pointer
//	queue, own bookings, rates    router actor                 Stats, an atomic pointer
//	how requests were routed      explain.Watch's goroutine    copies of records
//	prefix index, a slot          the replica's feed           Index.Match, concurrently
//	request, attempts, tickets    the request's goroutine      Response; announcements to restarted actors
//	register of live requests     stream.Live                  its methods
//	inputs to tokenize            tokenizer's pool actor       Stats, an atomic pointer
//	tokenization slots of a node  tokenize.Gate                its methods
//
// # Who renders
//
// A chat becomes token IDs here (Rendering). What cannot be rendered here goes raw: its body to the engine's own chat endpoint,
// booked with an estimated length, without keys, overlap or speculation, and only to replicas whose engine has
// Capabilities.Chat. Its answer is relayed as the engine reads it. What the client must change is refused all the same.
//
//	chat ──render──▶ IDs ─────────────────────────▶ router ──▶ engine: IDs in, IDs out; text, stops, ends are ours
//	           └─ chat.CannotRender, RenderEngine ─▶ router ──▶ engine: body in; text, deltas, finish are its own
//
// # Start and end
//
// Start spawns node, which spawns the rest; replicas connect by themselves. Drain refuses new requests and waits for the
// running ones; Stop ends what is left with an error, closes the engines and stops the actors.
package actors
