package policy

import (
	"time"
)

// Reason says why a replica cannot take a request now.
type Reason uint8

// Reasons, in the order in which they are looked for.
const (
	OK           Reason = iota // it can
	TooSmall                   // it could not even when empty
	NotStarted                 // it was not reached yet
	IsDegraded                 // it answers but must not be used
	IsDraining                 // it takes nothing new
	IsDown                     // it does not answer
	IsGone                     // it was removed
	LoRAMissing                // it does not have the adapter
	ChatMissing                // its engine renders no chats, and this one has no token IDs
	IsExcluded                 // an attempt of this request failed in this life of it
	IsVoid                     // its load is not known for a moment
	IsSuspect                  // it is silent, and may hang
	IsEjected                  // it is much slower than it was, and is left alone for a while
	Cooling                    // it shed a request a moment ago
	WarmingQuota               // it is warming up and has its quota
	Overdrawn                  // its sequences have outgrown their prediction
	NoSeats                    // no decode slot is free
	NoBlocks                   // not enough KV blocks are free

	NumReasons
)

// String is the word used in explain tables, logs and metrics.
func (r Reason) String() string {
	names := [NumReasons]string{
		OK: "eligible", TooSmall: "too small", NotStarted: "starting", IsDegraded: "degraded", IsDraining: "draining",
		IsDown: "down", IsGone: "gone", LoRAMissing: "lora missing", ChatMissing: "chat missing", IsExcluded: "excluded", IsVoid: "void",
		IsSuspect: "suspect", IsEjected: "ejected", Cooling: "cooling", WarmingQuota: "warming quota", Overdrawn: "overdrawn",
		NoSeats: "no seats", NoBlocks: "no blocks",
	}
	if r < NumReasons {
		return names[r]
	}
	return "unknown"
}

// Passes says whether waiting can help: the replica serves, and what stands in the way goes away by itself.
func (r Reason) Passes() bool {
	switch r {
	case OK, IsVoid, IsSuspect, IsEjected, Cooling, WarmingQuota, Overdrawn, NoSeats, NoBlocks:
		return true
	case TooSmall, NotStarted, IsDegraded, IsDraining, IsDown, IsGone, LoRAMissing, ChatMissing, IsExcluded, NumReasons:
	}
	return false
}

// Eligible says whether a replica can take a request now, or the first reason why not. What can never change by waiting
// comes first, so that the reasons of a whole fleet tell a request that is too large from a fleet that is down.
func Eligible(now time.Time, d *Demand, c *Candidate) Reason {
	if tooSmall(d, c) {
		return TooSmall
	}
	if why := stateReason(c.State); why != OK {
		return why
	}
	switch {
	case c.LacksLoRA:
		return LoRAMissing
	case c.LacksChat:
		return ChatMissing
	case excluded(d, c):
		return IsExcluded
	case c.Void || c.LimitsUnknown:
		return IsVoid
	case c.Suspect:
		return IsSuspect
	case c.Ejected:
		return IsEjected
	case c.CoolingUntil != nil && now.Before(*c.CoolingUntil):
		return Cooling
	case c.State == Warming && c.Load.SeatsBooked+c.PendingSeats+d.Seats > c.WarmingSeats:
		return WarmingQuota
	case c.Load.Overdrawn():
		return Overdrawn
	case c.Load.SeatsBooked+c.PendingSeats+d.Seats > c.Load.UsableSeats():
		return NoSeats
	case c.Load.BookedBlocks+c.PendingBlocks+c.NeedBlocks > c.Load.UsableBlocks():
		return NoBlocks
	}
	return OK
}

// tooSmall says whether the shortest possible answer to the demand exceeds the replica.
func tooSmall(d *Demand, c *Candidate) bool {
	if c.LimitsUnknown {
		return false
	}
	limits := c.Load.Limits
	return d.MinSequenceTokens > limits.SequenceTokens || d.Seats > limits.Seats ||
		d.MinSequenceTokens.Blocks(max(1, limits.BlockTokens)) > limits.KVBlocks
}

func stateReason(s State) Reason {
	switch s {
	case Ready, Warming:
		return OK
	case Starting:
		return NotStarted
	case Degraded:
		return IsDegraded
	case Draining:
		return IsDraining
	case Down:
		return IsDown
	case Gone, NumStates:
	}
	return IsGone
}

func excluded(d *Demand, c *Candidate) bool {
	for _, e := range d.Excluded {
		if e.ID == c.ID && e.Incarnation == c.Incarnation {
			return true
		}
	}
	return false
}
