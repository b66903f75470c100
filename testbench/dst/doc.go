// Package dst is the deterministic simulator: the machines of router, replicas, streams and cache feeds, the very ones
// that the actors wrap, under one virtual clock and one seeded scheduler, among simulated engines that fail in every way
// that the issue tracker knows.
//
//	clients ──▶ stream.Machine ◀──mail──▶ router.Machine ◀──mail──▶ replica.Machine ──▶ connection, feed
//	                 │  ▲                                                 probes │  ▲ cache events
//	                 ▼  │ frames, resets                                         ▼  │
//	              process: sim.Machine that is killed, stopped, slowed, cut, overloaded, ...
//	                 │ cache events
//	                 ▼
//	              publisher ──link: batches, replays──▶ kvevents.Machine ──batches──▶ replica.Subscription ──▶ index
//	              (bytes, ring, orphan)                                                     │ news
//	                                                        replica.Machine ──mail──▶ replica.Feed: which slot counts
//
//	          every message, effect and pass ──▶ checkers: each with a model of its own ──▶ Violation
//
// A seed draws everything: the fleet, the traffic, which faults there are (a random subset of all kinds, so that some
// runs have a single kind often and others all of them), and when each message arrives. One run has a safety phase, in
// which faults happen; then all is healed, and within a bounded time every request must have ended, every replica must
// serve, and nothing may be left anywhere. Equal seeds give equal logs, so a seed is a bug report.
//
// Callers: plimsoll dst, make dst, and this package's tests. A run owns all its state; runs share nothing.
//
// # Two drivers
//
// This package's tests run seeds through a second driver too: a real node (plimsoll/actors: its actors, supervision, request
// goroutines and feeds) in the virtual time of a synctest bubble, among the same engines. Requests come as they came in the
// seed's run, and what was done to engines, actors and clients there (a deed) is done again at its time. The tests say which
// answers must be equal, and how many were compared.
//
// # What is checked
//
// A [Checker] stands outside the code under test: it sees what goes into a machine and what comes out of it, keeps books
// of its own, and asks the simulated engine for the truth. It never asks the code for its sums, save to compare.
//
// Of the cache feeds it keeps an account at the publisher: which blocks each life of an engine had told of after each of its
// batches. A batch says in the time that it carries which one it is, so after each one that a subscription takes it is known
// what its slot may claim: nothing that was not there after that batch, in that life; exactly that, if the feed says that it
// is live; nothing after a Reset; nothing of a life before the one that the feed was begun for; and nothing of a dead one for
// longer than its connection's proof is waited for. At the end every feed that can must be live, and hold what the engine
// holds. While the index is approximate it may claim what was sent there in this life.
//
// # The queue
//
// About half of the seeds have tiers: classes, tenants with weights and SLOs, and crowds of short requests that come within a moment, so
// that many wait. Tiers are drawn by a generator of their own, so the fleet, the requests and the faults of a seed are those that it
// would have without. Who stands in the router's queue is known from the messages alone: who was submitted and has no answer, and no
// ticket that is not answered for.
//
//   - Class: at every place that the router asks for, nobody waits whose class, promotions counted, goes before and who could have
//     taken the very place. Only where that is sure: one leg that is new and was refused nowhere, whose prompt and longest answer
//     fit into what is free there without sharing anything, that may not be held for a better replica, while no replica ramps up.
//     What may be kept for others of still higher classes is not free, and who goes on with an answer may take it.
//   - Share: tenants of one class take turns as start-time fair queueing has it (shares); its bound, twice the largest charge ÷
//     weight, follows where nobody is passed over because he does not fit. What a request is charged is asked of the router, because
//     it depends on what that has learned; what it adds up to is not. The bound itself is not compared: whoever does not fit lets others
//     pass, by any amount, and is served first afterwards.
//   - Hold: nobody stands in the queue when his time is up, nor when his first token could not come in time whoever took him; a
//     hedge takes no place while anybody waits; and nobody waits for long while somebody has room, beside what those of higher classes
//     that wait may need there, and he may not be held for a better one. Until when he may, the policy says: no bound for that
//     follows from the messages.
//   - Outcome: who is refused for an SLO has one, and no engine was asked to answer him yet. That such a refusal was right is not
//     looked at: it rests on a prediction, which faults make false.
//
// # Drains that are taken back
//
// In about a third of the seeds operators drain replicas that stay, one for a while or each in turn, and ask them back. These orders
// have a generator of their own, too. A drained replica may hold nothing against the answers that it gave up, so that once all are back
// nobody who could be served waits (Hold) or fails (Outcome).
//
// # Single requests
//
// In about a third of the seeds engines do something odd for one request's sake: they refuse a kind of prompt as if they refused us (with
// a status of its own each time, the same on every replica), the first one asked sheds another and wants to be left alone for an hour,
// and answers go on after their finish. These requests have a generator of their own, too. OneRequest holds a replica that is taken for
// one that refuses us against what it has refused since its last answer, and the time for which it is left alone against the bound;
// Output sees whether what follows a finish is taken for a part of the answer.
//
// # Who comes beside
//
// Some seeds have more of what a random fleet hardly shows, each drawn by a generator of its own: ranks of one process, which die
// together (ranks); engines that lose IDs inside a character, as llama.cpp does (lossy); chats that their engine renders, whose prompts
// nobody here knows and whose answers only it ends (raw: about how long they are is never too little here, because what a claim lacks
// then no promise says); requests that one replica alone can hold, while short ones of the lowest class keep it busy (siege); prompts that
// are known to their last block (echo); and engines that die without a word just before their replica's actor fails (relapse).
//
// # Requests, budgets and what is kept
//
//   - Output: each attempt is asked for what its request and the answer so far leave: tokens, least tokens, seed, ends, salt. What
//     the client is told of its tokens, and of those that were cached, is counted anew. The text is read by a reader of its own, which
//     spells the whole answer after each token.
//   - Amplification, Hold: the retry budget is counted anew, leg by leg. Nobody tries again who was shed while it is spent, and nobody
//     waits for it while there is some. After FruitlessMax attempts in a row that an engine took and that added nothing a leg ends.
//   - Grant: a replica that ramps up is asked for no more than its quota while others have room; one that has shed is left alone for
//     as long as its engine said; one that begins anew is open when all calls have told it what runs there, or their time is up.
//   - Class: what is free is not taken by a lower class on every replica that somebody of a higher one may wait for.
//   - Index: an index that has missed the beginning must hold what it was told of since, also where a block was told of before its
//     parent; and none may take what comes behind a block for a sequence of its own.
//
// # Engines that are only slow
//
// In about an eighth of the seeds nothing is wrong with engines but their speed: passes of half a minute, a pause at the first
// request for logprobs, probes that starve meanwhile, a whole machine that is overloaded; replicas are drained beside that. There no request may
// fail that its client has patience for (OnlySlow). A run counts in which phases long passes met requests, and how many legs waited on a
// second replica that fell silent with them; it fails where the one is too rare or the other too frequent.
//
// # How the checkers are checked
//
// A [Plant] alters what goes into or comes out of a machine, as a bug there would: a release dropped, a claim altered. The
// tests require that each plant is found, by the checker it is meant for. Command testbench/dst/inside plants bugs inside the code.
package dst
