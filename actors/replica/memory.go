package replica

import (
	"sync/atomic"
	"time"

	"plimsoll/actors/fleet"
)

// Memory is what must survive a restart of the replica's actor and of its feed. Those two own it; nobody else looks inside.
type Memory struct {
	life   life
	estate []any

	tuned atomic.Pointer[tune] // what the feed was told last
	run   atomic.Uint64        // the last subscription's number
}

// NewMemory returns the memory of a replica that has not begun.
func NewMemory() *Memory { return &Memory{} }

// life tells an engine's lives apart.
type life struct {
	incarnation uint64
	// since is a moment at which it may have begun: what was granted before ran on the one before.
	since    time.Time
	evidence string    // of the engine's own, "" if it shows none
	steps    *uint64   // its step counter when it last told
	said     *likeness // what it has said of its model; nil before it has
	// seen is a moment at which no later life had begun: when the last probe was sent that showed this life or nobody.
	seen    time.Time
	refused bool // the last of those showed nobody
	known   *known
}

// fail notes that the actor has failed at a message. It is called on the actor's goroutine.
func (y *Memory) fail(ref *fleet.Ref, message any) {
	ref.Fail()
	switch message.(type) {
	case fleet.Linger, fleet.AttemptFailed, fleet.Drain, fleet.Undrain: // whoever sent it says it once
		y.leave(message)
	}
}

// leave keeps a message for the actor's next instance. Each instance leaves two at most: an order that it has put off, and
// what it failed at.
func (y *Memory) leave(message any) { y.estate = append(y.estate, message) }

// inherit takes what the instances before have left, in order. What breaks this one too is not tried again.
func (y *Memory) inherit() []any {
	estate := y.estate
	y.estate = nil
	return estate
}
