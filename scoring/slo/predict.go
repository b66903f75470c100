package slo

import (
	"cmp"
	"math"
	"slices"
)

// Replica is one that can take the request, now or when there is room.
type Replica struct {
	WaitSeconds    float64 // the prefill work that it has been sent
	PrefillSeconds float64 // the request's own prompts there, with the step that gives the first token
	Blocks, Seats  Stock
	// LifeSeconds is how long a request there keeps what it has.
	LifeSeconds float64
}

// Stock is one of the things that a replica has a number of.
type Stock struct {
	Usable float64 // when it is empty
	Free   float64 // negative: it owes some
	Need   float64 // what the request takes
}

// Ahead is what stands before a request in the queue.
type Ahead struct{ PrefillSeconds, Blocks, Seats float64 }

// Plus is what both take.
func (a Ahead) Plus(b Ahead) Ahead {
	return Ahead{a.PrefillSeconds + b.PrefillSeconds, a.Blocks + b.Blocks, a.Seats + b.Seats}
}

// Minus is what is left without b.
func (a Ahead) Minus(b Ahead) Ahead {
	return Ahead{a.PrefillSeconds - b.PrefillSeconds, a.Blocks - b.Blocks, a.Seats - b.Seats}
}

// Prediction is how long, in seconds from now, a request waits.
type Prediction struct {
	RoomSeconds  float64 // until its prefill begins
	FirstSeconds float64 // until its first token
}

// SecondsMost bounds a prediction: a day is as good as never.
const SecondsMost = 86400

// lifeLeast keeps a replica of which nothing is known from giving back what it has at once.
const lifeLeast = 1e-3

// Predict says where and when the first token comes soonest. False: there is no replica. replicas are put in another order.
func Predict(replicas []Replica, ahead Ahead) (Prediction, bool) {
	if len(replicas) == 0 {
		return Prediction{}, false
	}
	slices.SortFunc(replicas, func(a, b Replica) int { return cmp.Compare(a.WaitSeconds, b.WaitSeconds) })
	level := levelOf(replicas, ahead.PrefillSeconds)
	blocks := poured(replicas, ahead.Blocks, func(r *Replica) *Stock { return &r.Blocks })
	seats := poured(replicas, ahead.Seats, func(r *Replica) *Stock { return &r.Seats })
	best := Prediction{RoomSeconds: SecondsMost, FirstSeconds: math.Inf(1)}
	for i := range replicas {
		r := &replicas[i]
		room := max(level, r.WaitSeconds, blocks.until(&r.Blocks, r.LifeSeconds), seats.until(&r.Seats, r.LifeSeconds))
		if first := room + r.PrefillSeconds; first < best.FirstSeconds {
			best = Prediction{RoomSeconds: min(room, SecondsMost), FirstSeconds: first}
		}
	}
	best.FirstSeconds = min(best.FirstSeconds, SecondsMost)
	return best, true
}

// levelOf is how high the prefill queues stand when so many seconds were poured on them, the lowest first.
func levelOf(sorted []Replica, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	sum := 0.0
	for i := range sorted {
		sum += sorted[i].WaitSeconds
		level := (sum + seconds) / float64(i+1)
		if i+1 == len(sorted) || level <= sorted[i+1].WaitSeconds {
			return level
		}
	}
	return 0
}

// pour is where the fleet stands when those before a request have taken what they need of a stock.
type pour struct {
	left    float64 // share of what is free that nobody has taken
	seconds float64 // until as much is given back as they need beyond that
}

func poured(replicas []Replica, need float64, of func(*Replica) *Stock) pour {
	free, perSecond := 0.0, 0.0
	for i := range replicas {
		s := of(&replicas[i])
		free += max(0, s.Free)
		perSecond += s.perSecond(replicas[i].LifeSeconds)
	}
	switch {
	case need <= 0:
		return pour{left: 1}
	case need < free:
		return pour{left: 1 - need/free}
	}
	return pour{seconds: over(need-free, perSecond)}
}

// perSecond is how much of its stock a full replica gives back.
func (s *Stock) perSecond(life float64) float64 { return max(0, s.Usable) / max(lifeLeast, life) }

// until is how long it takes until a replica has what the request needs.
func (p pour) until(s *Stock, life float64) float64 {
	left := s.Free
	if left > 0 {
		left *= p.left
	}
	if s.Need <= left {
		return p.seconds
	}
	return p.seconds + over(s.Need-left, s.perSecond(life))
}

// over is a division that ends at [SecondsMost].
func over(what, perSecond float64) float64 {
	if what <= 0 {
		return 0
	}
	if !(what < perSecond*SecondsMost) {
		return SecondsMost
	}
	return what / perSecond
}
