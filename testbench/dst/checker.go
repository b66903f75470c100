package dst

import (
	"fmt"
	"time"
)

// Checker is an invariant, by the name it has where the promises are written down.
type Checker uint8

// The invariants.
const (
	Grant         Checker = iota // nothing is granted beyond the limits, out of turn, or to another life of the engine
	Growth                       // what outgrows its claim is booked before it is begun, and nothing is granted meanwhile
	Cover                        // what an engine holds for us is booked
	Once                         // one grant and one end a ticket
	Zero                         // at the end nothing is left anywhere
	Outcome                      // every request ends once, and fails for a cause only
	Class                        // nobody gets a place that somebody of a higher class could take and waits for
	Share                        // tenants who wait take turns by what they have had and their weights
	Hold                         // nobody waits whom an idle replica could take, and nobody waits too long
	Exclusion                    // no attempt goes to a life of an engine that has failed the leg
	Amplification                // engines get no more requests than there are reasons for
	Output                       // clients get what the engine's oracle says, once
	Index                        // overlap is what the present feed has said
	Live                         // after the heal every replica serves again in time
	Cancel                       // who leaves is gone in the same step
	OneRequest                   // one request never takes a replica out
	OnlySlow                     // an engine that is only slow loses no request that it would have answered
	Orders                       // what an operator has ordered is carried out, and whoever it concerns hears of it
	Sanity                       // the code under test did not panic and answered as its contract says

	NumCheckers
)

var checkerNames = [NumCheckers]string{
	"grant", "growth", "cover", "once", "zero", "outcome", "class", "share", "hold", "exclusion", "amplification", "output", "index", "live",
	"cancel", "one request", "slow", "orders", "sanity",
}

// String returns the invariant's name.
func (c Checker) String() string { return checkerNames[c] }

// Violation is the first thing that a run found wrong.
type Violation struct {
	Checker Checker
	What    string
	Event   uint64        // number of the event after which it was seen
	At      time.Duration // virtual time
}

// String says what was found, and where.
func (v *Violation) String() string {
	return fmt.Sprintf("%s: %s (event %d, at %s)", v.Checker, v.What, v.Event, v.At)
}

// violate notes the first violation; the run ends with it.
func (w *world) violate(c Checker, format string, args ...any) {
	if w.bad == nil {
		w.bad = &Violation{Checker: c, What: fmt.Sprintf(format, args...), Event: w.events, At: w.now}
	}
}
