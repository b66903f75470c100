package trace

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Names of the generators.
const (
	AgentsName       = "agents"
	HeavyMixName     = "heavy-mix"
	SharedPromptName = "shared-prompt"
	BurstsName       = "bursts"
)

// Generators lists the names of the generators.
func Generators() []string { return []string{AgentsName, HeavyMixName, SharedPromptName, BurstsName} }

// Generate returns the endless traffic of a generator: some twenty requests a second, which a fleet of eight H100 may be asked.
// Equal seeds give equal traffic.
func Generate(name string, seed uint64) (Source, error) {
	d := &draw{rng: rand.New(rand.NewPCG(seed, 0x7ace)), seed: seed}
	switch name {
	case AgentsName:
		return d.numbered((&agents{draw: d, next: -agentsWarm}).request), nil
	case HeavyMixName:
		return d.poisson(d.heavyMix), nil
	case SharedPromptName:
		return d.poisson(d.sharedPrompt), nil
	case BurstsName:
		return d.numbered((&bursts{draw: d}).request), nil
	}
	return nil, fmt.Errorf("trace: unknown generator %q: choose one of %s", name, strings.Join(Generators(), ", "))
}

// perSecond is how many requests a second the generators draw on average; of agents it is some more.
const perSecond = 20.0

// draw is what generators share.
type draw struct {
	rng   *rand.Rand
	seed  uint64
	ids   uint64
	given uint64
	at    time.Duration
}

// part is content that is named for the first time.
func (d *draw) part(tokens int) Part {
	d.ids++
	return Part{mix(d.seed)<<24 ^ d.ids, tokens}
}

// common is content of a name that all requests of the trace share.
func (d *draw) common(name uint64, tokens int) Part { return Part{mix(d.seed^name) | 1<<63, tokens} }

// after is a random wait of a Poisson process.
func (d *draw) after(rate float64) time.Duration {
	return time.Duration(d.rng.ExpFloat64() / rate * float64(time.Second))
}

// tokens is a lognormal length: median, and sigma of its logarithm.
func (d *draw) tokens(median int, sigma float64, most int) int {
	return min(most, max(1, int(float64(median)*math.Exp(sigma*d.rng.NormFloat64()))))
}

// sequence makes a request of parts that it asks and the part that answers it.
func (d *draw) sequence(prompt []Part, answer Part) Request {
	r := Request{At: d.at, OutputTokens: answer.Tokens, Parts: append(prompt[:len(prompt):len(prompt)], answer)}
	for _, p := range prompt {
		r.PromptTokens += p.Tokens
	}
	return r
}

// numbered makes a generator a Source.
func (d *draw) numbered(next func() Request) Source {
	return nextOf(func() (Request, error) {
		r := next()
		r.Number = d.given
		d.given++
		return r, nil
	})
}

func (d *draw) poisson(next func() Request) Source {
	return d.numbered(func() Request {
		d.at += d.after(perSecond)
		return next()
	})
}

// heavyMix: nine in ten requests are short, most of the tokens are in a few very long ones. Nothing is shared but a short
// system prompt.
func (d *draw) heavyMix() Request {
	prompt := []Part{d.common(1, 160)}
	switch p := d.rng.Float64(); {
	case p < 0.90:
		prompt = append(prompt, d.part(d.tokens(500, 0.9, 8_000)))
	case p < 0.98:
		prompt = append(prompt, d.part(d.tokens(8_000, 0.5, 32_000)))
	default:
		prompt = append(prompt, d.part(60_000+d.rng.IntN(60_000)))
	}
	return d.sequence(prompt, d.part(d.tokens(220, 0.8, 2_000)))
}

// sharedPrompt: one of three long system prompts before a short question.
func (d *draw) sharedPrompt() Request {
	variant := uint64(d.rng.IntN(3)) //nolint:gosec // below 3
	return d.sequence([]Part{d.common(10+variant, 6_000), d.part(d.tokens(120, 0.8, 2_000))}, d.part(d.tokens(180, 0.7, 1_500)))
}

