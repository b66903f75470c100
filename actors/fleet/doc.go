// Package fleet is what others know of replicas and how they reach them: the handle, what it publishes, and the messages.
//
//	routers, streams, admin ──read──▶ Ref: Snapshot, Place, Feed (atomic pointers)
//	                        ──Tell──▶ replica actor: Reserve, Started, Progress, End, Linger, AttemptFailed, Drain, ...
//	readers of streams      ──Beat──▶ Pulse: one sign of life a token, without a message
//
//	operators, actors that find replicas ──orders──▶ node's actor: Membership ──▶ Roster, replicas' actors
//
//	replica actors          ──Word──▶ Accord: are these engines of one model, and each a process of its own?
//
// Package replica is what answers on this node. A replica on another node can be reached by the same handle.
//
// # Who owns what
//
//	Ref's snapshot, epoch   the replica actor writes, everybody reads
//	Membership, Roster      the node's actor writes, everybody reads the rosters
//	Accord                  replica actors bring their engines' words; guarded by its mutex
//	Place, FeedFigures      the replica's feed writes, everybody reads
//	Pulse                   readers of streams note tokens; the replica actor takes what has gathered
//
// # States
//
// [State] and the table beside it say which states are routable, whether running legs stay, whether the index counts, and
// who leaves a state on what.
package fleet
