// Package router finds a place for requests: one actor per model and node.
//
//	Call ──Submit──▶ tokenizer (package tokenize) ──Submit with token IDs──▶ router, directly if they are known
//	                 router
//	                   │ ranks by snapshot, index and learned rates (scoring/policy)
//	                   ├──Reserve──▶ replica actor ──Granted, Refused──▶ router
//	                   └──Placed | Rejected──▶ Call                              or it waits in the queue
//
// # Who owns what
//
//	queue, own bookings, learned rates, policy   the router actor, inside [machine]
//	load snapshots, prefix index                 others; the router only reads them, and speculates on its own reservations
//
// A request's legs are placed together or not at all: what was granted is given back if one of them is refused. A replica
// that refused is not asked again before something has changed there; after Config.RanksMax refusals a request goes to the
// head of the queue. The queue is tried in order at every sign of room and after every answer, before any newcomer; one that
// does not fit lets others pass, and waits at most Config.QueueTimeout. A pump is one pass of the policy (scoring/policy): it
// decides for the first Config.ScanMax that wait, whom it holds for a replica counting as load there for those behind, unless
// the policy says that nobody would be sent anywhere. A request may wait for a better replica up to the policy's bound for it. What
// the indexes hold of a waiting prompt is looked up anew after Config.MatchAge, and always before it is sent.
//
// Those who pass one that waits leave it its room if they stand in a lower class than it came with (policy.Pass.Keep): so far as it
// is free, on the replica that it waits for, or where the least was missing when that began. Within a class nothing is kept; an answer that
// has begun leaves room to nobody. Of other nodes that serve the same replicas nothing is known: their requests may take what is kept here.
//
// Legs of a request that has begun (stream.Submit.Begun) come back after their engine failed, with prompt and journal as their
// prompt. They go to the head of the queue, the cheapest of those that broke off together first, are never refused for want of
// room or of a serving replica, and wait at most Config.ResumeWait since they broke off. Each is placed as soon as it can be,
// whatever the others do. What one replica prefills of them at a time is bounded by Config.ResumePrefillTokens.
//
// A hedge (stream.Submit.Hedge) is a second attempt of a request whose first one runs and is slow. It is placed at once, or
// declined: while anybody waits, where no replica has room for it, and where the one that was asked refuses. It is never queued
// and not counted as a request.
//
// A raw prompt (stream.Prompt.Raw) is one that the engine renders: it counts with its estimate, has no keys, so that it
// neither finds nor leaves anything in the index, and only engines that render chats are eligible.
//
// Where somebody watches (Deps.Watch), a step notes what it decides and hears: copies, which tables, shadow policies and metrics are
// made of elsewhere. Suppose asks what would be decided, or refused and why, as of a newcomer, and changes nothing.
//
// If the actor fails, its state is lost on purpose. The new instance asks every live call to submit again what was not
// placed; their arrival decides their place. Grants it does not know are given back.
//
// What a step returns is good until the next one: effects name entries and reservations whose memory is lent again from then on
// (spare), so a shell copies what it passes on. What calls, replicas, indexes and notes get is theirs: placements, block keys, copies.
//
// # SLOs
//
// A request that says how fast its answer has to come (stream.SLO) has its first token predicted when it comes (scoring/slo), from
// what stands before it in the queue's order, and is refused at once if that is too late on every replica. While it waits it is shed
// at the moment from which its prefill alone, behind what its replica has been sent, would take too long. Its place in the queue is
// what it would be without; a request whose first attempt has failed is not turned away for it. Retry-After of every refusal for
// want of room is the same prediction, of room behind all that waits.
package router
