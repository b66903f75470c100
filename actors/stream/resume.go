package stream

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/engine"
)

// Resume says how an answer may go on whose engine failed after its first token.
type Resume uint8

const (
	ResumeBest  Resume = iota // as well as can be, see [Class]
	ResumeExact               // unless what follows could differ from what the engine would have given
	ResumeOff                 // not at all

	NumResumes
)

// Class says how near an answer that goes on elsewhere is to the one that was broken off.
type Class uint8

const (
	// Exact is greedy decoding: the next token is a function of the tokens before it, whoever generated them.
	Exact Class = iota
	// SameDistribution is unseeded sampling: what follows is as good a draw as what would have followed.
	SameDistribution
	// Inexact are presence or frequency penalties, which count generated tokens only and so forget those that went into the
	// prompt; a seed with sampling, whose draws begin anew; IDs that the engine did not tell and that are made from text.
	Inexact
	// RestartOnly is where there are no token IDs to go on from: a chat that the engine rendered, which is also the only kind
	// that may be bound to a grammar, and engines that give text alone.
	RestartOnly

	NumClasses
)

// String returns the label used in metrics.
func (c Class) String() string {
	switch c {
	case Exact:
		return "exact"
	case SameDistribution:
		return "same_distribution"
	case Inexact:
		return "inexact"
	case RestartOnly:
		return "restart_only"
	case NumClasses:
	}
	return "unknown"
}

// Outcome is how it ended that an engine failed a leg which had produced tokens.
type Outcome uint8

const (
	Resumed   Outcome = iota // the leg has a token of its next attempt
	Restarted                // likewise, but it began anew: nothing had been sent to the client
	Declined                 // its class does not allow it, or the client does not want it
	GivenUp                  // nobody took over within the limits
	Left                     // the client left before

	NumOutcomes
)

// String returns the label used in metrics.
func (o Outcome) String() string {
	switch o {
	case Resumed:
		return "resumed"
	case Restarted:
		return "restarted"
	case Declined:
		return "declined"
	case GivenUp:
		return "given_up"
	case Left:
		return "left"
	case NumOutcomes:
	}
	return "unknown"
}

// observed reports how a break of a leg ended.
type observed struct {
	class   Class
	outcome Outcome
	carried int            // tokens that went into the next attempt's prompt
	gap     *time.Duration // from the last token before the break to the first one after it; nil: none came
}

// restartLeg takes back all of a leg that the client's writer was given.
type restartLeg struct {
	leg   int
	usage Usage
}

func (observed) isEffect()   {}
func (restartLeg) isEffect() {}

// breach is a break of a leg's stream of tokens that is not over.
type breach struct {
	class     Class
	restarted bool
	last      time.Time // of the last token before it
}

// greedyBelow is the temperature under which engines decode greedily (vLLM's own bound).
const greedyBelow = 1e-5

// classOf says what a request's answers lose at most when they go on elsewhere, as long as the engines tell all IDs.
func classOf(s *engine.Sampling) Class {
	greedy := s.Temperature != nil && *s.Temperature < greedyBelow
	switch {
	case set(s.PresencePenalty), set(s.FrequencyPenalty), s.Seed != nil && !greedy:
		return Inexact
	case greedy:
		return Exact
	}
	return SameDistribution
}

func set(penalty *float64) bool { return penalty != nil && *penalty != 0 }

// class is a leg's as it stands.
func (m *machine) class(l *legState) Class {
	switch {
	case m.raw(l), l.wordless, len(l.holes) > 0 && m.model.Encode == nil:
		return RestartOnly
	case len(l.holes) > 0:
		return Inexact
	}
	return classOf(&m.req.Sampling)
}

// way is how a leg goes on whose attempt has failed.
type way uint8

const (
	anew    way = iota // it had produced nothing: as if it had not begun
	goOn               // prompt and journal are the next attempt's prompt
	restart            // it had produced something that the client was not sent: that is dropped
	nohow
)

