package policy

import (
	"time"

	"plimsoll/scoring"
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
	Kept                       // what is free is kept for requests of a higher class that wait for room

	NumReasons
)

// String is the word used in explain tables, logs and metrics.
func (r Reason) String() string {
	names := [NumReasons]string{
		OK: "eligible", TooSmall: "too small", NotStarted: "starting", IsDegraded: "degraded", IsDraining: "draining",
		IsDown: "down", IsGone: "gone", LoRAMissing: "lora missing", ChatMissing: "chat missing", IsExcluded: "excluded", IsVoid: "void",
		IsSuspect: "suspect", IsEjected: "ejected", Cooling: "cooling", WarmingQuota: "warming quota", Overdrawn: "overdrawn",
		NoSeats: "no seats", NoBlocks: "no blocks", Kept: "kept for a higher class",
	}
	if r < NumReasons {
		return names[r]
	}
	return "unknown"
}

// Passes says whether waiting can help: the replica serves, and what stands in the way goes away by itself.
func (r Reason) Passes() bool {
	switch r {
	case OK, IsVoid, IsSuspect, IsEjected, Cooling, WarmingQuota, Overdrawn, NoSeats, NoBlocks, Kept:
		return true
	case TooSmall, NotStarted, IsDegraded, IsDraining, IsDown, IsGone, LoRAMissing, ChatMissing, IsExcluded, NumReasons:
	}
	return false
}

// Returns says whether the replica may come to take the request: it serves, or does not answer yet or any more.
func (r Reason) Returns() bool { return r.Passes() || r == NotStarted || r == IsDown }

// LacksOnlyRoom says whether the replica takes the request now or as soon as others have left.
func (r Reason) LacksOnlyRoom() bool {
	switch r {
	case OK, WarmingQuota, Overdrawn, NoSeats, NoBlocks, Kept:
		return true
	case TooSmall, NotStarted, IsDegraded, IsDraining, IsDown, IsGone, LoRAMissing, ChatMissing, IsExcluded, IsVoid, IsSuspect, IsEjected,
		Cooling, NumReasons:
	}
	return false
}

// Eligible says whether a replica can take a request now, or the first reason why not. What can never change by waiting
// comes first, so that the reasons of a whole fleet tell a request that is too large from a fleet that is down.
func Eligible(now time.Time, d *Demand, c *Candidate, f *Fit) Reason {
	var s stand
	s.look(now, c)
	return s.eligible(d, c, f)
}

// stand is how a candidate stands at a moment, whatever the request.
type stand struct {
	longest  scoring.Tokens // the longest sequence it could hold when empty; noLimit if that is not known
	free     scoring.Blocks
	single   Reason // whyNot
	lasting  Reason // why it takes nobody, and waiting is no use
	passing  Reason // why it takes nobody for a while
	full     bool   // it is overdrawn
	seats    int    // it has, when empty; noLimit if that is not known
	freeSeat int
	warmSeat int // seats that its warming quota leaves; noLimit: it has none
	// The part of what is free that is kept for others.
	keptSeat int
	kept     scoring.Blocks
}

// noLimit stands for a bound that is not there.
const noLimit = 1 << 62

// look makes s how a candidate stands at a moment.
func (s *stand) look(now time.Time, c *Candidate) {
	limits, booked := &c.Load.Limits, c.Load.SeatsBooked+c.PendingSeats
	usable := c.Load.UsableBlocks()
	s.longest, s.seats = min(limits.SequenceTokens, scoring.Tokens(limits.KVBlocks)*max(1, limits.BlockTokens)), limits.Seats
	s.lasting, s.passing, s.warmSeat, s.full = stateReason(c.State), OK, noLimit, c.Load.Overdrawn()
	s.freeSeat, s.free = c.Load.UsableSeats()-booked, usable-c.Load.BookedBlocks-c.PendingBlocks
	s.keptSeat, s.kept = c.KeptSeats, c.KeptBlocks
	if c.LimitsUnknown {
		s.longest, s.seats = noLimit, noLimit
	}
	if c.State == Warming {
		s.warmSeat = c.WarmingSeats - booked
	}
	switch {
	case c.Void || c.LimitsUnknown:
		s.passing = IsVoid
	case c.Suspect:
		s.passing = IsSuspect
	case c.Ejected:
		s.passing = IsEjected
	case c.CoolingUntil != nil && now.Before(*c.CoolingUntil):
		s.passing = Cooling
	}
	s.single = s.whyNot()
}

// whyNot is the first reason why it takes no request of one seat, whatever its size; Kept if that hangs on what is kept there.
func (s *stand) whyNot() Reason {
	switch {
	case s.seats < 1:
		return TooSmall
	case s.lasting != OK:
		return s.lasting
	case s.passing != OK:
		return s.passing
	case s.warmSeat < 1:
		return WarmingQuota
	case s.full:
		return Overdrawn
	case s.freeSeat < 1:
		return NoSeats
	case s.keptSeat != 0 || s.kept != 0:
		return Kept
	}
	return OK
}

// room says whether it has room for a request, beside what is kept there.
func (s *stand) room(seats int, f *Fit) Reason {
	switch {
	case seats > s.freeSeat:
		return NoSeats
	case f.NeedBlocks > s.free || f.Barred:
		return NoBlocks
	case s.keptSeat == 0 && s.kept == 0:
	case seats+s.keptSeat > min(s.freeSeat, s.warmSeat) || f.NeedBlocks+s.kept > s.free:
		return Kept
	}
	return OK
}

// takes is eligible, of a request of one seat that lacks nothing there and is excluded nowhere.
func (s *stand) takes(sequence scoring.Tokens, f *Fit) Reason {
	switch {
	case sequence > s.longest:
		return TooSmall
	case s.single == Kept:
		return s.room(1, f)
	case s.single != OK:
		return s.single
	case f.NeedBlocks > s.free || f.Barred:
		return NoBlocks
	}
	return OK
}

func (s *stand) eligible(d *Demand, c *Candidate, f *Fit) Reason {
	switch {
	case d.MinSequenceTokens > s.longest || d.Seats > s.seats:
		return TooSmall
	case s.lasting != OK:
		return s.lasting
	case f.LacksLoRA:
		return LoRAMissing
	case f.LacksChat:
		return ChatMissing
	case len(d.Excluded) > 0 && excluded(d, c):
		return IsExcluded
	case s.passing != OK:
		return s.passing
	case d.Seats > s.warmSeat:
		return WarmingQuota
	case s.full:
		return Overdrawn
	}
	return s.room(d.Seats, f)
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
