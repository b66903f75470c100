// Package replica owns one engine replica: its life cycle, its ledger and the two things that watch the engine.
//
//	router ──Reserve──▶ replica actor ──Granted, Refused──▶ router
//	request goroutines ──Started, Progress, AttemptFailed, Linger, Late, End──▶ replica actor
//	                        │ supervises (Strategy of package supervise)
//	                        ├─ connection: probes the engine ──Probed, ProbeFailed──▶ replica actor
//	                        └─ feed: cache events (or what was routed there) ──▶ prefix index
//	replica actor ──Snapshot──▶ atomic pointer in Ref ──▶ read by routers, probes, metrics
//
// # Who owns what
//
//	ledger, life cycle      the replica actor, inside [Machine]; nobody else writes, by message only
//	published snapshot      the replica actor writes, everybody reads (Ref.Snapshot)
//	index slot              the feed: the only writer of its slot; routers add and withdraw speculation of their own
//	incarnation counter     the replica actor; it lives in [Memory], because it must survive the actor's restart
//
// What others know of a replica, its states among it, is package fleet.
//
// # Hang, and what only breaks
//
// A hung engine answers its probes. What shows it is the silence of its streams: every reader of a stream notes each token on
// the replica's [fleet.Pulse] (two atomic writes), and the machine reads it when it is due.
//
//	calm ──no stream progressed for max(HangLeast, 8 steps, 2 x the prefill it is at)──▶ doubt ──its step counter stands still,
//	  ▲        (steps: 99th percentile of its own gaps; unknown pace: HangBlind)          or is not told──▶ suspect
//	  └──────────── a token, a step, or the canary's token ◀───────────────────────────────────────────────────┤
//	                                                                                      the canary is late (4 steps)
//	                 back (Warming, ramp) ◀──a canary's token, after the strike's back-off── hung (Down) ◀──────┘
//
// Suspected it takes nothing new; there is no strike yet. Hung is a strike: its legs are told to leave as
// soon as another replica serves, and again while any is there. Attempts that break one after another (Config.BreaksMax, streams that die
// with their process count once, and so does what is sent again and again) are a strike too. Strikes keep it out for a time that doubles to a cap, with jitter; only a
// canary or a token of a stream brings it back, never a probe. The canary is a prompt of one token, for one token, with a salt
// of its own; it is not booked: it holds a seat and two blocks for a step.
//
// # Slow is not hung
//
// How long a silence may last depends on what is known of the engine's present life: how long prompts of about that length took (the
// one before included), and whether it was ever seen at such work. At its first logprobs, schema or adapter, or a prompt of twice the length, it has the
// patience that an unknown engine has (HangBlind) and, while its process lives and nobody else that is well knows such work, all the time that a
// first token is waited for. A canary behind such a prefill proves nothing.
//
//	who is told to leave a silent replica       | at least half are well     | fewer are
//	decoding, or came when it was silent        | at once (the canary is late) | only to who has given a token since, as room permits
//	in its prefill when the silence began       | when its patience is over, to one other replica | stays
//	cannot go on elsewhere                      | stays                      | stays
//
// Well are those that take new work and have not been silent as long. Counted are those that took new work when the silence began, this one
// included; not those that are drained, down for another reason, or gone. Where fewer than half are well silence strikes nobody, and a
// replica that is not worth suspecting goes on taking work. Whoever stays waits for its own time-outs. Where all that are left are struck for
// their silence requests wait for them (Snapshot.Silent). A process of ours is started anew once it has given nothing
// for HangRestart, a canary included, also the last one.
//
// A probe that is late is no failed one while there is something to do, or tokens came within its time; of an idle replica after
// ProbePatience. Whoever is only silent keeps its index: another life voids it, or somebody who says that this one is over.
//
// A single attempt that is stuck on an engine which serves others is the stream machine's to find (its deadlines follow the
// replica's pace too, and it may hedge); this finds engines, that finds requests. An attempt that loses to its hedge says so
// (Late): if it was the only one here, the silence goes on with the next grant, or an engine that hangs would never be found.
//
// # One request takes no replica out
//
// What an engine says to a request may be about that request: its text, its adapter, its model. Therefore one refusal as if it refused us
// (401, 403, 404, 405, 501, a redirect) only hurries the probe, which has our key and tells whether it holds for all. Three in a row, with
// no first token and no end between them, of prompts that share no block, degrade it too: a probe may ask what needs no key. Where the
// model's requests are of several tenants or adapters, those must be, too. An adapter that the engine lists and does not know is off the
// list for a time that doubles, or until the engine has stopped listing it. Attempts that break count by their prompts likewise: the
// same prompt once, and of answers that only left their finish out those that share a block once. A shedder's Retry-After holds for
// Config.ShedMost at most.
//
// # What lingers
//
// An engine that does not confirm aborts frees what it holds some time after. Such a ticket ends at the engine's LingerBound, if
// the process has shown since that it is there (a probe sent after the bound, a token); or before that when a probe's figures
// show that nothing runs there, and the core has worked since the ticket was given up (its step counter went on, or tokens came):
// the server of a hung core tells old figures. While the replica is suspected, hung, or does not answer, bounds are on hold, and
// begin anew with the first sign of life: a process that is stopped lets go of nothing. What nobody can know is that it was
// stopped for a moment between two signs.
//
// # What the index knows
//
// The feed takes a slot in the prefix index and publishes it as the replica's [fleet.Place], which names the engine's life: routers
// count it for that life alone. Its machine decides where the slot's content comes from, and [fleet.IndexState] says it:
//
//	          tuned                        first batch         gap            replayed
//	none ───▶ void ──────────────────────▶ live, partial ───▶ replaying ───▶ live, partial
//	            ▲ broken, distrusted, down, ──┘      │ no events are published, or none come for FeedSilence after
//	              another life                       ▼ work that changed the cache, or they can't be subscribed to
//	                                               approximate ───events flow again───▶ live, partial
//
// [Feed] is all of that but the actor's goroutines, timer, metrics and log, so that the simulator drives the very same. A
// [Subscription] writes to a slot of its own, from its own goroutine, and only news of its state reaches the actor. While the
// index is approximate a subscription fills a slot that nobody looks at; it takes the other's place when it is worth it, so
// that never both are published. A slot moves to the index of another block size if the events show one. What was predicted
// is held against what engines report: an index that claims too much too often is built anew.
//
// # Epoch and incarnation
//
// A restart of the actor after a panic of ours is a new epoch: the engine and its KV live on. The new instance asks every
// live request for its tickets on this replica and grants nothing before all have answered or a second has passed. What the
// one before failed at, and an order that it had put off, lies in the Memory and is taken first; a ticket of whose attempt's end it
// hears before it has heard of the attempt it books as lingering.
//
// A new incarnation is another life of the engine process: the index is void, and so are the tickets that the life before had.
// When that ended nobody knows, only when it was last seen: what was granted after that, or Config.ReachWait before it and was
// still on its way, may run on the new one and stays booked; if it does not, its stream ends it.
package replica