func (m *machine) way(l *legState) (way, Class) {
	if l.produced == 0 {
		return anew, Exact
	}
	class := m.class(l)
	switch {
	case class != RestartOnly && m.req.Resume == ResumeBest,
		class != RestartOnly && class != Inexact && m.req.Resume == ResumeExact:
		return goOn, class
	case m.req.Whole:
		return restart, class
	}
	return nohow, class
}

// cause is what a leg leaves its attempt for.
type cause uint8

const (
	failed   cause = iota // the engine did as its failure says
	emptied               // it did not fail, but is to be emptied
	silenced              // it is one of many on a replica that says nothing, and not the cause
	unread                // it did not fail, but gave a token that cannot be read
)

// refusedMax is how many engines may refuse a leg as if they refused us before it is taken that it is the leg that they refuse.
const refusedMax = 1

// reroute asks for a new place for a leg whose attempt is over before its end, or fails the request. Where a hedge runs beside
// it that one is all that is needed.
func (m *machine) reroute(now time.Time, a *attempt, f *engine.Failure, why cause) {
	l := a.leg
	if m.hedge.open() && m.beaten(a) && f.Kind != engine.Client {
		m.exclude(a, f.Kind, why)
		return
	}
	m.calm(l)
	how, class := m.way(l)
	if l.produced > 0 && l.breach == nil {
		l.breach = &breach{class: class, last: a.last}
	}
	switch {
	case a.produced > 0:
		l.fruitless = 0
	case l.produced > 0 && why != emptied && !untaken(f.Kind):
		l.fruitless++
	}
	if f.Kind == engine.Operator {
		l.refused++
	}
	said := faultOf(f, m.req.LoRA)
	if why == emptied {
		said = &fault.Fault{
			Kind: fault.NoReplica, Message: "the replica was drained and nobody else could take over", RetryAfter: time.Second, Err: f,
		}
	}
	if f.Kind == engine.Client || l.refused > refusedMax || l.attempts >= m.cfg.AttemptsMax || l.fruitless >= m.cfg.FruitlessMax {
		m.fail(said)
		return
	}
	switch how {
	case goOn:
		var err error
		if l.input, err = m.input(l); err != nil {
			m.fail(&fault.Fault{Kind: fault.Internal, Message: "internal error", Err: err})
			return
		}
	case nohow:
		m.observe(l, Declined, 0, nil)
		m.fail(declined(said, class, m.req.Resume))
		return
	case restart:
		l.breach.restarted = true
		l.restart(m.req, m.model)
		m.emit(restartLeg{l.index, m.usage()})
	case anew:
	}
	m.exclude(a, f.Kind, why)
	ask := m.ask(l)
	ask.Since, ask.LastFault, ask.Lives = now, said, f.Unfinished || f.Kind == engine.Operator
	if f.Kind == engine.Local { // that passes when others end, not at once: all attempts together may take RetryWait
		l.parked, m.pollAt = &ask, now.Add(m.cfg.RetryWait/time.Duration(m.cfg.AttemptsMax))
		return
	}
	if !m.begun() {
		if l.retrying = m.retries.take(f.Kind != engine.Shed); !l.retrying {
			l.parked, m.pollAt = &ask, now.Add(m.cfg.RetryPoll)
			return
		}
	}
	m.seek(ask)
}

// untaken says whether the engine did not even take what failed so.
func untaken(kind engine.FailKind) bool {
	return kind == engine.Shed || kind == engine.Refused || kind == engine.Local
}

// poll lets those legs go on that wait for the retry budget, or for room of ours, if there is some now, and gives up on those that waited for it
// too long.
func (m *machine) poll(now time.Time) {
	if m.ended || now.Before(m.pollAt) {
		return
	}
	m.pollAt = now.Add(m.cfg.RetryPoll)
	for _, l := range m.legs {
		ask := l.parked
		if ask == nil {
			continue
		}
		if l.retrying = m.retries.take(m.begun()); l.retrying {
			l.parked = nil
			m.seek(*ask)
		} else if !now.Before(ask.Since.Add(m.cfg.RetryWait)) {
			m.fail(ask.LastFault)
			return
		}
	}
}

