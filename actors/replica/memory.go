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
	order  any // a Drain or an Undrain that is not carried out; nil: none

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
	case fleet.Linger, fleet.AttemptFailed: // whoever sent it says it once
		y.estate = append(y.estate, message)
	case fleet.Drain, fleet.Undrain: // it takes the place of one that was put off
		y.order = message
	}
}

// inherit takes what the instances before have left, in order. What breaks this one too is not tried again.
func (y *Memory) inherit() []any {
	estate := y.estate
	if y.order != nil {
		estate = append(estate, y.order)
	}
	y.estate, y.order = nil, nil
	return estate
}
