package cost

import (
	"math"
	"time"

	"plimsoll/scoring"
)

// Config holds the learner's priors and memory.
type Config struct {
	Prior Rates
	// FirstOutputTokens is predicted before any answer was seen.
	FirstOutputTokens scoring.Tokens
	// OutputsKept is how many of the last answers the predicted length is taken from.
	OutputsKept int
	// OutputQuantile of them is the prediction.
	OutputQuantile float64
	// StepKeep is what a run of steps weighs after one more was seen: 0.995 remembers some 200.
	StepKeep float64
	// PriorShare is what the prior of a replica's prefill speed weighs, as a share of the longest prefill that the fleet
	// has shown: relative to the work seen, so that it gives way as fast on a device a hundred times slower.
	PriorShare float64
}

// DefaultConfig has the constants of the published trial, and predicts 512 tokens at first.
func DefaultConfig() Config {
	return Config{
		Prior: DefaultRates(), FirstOutputTokens: 512, OutputsKept: 512, OutputQuantile: 0.9,
		StepKeep: 0.995, PriorShare: 0.5,
	}
}

// Learner estimates the rates of a model's replicas and the length of its answers from what its streams show. It is
// pure and not safe for concurrent use: the router owns it. Its memory is one entry a replica, until Forget.
type Learner struct {
	cfg      Config
	fleet    observed
	longest  float64 // predicted seconds of the longest prefill seen, slowly forgotten
	replicas map[scoring.ReplicaID]*observed
	outputs  lengths
	usual    usual
}

// usual is what the fleet's replicas are taken to be like.
type usual struct {
	known  bool    // nothing was observed since it was worked out
	rates  Rates   // their prefill as configured
	pace   pace    // how long beside that their prefill takes
	weight float64 // what that weighs beside a replica's own
}

// observed is what one replica's streams showed.
type observed struct {
	shown    time.Time // when they last showed anything
	speed    speed
	prefills int // observed, as far as prefillsKnown
	busy     busy
	steps    plane
	past     plane // as steps, but it forgets slowly
	pace     trend
	// How its passes and steps lie beside the prior's.
	passesOff, stepsOff deviation
	odd                 float64 // the share of runs of steps that took much longer than predicted, of late
}

// prefillsKnown is how many prefills a replica must have shown before its own speed counts as known.
const prefillsKnown = 3

// prefillReach is how many times as long as the longest that it has shown a prefill may be for that to say how long it takes.
const prefillReach = 4

var _ Estimator = (*Learner)(nil)

// KnowsPrefill implements [Estimator]: the replica has done some prefills, and one that took a quarter of it or more. Else Rates
// speaks of its fleet or its prior, or goes on from prompts that are over in one pass whatever their length.
func (l *Learner) KnowsPrefill(id scoring.ReplicaID, tokens, hit scoring.Tokens) bool {
	o := l.replicas[id]
	return o != nil && o.prefills >= prefillsKnown && l.cfg.Prior.PrefillSeconds(tokens, hit) <= prefillReach*o.speed.longest
}

// NewLearner returns a learner that knows only its priors.
func NewLearner(cfg Config) *Learner {
	return &Learner{
		cfg:      cfg,
		replicas: map[scoring.ReplicaID]*observed{},
		outputs:  newLengths(max(1, cfg.OutputsKept)),
	}
}

func (l *Learner) replica(id scoring.ReplicaID) *observed {
	o := l.replicas[id]
	if o == nil {
		o = &observed{}
		l.replicas[id] = o
	}
	return o
}

// FirstToken notes that a replica computed prefill uncached prompt tokens behind hit cached ones in the time took. That
// is the time since the later of the dispatch of the oldest request without a first token and the previous first token
// there, so that a queue is not counted twice; 0 for first tokens of the same instant, which share one measured time.
func (l *Learner) FirstToken(now time.Time, id scoring.ReplicaID, prefill, hit scoring.Tokens, took time.Duration) {
	predicted := l.cfg.Prior.PrefillSeconds(prefill, hit)
	if predicted <= 0 || took < 0 {
		return
	}
	o := l.replica(id)
	o.seen(now)
	// A first token takes a pass of its own, however short the prompt: that is no prefill.
	measured := max(0, took.Seconds()-l.Rates(id).StepSeconds)
	for _, to := range []*observed{o, &l.fleet} {
		to.passesOff.observe(measured, predicted+passLength, passesKeep)
	}
	l.usual.known = false
	l.longest = max(predicted, l.longest*longestKeep)
	l.fleet.speed.observe(measured, predicted)
	o.speed.observe(measured, predicted)
	o.busy.add(now, measured)
	o.prefills = min(o.prefills+1, prefillsKnown)
}

// longestKeep forgets the longest prefill by half in some 700 first tokens.
const longestKeep = 0.999