// exclude keeps a leg's next attempts away from what failed it. A shedder is none of a leg's that has begun: it cools down,
// and the leg may wait for it. Nor is one that is emptied, which takes nothing new until it is asked back, nor one whose attempt
// got on, up to a token that cannot be read: the next draw there is as good as elsewhere, and there may be nobody else.
func (m *machine) exclude(a *attempt, kind engine.FailKind, why cause) {
	if why == emptied || why == silenced || why == unread && a.produced > 0 {
		return
	}
	x := Exclusion{Replica: a.place.Ref.ID, Incarnation: a.place.Incarnation}
	switch kind {
	case engine.Shed:
		if m.begun() {
			return
		}
	case engine.Refused, engine.Broken, engine.Stalled, engine.Operator:
		x.Process = true
	case engine.Local:
		return // any other would have met it too
	case engine.Client, engine.NumFailKinds:
	}
	a.leg.excluded = append(a.leg.excluded, x)
}

// begun says whether some answer has tokens, so that the request has cost work that is worth waiting for.
func (m *machine) begun() bool {
	return slices.ContainsFunc(m.legs, func(l *legState) bool { return l.produced > 0 })
}

// ask is what a leg wants now: a place for its prompt and its journal.
func (m *machine) ask(l *legState) Ask {
	a := Ask{Leg: l.index, Prompt: l.prompt, Excluded: l.excluded, Only: l.only, Produced: l.produced}
	if l.produced > 0 {
		left := l.limit - l.produced
		a.MaxTokens = &left
	}
	return a
}

// seek submits an ask. One submission at a time: it joins what waits already.
func (m *machine) seek(ask Ask) {
	asks := append(slices.Clone(m.waiting.asks), ask)
	m.forsake()
	m.submit(asks)
}

// calm ends a leg's share in the retry budget.
func (m *machine) calm(l *legState) {
	if l.retrying {
		l.retrying = false
		m.retries.giveBack()
	}
}

// observe ends a leg's breach, if it has one.
func (m *machine) observe(l *legState, outcome Outcome, carried int, gap *time.Duration) {
	if l.breach != nil {
		m.emit(observed{l.breach.class, outcome, carried, gap})
		l.breach = nil
	}
}

// mended notes the first token after a break.
func (m *machine) mended(a *attempt, at time.Time) {
	m.calm(a.leg)
	b := a.leg.breach
	if b == nil {
		return
	}
	outcome := Resumed
	if b.restarted {
		outcome = Restarted
	}
	gap := at.Sub(b.last)
	m.observe(a.leg, outcome, a.base, &gap)
}

// input is what an engine gets as the prompt of a leg: the prompt and what it has produced.
func (m *machine) input(l *legState) ([]uint32, error) {
	prompt := m.prompts[l.prompt].IDs
	if l.produced == 0 {
		return prompt, nil
	}
	out := append(make([]uint32, 0, len(prompt)+l.produced), prompt...)
	from := 0
	for _, h := range l.holes {
		ids, err := m.model.Encode(h.text)
		if err != nil {
			return nil, fmt.Errorf("the text of lost IDs: %w", err)
		}
		out = append(append(out, l.ids[from:h.at]...), ids...)
		from = h.at
	}
	return append(out, l.ids[from:]...), nil
}

// declined is the fault of an answer that could go on, but not as its client wants it.
func declined(because *fault.Fault, class Class, wanted Resume) *fault.Fault {
	what := "the engine failed"
	if because.Kind == fault.NoReplica {
		what = "the replica was drained"
	}
	why := "without token IDs it cannot be continued on another one"
	switch {
	case wanted == ResumeOff:
		why = "the request wants no continuation on another one"
	case class == Inexact:
		why = "its continuation on another one would not be exact, as the request wants it"
	}
	because.Message = what + " in the middle of the answer, and " + why + "; send the request again"
	return because
}
