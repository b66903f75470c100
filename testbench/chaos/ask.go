package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/wire"
)

// Class is a kind of request, by how its answer is checked.
type Class uint8

// The classes of requests.
const (
	Greedy   Class = iota // temperature 0: byte for byte what a lone engine would say
	Logprobs              // likewise, with one entry of log probabilities a token
	Stops                 // likewise, up to a stop string
	Whole                 // likewise, not streamed
	Several               // two greedy answers at once
	Seeded                // sampled with a seed: what engines say that begin anew at each joint
	Unseeded              // sampled without one, likewise: the simulated engines draw from an entropy that is known

	NumClasses
)

var classNames = [NumClasses]string{"greedy", "logprobs", "stops", "whole", "several", "seeded", "unseeded"}

// String returns the word used in plans.
func (c Class) String() string {
	if c < NumClasses {
		return classNames[c]
	}
	return "unknown"
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Class) UnmarshalText(text []byte) error {
	for i, name := range classNames {
		if name == string(text) {
			*c = Class(i) //nolint:gosec // an index of the array
			return nil
		}
	}
	return fmt.Errorf("%q is no class of requests: there are %v", text, classNames)
}

// MarshalText implements encoding.TextMarshaler.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Exact says whether an answer is the same whatever happens to engines.
func (c Class) Exact() bool { return c != Seeded && c != Unseeded }

const (
	// A prompt is tagged with the number of its request, in two IDs behind what prompts share, by which the links know whose an
	// attempt is.
	tagAt     = 240
	tagTokens = 2
	tagBase   = 4000
	// sharedPrompts is how many different beginnings prompts have.
	sharedPrompts = 16
	// promptVocabulary is the number of IDs that prompts are made of; the smallest vocabulary in use has more.
	promptVocabulary = 4000
	// entropy is what simulated engines draw unseeded answers from.
	entropy = 4711
)

// ask is one request.
type ask struct {
	number int
	class  Class
	prompt []uint32
	output int // tokens at most; end tokens are ignored, so only a stop string ends it before
	seed   int64
	stop   string // of Stops
}

// newAsk draws a request.
func newAsk(rng *rand.Rand, t Traffic, number int) ask {
	a := ask{number: number, class: classOf(rng, t.Mix), output: between(rng, t.OutputTokens), seed: rng.Int64N(1 << 30)}
	a.prompt = make([]uint32, between(rng, t.PromptTokens))
	beginning := rand.New(rand.NewPCG(rng.Uint64N(sharedPrompts), 0))
	for i := range a.prompt {
		if i < tagAt {
			a.prompt[i] = beginning.Uint32N(promptVocabulary)
		} else {
			a.prompt[i] = rng.Uint32N(promptVocabulary)
		}
	}
	a.prompt[tagAt], a.prompt[tagAt+1] = uint32(number/tagBase%tagBase), uint32(number%tagBase) //nolint:gosec // below tagBase
	return a
}

func between(rng *rand.Rand, span [2]int) int { return span[0] + rng.IntN(span[1]-span[0]+1) }

// classOf draws a class by its weight, in the order of the classes: maps have none.
func classOf(rng *rand.Rand, mix map[Class]int) Class {
	sum := 0
	for _, w := range mix {
		sum += w
	}
	at := rng.IntN(sum)
	for c := range NumClasses {
		if at -= mix[c]; at < 0 {
			return c
		}
	}
	panic("chaos: weights do not add up")
}

// sampling is what the engine is asked for.
func (a *ask) sampling() engine.Sampling {
	zero, warm, seed := 0.0, 0.8, a.seed
	switch a.class {
	case Seeded:
		return engine.Sampling{Temperature: &warm, Seed: &seed}
	case Unseeded:
		return engine.Sampling{Temperature: &warm}
	case Greedy, Logprobs, Stops, Whole, Several, NumClasses:
	}
	return engine.Sampling{Temperature: &zero}
}

// legs is how many answers are asked for.
func (a *ask) legs() int {
	if a.class == Several {
		return 2
	}
	return 1
}

// body is the request as it is sent.
func (a *ask) body() []byte {
	s := a.sampling()
	rest, err := json.Marshal(map[string]any{
		"max_tokens": a.output, "ignore_eos": true, "temperature": *s.Temperature,
	})
	if err != nil {
		panic(err) // numbers and truths
	}
	var b strings.Builder
	if s.Seed != nil {
		_, _ = fmt.Fprintf(&b, `,"seed":%d`, *s.Seed)
	}
	switch a.class {
	case Logprobs:
		b.WriteString(`,"logprobs":2`)
	case Stops:
		stop, err := json.Marshal(a.stop)
		if err != nil {
			panic(err) // a string
		}
		b.WriteString(`,"stop":` + string(stop))
	case Several:
		b.WriteString(`,"n":2`)
	case Greedy, Whole, Seeded, Unseeded, NumClasses:
	}
	if a.class != Whole {
		b.WriteString(`,"stream":true,"stream_options":{"include_usage":true}`)
	}
	out := append(wire.AppendIDs([]byte(`{"prompt":`), a.prompt), ',')
	out = append(out, rest[1:len(rest)-1]...)
	return append(append(out, b.String()...), '}')
}

// submit is what an engine is asked that goes on from the answer so far.
func (a *ask) submit(soFar []uint32) sim.Submit {
	prompt := make([]uint32, 0, len(a.prompt)+len(soFar))
	return sim.Submit{
		PromptTokens: append(append(prompt, a.prompt...), soFar...), MaxTokens: a.output - len(soFar),
		Sampling: a.sampling(), IgnoreEOS: true, Entropy: entropy,
	}
}
