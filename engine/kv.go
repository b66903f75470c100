package engine

import (
	"context"
	"time"

	"plimsoll/scoring/prefix"
)

// KVSource is implemented by engines that report what their KV cache holds.
type KVSource interface {
	// Subscribe calls sink with every batch of cache events, in order, until ctx ends or the feed breaks; then nothing of
	// this life of the engine's feed is to be believed any more. The first batch after a subscription carries Reset. What
	// the cache holds at that moment is told by the first batch that is not Replaying and those before it: all of it if it is
	// Live, else what the source can know of it. A source may go on over broken connections and restarts of the engine: it
	// says so with Reset, or a state less than Live. A batch without events tells a change of state.
	Subscribe(ctx context.Context, sink func(KVBatch)) error
}

// KVState is how much the word of a feed is worth.
type KVState uint8

// States of a feed.
const (
	KVLive      KVState = iota // every event since the cache was empty was seen
	KVReplaying                // batches are missing and asked for again, or it is in doubt whose they are; what is known may be out of date
	KVPartial                  // what happened before a point is unknown: what is claimed is true, but not all that is held is known

	NumKVStates
)

// KVSkip is why a part of a feed was left out. What is left out is never claimed.
type KVSkip uint8

// Reasons to leave out a part of a feed.
const (
	KVSkipFrames      KVSkip = iota // a message that is none: too few parts, no sequence number
	KVSkipBatch                     // a batch that cannot be read
	KVSkipEvent                     // an event that cannot be read
	KVSkipUnknownType               // an event of an unknown type
	KVSkipOldLife                   // a batch of a former life of the engine, or one that was seen before

	NumKVSkips
)

// KVBatch is a run of cache events as they left the engine. Events, and all that they hold, are valid only until sink
// returns.
type KVBatch struct {
	Seq    uint64 // of the last batch that was applied; the source itself sees to holes
	Reset  bool   // what was known before is void; the events come after that
	State  KVState
	At     time.Time // when the engine made the batch, by its own clock; the zero time if it does not say
	Events []prefix.Event
	// Gap: batches before this one were found missing. Skipped counts what was left out since the batch before.
	Gap     bool
	Skipped [NumKVSkips]int
}