// bursts: a quiet stream of short requests, and every half minute or so a hundred within a second that ask about one long text
// that is new.
type bursts struct {
	*draw

	text    Part
	left    int // requests of the burst under way
	begins  time.Duration
	started bool
}

const (
	burstsEvery = 30 * time.Second
	burstLeast  = 75 // requests
	burstMost   = 125
)

// request is the next one.
func (b *bursts) request() Request {
	if !b.started {
		b.started, b.begins = true, b.after(1/burstsEvery.Seconds())
	}
	quiet := b.at + b.after(perSecond-(burstLeast+burstMost)/2/burstsEvery.Seconds())
	if b.left == 0 && quiet >= b.begins {
		b.left, b.text = burstLeast+b.rng.IntN(burstMost-burstLeast+1), b.part(20_000+b.rng.IntN(20_000))
		b.at = max(b.at, b.begins) // two of them may overlap
		b.begins += b.after(1 / burstsEvery.Seconds())
	}
	if b.left > 0 {
		b.left--
		b.at += b.after(burstLeast)
		return b.sequence([]Part{b.text, b.part(b.tokens(60, 0.6, 500))}, b.part(b.tokens(150, 0.6, 1_000)))
	}
	b.at = quiet
	return b.sequence([]Part{b.common(1, 160), b.part(b.tokens(700, 0.9, 8_000))}, b.part(b.tokens(220, 0.8, 2_000)))
}

// agents: sessions of many turns. Each begins with the long instructions of one of five kinds of agent; each turn's prompt is
// all that was said before it and the result of a tool, or the next question.
type agents struct {
	*draw

	sessions sessions // under way, by when they ask next
	next     time.Duration
	begun    int
}

// session is one agent's.
type session struct {
	name  string
	at    time.Duration
	parts []Part
	left  int // turns
}

const (
	agentKinds = 5
	// agentsPerSecond begin, and ask some twelve times.
	agentsPerSecond = 2.0
	// agentsWarm before the trace begins the first of them did, so that there are old ones from its start on.
	agentsWarm = 2 * time.Minute
	// agentContext is where a session ends, however much is left to do.
	agentContext = 100_000
)

// request is the next turn of any session since the trace began.
func (g *agents) request() Request {
	for {
		if r := g.turn(); r.At >= 0 {
			return r
		}
	}
}

// turn is the next one of any session.
func (g *agents) turn() Request {
	for len(g.sessions) == 0 || g.next <= g.sessions[0].at {
		g.begin()
	}
	s := heap.Pop(&g.sessions).(*session)
	g.at = s.at
	s.parts = append(s.parts, g.part(g.tokens(500, 1, 12_000)))
	answer := g.part(g.tokens(160, 0.8, 2_000))
	r := g.sequence(s.parts, answer)
	r.Session = s.name
	s.parts = append(s.parts, answer)
	if s.left--; s.left > 0 && r.PromptTokens < agentContext {
		// The answer takes its time too, some 10 ms a token; then a tool works, or a person thinks.
		pause := time.Duration(answer.Tokens)*10*time.Millisecond + time.Duration(g.tokens(3_000, 1, 120_000))*time.Millisecond
		s.at += pause
		heap.Push(&g.sessions, s)
	}
	return r
}

// begin begins a session.
func (g *agents) begin() {
	g.begun++
	agent := uint64(g.rng.IntN(agentKinds)) //nolint:gosec // below 5
	heap.Push(&g.sessions, &session{
		name: "s" + strconv.Itoa(g.begun), at: g.next, left: 1 + int(g.rng.ExpFloat64()*12),
		parts: []Part{g.common(100+agent, 3_000+1_000*int(agent))}, //nolint:gosec // below 5
	})
	g.next += g.after(agentsPerSecond)
}

// sessions is a heap, the one that asks next first.
type sessions []*session

func (h sessions) Len() int { return len(h) }
func (h sessions) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].name < h[j].name
}
func (h sessions) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *sessions) Push(s any) { *h = append(*h, s.(*session)) }

// Pop implements heap.Interface.
func (h *sessions) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return s
}
