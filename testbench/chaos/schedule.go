package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// due is a fault whose spans are drawn. Whom it strikes is decided when it is due, unless its script says so.
type due struct {
	Fault
	at        time.Duration // after the warm-up
	lasts     time.Duration // For, drawn
	back      time.Duration // Back, drawn
	victimise uint64        // draws the victim
}

// schedule draws when what goes wrong: the same for the same plan.
func schedule(p Plan) []due {
	rng := rand.New(rand.NewPCG(p.Seed, 0xfa17))
	var list []due
	add := func(f Fault, at time.Duration) {
		list = append(list, due{Fault: f, at: at, lasts: draw(rng, f.For), back: draw(rng, f.Back), victimise: rng.Uint64()})
	}
	for _, f := range p.Faults.At {
		add(f, f.At)
	}
	if p.Faults.Every > 0 {
		var deck []Fault // what is left of it: each kind comes as often as its weight says
		for at := time.Duration(0); at < p.Duration; at += p.Faults.Every {
			if len(deck) == 0 {
				deck = shuffled(rng, p.Faults.Mix)
			}
			add(deck[0], at)
			deck = deck[1:]
		}
	}
	slices.SortStableFunc(list, func(a, b due) int { return cmp.Compare(a.at, b.at) })
	return list
}

func draw(rng *rand.Rand, s Span) time.Duration {
	return s[0] + time.Duration(rng.Int64N(int64(s[1]-s[0])+1))
}

// shuffled is a deck with as many cards of each fault as it weighs.
func shuffled(rng *rand.Rand, mix []Fault) []Fault {
	deck := make([]Fault, 0, weights(mix))
	for _, f := range mix {
		for range f.Weight {
			deck = append(deck, f)
		}
	}
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// victim chooses among the engines that nothing is wrong with: of two that are drawn the one with more answers under way, so
// that faults strike where there is something to strike. False: too few engines would be left. A script is done as it says.
func victim(d due, healthy []int, least int, under func(engine int) int) (int, bool) {
	switch {
	case d.Engine != nil:
		return *d.Engine, true
	case len(healthy) <= least:
		return 0, false
	}
	n := uint64(len(healthy))
	one, other := healthy[d.victimise%n], healthy[d.victimise>>32%n]
	if under(other) > under(one) {
		return other, true
	}
	return one, true
}