// Step notes a gap between two tokens of a stream while the replica decoded so many sequences over kvTokens and nothing there
// waited for its first token.
func (l *Learner) Step(now time.Time, id scoring.ReplicaID, sequences int, kvTokens scoring.Tokens, gap time.Duration) {
	if gap <= 0 || kvTokens < 0 || sequences < 0 {
		return
	}
	o := l.replica(id)
	o.seen(now)
	seconds := gap.Seconds()
	counts := o.usual(seconds, l.Rates(id).StepSecondsAt(sequences, kvTokens))
	if o.past.n >= trendAfter {
		past := l.rates(o, 1)
		o.past.fit(&past, stepPull)
		if predicted := past.StepSecondsAt(sequences, kvTokens); predicted > 0 {
			o.pace.observe(seconds / predicted)
			seconds = min(seconds, pastMost*predicted)
		}
	}
	n, kv := float64(sequences), float64(kvTokens)
	o.past.observe(n, kv, seconds, pastKeep)
	if counts {
		for _, to := range []*observed{o, &l.fleet} {
			to.stepsOff.observe(gap.Seconds(), l.cfg.Prior.StepSecondsAt(sequences, kvTokens), l.cfg.StepKeep)
			to.steps.observe(n, kv, gap.Seconds(), l.cfg.StepKeep)
		}
		l.usual.known = false
	}
}

const (
	// stepsKnown is from how many runs of steps on one that is much slower than they say may be left out.
	stepsKnown = 8
	// stepMost is how many times as long as predicted a run may take: a pause is no pace.
	stepMost = 2
	// oddKeep is what the share of such runs keeps with one more. Above oddMost they are no exception: the replica has changed.
	oddKeep, oddMost = 0.9, 0.5
)

// usual says whether a run of steps counts for the pace.
func (o *observed) usual(seconds, predicted float64) bool {
	odd := 0.0
	if o.steps.n >= stepsKnown && seconds > stepMost*predicted {
		odd = 1
	}
	o.odd += (1 - oddKeep) * (odd - o.odd)
	return odd == 0 || o.odd > oddMost
}

const (
	// keptAfter is how long what a replica has shown weighs all while it shows nothing more, keptHalf how long it then takes to
	// weigh half. A replica that was slow for a moment may be sent nothing from then on and must not count as slow for ever. It is
	// long, since one that is slow by nature is sent a request for nothing whenever that is forgotten.
	keptAfter, keptHalf = 5 * time.Minute, time.Minute
	keptLeast           = 1e-6
)

// kept is the share that the observations weigh yet.
func (o *observed) kept(now time.Time) float64 {
	silent := now.Sub(o.shown)
	if silent <= keptAfter {
		return 1
	}
	return max(keptLeast, math.Exp2(-(silent-keptAfter).Seconds()/keptHalf.Seconds()))
}

// seen notes that the replica shows something. What it showed long before has the weight that is left.
func (o *observed) seen(now time.Time) {
	if kept := o.kept(now); kept < 1 {
		o.speed.fade(kept)
		o.steps.fade(kept)
	}
	o.shown = now
}

// Output notes the length of a finished answer, that of its prompt, and the limit that it had; 0: that is not known.
func (l *Learner) Output(prompt, produced, limit scoring.Tokens) {
	if produced > 0 {
		l.outputs.observe(prompt, produced, limit)
	}
}

// Forget drops what is known of a replica: it left, or came back as another machine.
func (l *Learner) Forget(id scoring.ReplicaID) { delete(l.replicas, id) }

// Rates returns a replica's rates, as it showed them last. The fleet is the prior of a replica, and the configured rates are a weak one of the fleet: a
// replica not seen yet counts as one of its fellows, not as the device that the configuration had in mind. The pull from
// above must be weak: what it adds or takes would stand between a replica that was seen and those that were not, and draw
// conversations away from their cache.
func (l *Learner) Rates(id scoring.ReplicaID) Rates { return l.rates(l.replicas[id], 1) }

// At implements [Estimator].
func (l *Learner) At(now time.Time, id scoring.ReplicaID) (rates Rates, busy float64) {
	o, kept := l.replicas[id], 1.0
	if o != nil {
		busy, kept = o.busy.share(now), o.kept(now)
	}
	return l.rates(o, kept), busy
}

// rates are those of a replica of whom kept is the share that its observations weigh yet.
func (l *Learner) rates(o *observed, kept float64) Rates {
	if !l.usual.known {
		l.work()
	}
	u := &l.usual
	r, pace := u.rates, u.pace
	if o != nil {
		doubt := o.passesOff.doubt(&l.fleet.passesOff, passesAlike)
		passes, weight := pulled(passPull/passLength, o.speed.n, doubt), pulled(u.weight, o.speed.pp, doubt)
		pace = o.speed.fit(pace, passes/kept, weight/kept)
		o.steps.fit(&r, pulled(stepPull, o.steps.n, o.stepsOff.doubt(&l.fleet.stepsOff, stepsAlike))/kept)
	}
	return r.at(pace)
}

// work works out what is usual.
func (l *Learner) work() {
	r, weight := l.cfg.Prior, l.cfg.PriorShare*l.longest
	l.fleet.steps.fit(&r, stepPull*fleetPull)
	l.usual = usual{known: true, rates: r, pace: l.fleet.speed.fit(pace{factor: 1}, passPullFleet/passLength, weight*fleetPull), weight: weight}
}

const (
	// stepPull is how many runs of steps at each of the prior's three points the prior of a replica weighs.
	stepPull = 16
	// fleetPull is how much less the configured rates weigh for the fleet than the fleet for a replica.
	fleetPull = 1.0 / 64
)

// Answer implements [Estimator].
func (l *Learner) Answer(prompt, maxTokens scoring.Tokens) Forecast {
	if maxTokens <= 0 {
		return Forecast{}
	}
	return l.outputs.forecast(prompt, maxTokens, l.cfg.OutputQuantile, l.cfg.FirstOutputTokens)
}
