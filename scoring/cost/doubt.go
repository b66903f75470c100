package cost

import "math"

// deviation is how observations lie beside what the prior predicts for them, of late: the logarithm of their ratio.
type deviation struct {
	n, x, xx float64 // decayed sums of 1, of it and of its square
}

const (
	// stepsAlike runs of steps, and passesAlike passes, are of one batch or one moment.
	stepsAlike, passesAlike = 8, 2
	// passesKeep remembers about as many passes as a replica's speed is made of.
	passesKeep = 1 - 1.0/speedKept
)

// deviationMost bounds one observation: four times as much, or a quarter.
const deviationMost = 2 * math.Ln2

func (d *deviation) observe(measured, predicted, keep float64) {
	if measured <= 0 || predicted <= 0 {
		return
	}
	x := max(-deviationMost, min(deviationMost, math.Log(measured/predicted)))
	d.n = keep*d.n + 1
	d.x = keep*d.x + x
	d.xx = keep*d.xx + x*x
}

// varianceFirst is what it is taken to vary as long as little was seen: by 30 % either way.
const varianceFirst = 0.09

// doubtMost leaves a replica some part in its own rates.
const doubtMost = 0.95

// doubt is the share of a replica's distance from its fleet that may be chance, as James and Stein have it: the square of its standard
// error over its own square. Those of one batch or one busy moment are alike, and count as one.
//
// Two engines that are equal are seen at different moments, on a machine that is not always as busy. Without it what is left of that
// made one of them seem a quarter slower, and ten chats at once went to the other.
func (d *deviation) doubt(fleet *deviation, alike float64) float64 {
	if d.n <= 0 {
		return 0
	}
	mean := d.x / d.n
	variance := max(0, d.xx/d.n-mean*mean)
	chance := (d.n*variance + varianceFirst*alike) / (d.n + alike) * alike / d.n
	distance := mean - fleet.x/fleet.n
	if chance >= doubtMost*distance*distance {
		return doubtMost
	}
	return chance / (distance * distance)
}

// pulled is how many observations beside n the prior counts as, where a share of what they show may be chance; least at least.
func pulled(least, n, doubt float64) float64 { return max(least, n*doubt/(1-doubt)) }
