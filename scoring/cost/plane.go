package cost

// plane is a decayed least-squares fit of step time on a batch's sequences and KV tokens, held by three points of the prior.
type plane struct {
	// Sums over what was observed: of 1, sequences and KV with each other, and of each with the time.
	n, s, k, ss, sk, kk float64
	y, sy, ky           float64
}

const (
	// The prior's points are at nothing, at so many sequences alone and at so many KV tokens alone.
	priorSequences = 32
	priorKV        = 100_000
	// kvScale has KV tokens count about as much as sequences, for the sums' sake.
	kvScale = 1.0 / 4096
)

func (f *plane) observe(sequences, kv, seconds, keep float64) {
	f.fade(keep)
	f.add(sequences, kv, seconds, 1)
}

func (f *plane) add(sequences, kv, seconds, weight float64) {
	kv *= kvScale
	f.n += weight
	f.s += weight * sequences
	f.k += weight * kv
	f.ss += weight * sequences * sequences
	f.sk += weight * sequences * kv
	f.kk += weight * kv * kv
	f.y += weight * seconds
	f.sy += weight * sequences * seconds
	f.ky += weight * kv * seconds
}

func (f *plane) fade(kept float64) {
	for _, sum := range []*float64{&f.n, &f.s, &f.k, &f.ss, &f.sk, &f.kk, &f.y, &f.sy, &f.ky} {
		*sum *= kept
	}
}

// fit puts the step's rates into r, which holds the prior's. None becomes negative. The prior stays in the fit, so that
// observations at one single load leave each rate defined; weight is how many of them each of its points counts as.
func (f *plane) fit(r *Rates, weight float64) {
	if f.n == 0 {
		return
	}
	g := *f
	g.add(0, 0, r.StepSeconds, weight)
	g.add(priorSequences, 0, r.StepSeconds+priorSequences*r.StepSecondsPerSequence, weight)
	g.add(0, priorKV, r.StepSeconds+priorKV*r.StepSecondsPerKVToken, weight)
	step, perSequence, perKV := g.solve()
	r.StepSeconds, r.StepSecondsPerSequence, r.StepSecondsPerKVToken = step, perSequence, kvScale*perKV
}

// solve is the fit with no part below 0: one that would be is left out, and the rest fitted again. Of several the one whose
// absence changes most goes first, in the time that it takes off the observations together.
func (f *plane) solve() (step, perSequence, perKV float64) {
	use := [3]bool{true, true, true}
	for {
		x := f.solved(use)
		worst, at := 0.0, -1
		for i, part := range [3]float64{x[0] * f.n, x[1] * f.s, x[2] * f.k} {
			if part < worst {
				worst, at = part, i
			}
		}
		if at < 0 {
			return x[0], x[1], x[2]
		}
		use[at] = false
	}
}

// solved is the fit of those parts that are used, by elimination; the sums are those of a positive definite matrix.
func (f *plane) solved(use [3]bool) (x [3]float64) {
	m := [3][4]float64{{f.n, f.s, f.k, f.y}, {f.s, f.ss, f.sk, f.sy}, {f.k, f.sk, f.kk, f.ky}}
	for i, used := range use {
		if used {
			continue
		}
		for j := range m {
			m[i][j], m[j][i] = 0, 0
		}
		m[i][i], m[i][3] = 1, 0
	}
	for i := range m {
		for j := i + 1; j < len(m); j++ {
			by := m[j][i] / m[i][i]
			for k := i; k < len(m[j]); k++ {
				m[j][k] -= by * m[i][k]
			}
		}
	}
	for i := len(m) - 1; i >= 0; i-- {
		sum := m[i][3]
		for j := i + 1; j < len(m); j++ {
			sum -= m[i][j] * x[j]
		}
		x[i] = sum / m[i][i]
	}
	return x
}
