package stream

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// tongue draws letters, words, stop strings and characters of two bytes, so that an answer can be cut anywhere that matters:
// inside a character, inside a stop string, at an end token.
type tongue struct{ endPerMille int }

var _ sim.TokenSource = tongue{}

func (tongue) Next(context []uint32, digest uint64) uint32 {
	if len(context) > 0 && context[len(context)-1] == 0xc3 && digest%16 > 0 {
		return 0xa9 // the second byte of é; else the character stays broken
	}
	ids := []uint32{'a', 'b', 'a', '!', idWord, 0xc3, 0xc3, 'c'}
	return ids[digest>>8%uint64(len(ids))]
}

func (s tongue) Ends(_ []uint32, digest uint64) bool { return digest%1000 < uint64(s.endPerMille) }
func (tongue) EOS() uint32                           { return idEOS }
func (tongue) VocabSize() int                        { return idWord + 1 }

// oracleTokens is what an engine answers, with logprobs that are a function of all tokens before them.
func oracleTokens(source sim.TokenSource, req engine.Request, entropy uint64) ([]engine.Token, engine.FinishReason) {
	ids, finish := sim.Answer(sim.DefaultConfig(), source, sim.Submit{
		PromptTokens: req.PromptTokens, MaxTokens: req.MaxTokens, MinTokens: req.MinTokens, Sampling: req.Sampling,
		EndTokens: req.EndTokens, IgnoreEOS: req.IgnoreEOS, LoRA: req.LoRA, Salt: req.CacheSalt, Entropy: entropy,
	})
	out := make([]engine.Token, len(ids))
	context := slices.Clone(req.PromptTokens)
	for i, id := range ids {
		out[i].ID = id
		context = append(context, id)
		if req.TopLogprobs != nil {
			out[i].Logprob = invented(context, *req.TopLogprobs)
		}
	}
	return out, finish
}

func invented(context []uint32, top int) *engine.Logprob {
	h := fnv.New64a()
	for _, id := range context {
		_ = binary.Write(h, binary.LittleEndian, id)
	}
	l := &engine.Logprob{Logprob: -float64(h.Sum64()%1000) / 100}
	for i := range top {
		l.Top = append(l.Top, engine.RankedToken{ID: uint32(i), Logprob: l.Logprob - float64(i)}) //nolint:gosec // a count
	}
	return l
}

// blow is how an attempt fails.
type blow struct {
	after int // tokens
	// kind is what Generate returns; nil: it returns well, but without a finish. aborted: the engine says that somebody else
	// aborted it.
	kind    *engine.FailKind
	aborted bool
	unknown bool // it sends a token of no vocabulary, and goes on
}

// story is what happens to a request: the nth attempt of a leg fails as told; one of which nothing is told does well.
type story struct {
	req     Request
	prompts [][]uint32
	source  sim.TokenSource
	frame   int // tokens a frame
	blows   map[[2]int]blow
	room    int // tokens a replica's context holds
	// entropy of unseeded sampling is the attempt's number, unless it is the same for all.
	steady bool
	// plant changes what the machine says, to see whether anybody notices; nil: it does not.
	plant func(effect) effect
}

// tried is one attempt as its engine saw it.
type tried struct {
	leg     int
	request engine.Request
	gave    []engine.Token
}

// told is what the client got.
type told struct {
	text     []string
	entries  [][]Entry
	finishes []string
	usage    Usage
	fault    *fault.Fault
	restarts int
	attempts []tried
	observed []observed
	asks     []Ask
}

// teller plays router and engines for a machine.
type teller struct {
	t     tester
	s     *story
	r     *rig
	out   told
	tries map[int]int
	todo  []any // events to come
	of    map[uint64]int
}

// tell plays a story to its end.
func (s story) tell(t tester) told {
	req := s.req
	req.N, req.Input.Tokens = max(1, req.N), s.prompts
	c := &teller{t: t, s: &s, tries: map[int]int{}, of: map[uint64]int{}}
	c.r = &rig{t: t, now: epoch, refs: map[string]*fleet.Ref{}, of: NewBudget()}
	model := Model{Decoder: letters{}, EndTokens: []uint32{idEOS}, Encode: encodeBytes}
	c.r.m = newMachine(DefaultConfig(), &req, model, nil, c.r.of.join())
	legs := req.N * len(s.prompts)
	c.out = told{text: make([]string, legs), entries: make([][]Entry, legs), finishes: make([]string, legs)}
	c.take(c.r.m.start(c.r.now))
	for steps := 0; len(c.todo) > 0; steps++ {
		require.Less(t, steps, 1_000_000)
		event := c.todo[0]
		c.todo = c.todo[1:]
		c.r.now = c.r.now.Add(1)
		if f, ok := event.(frame); ok {
			f.at = c.r.now
			c.take(c.r.m.read(f))
			continue
		}
		c.take(c.r.m.step(c.r.now, event))
	}
	require.True(t, c.r.m.done(), "it waits for something that never comes")
	require.Zero(t, c.r.of.taken, "the retry budget is given back")
	return c.out
}

func (c *teller) take(effects []effect) {
	var after []any
	for _, e := range effects {
		if c.s.plant != nil {
			if e = c.s.plant(e); e == nil {
				continue
			}
		}
		switch e := e.(type) {
		case toRouter:
			if sub, ok := e.message.(*Submit); ok {
				after = append(after, c.place(sub)...)
			}
		case startAttempt:
			after = append(after, c.generate(e)...)
		case abortAttempt:
			c.drop(e.attempt)
			after = append(after, attemptEnded{e.attempt, errCancelled})
		case *appendLeg:
			c.out.entries[e.leg] = append(c.out.entries[e.leg], e.entries...)
			for _, entry := range e.entries {
				c.out.text[e.leg] += entry.Text
			}
			c.out.usage = e.usage
		case restartLeg:
			c.out.restarts++
			c.out.entries[e.leg], c.out.text[e.leg], c.out.usage = nil, "", e.usage
		case finishLeg:
			c.out.text[e.leg] += e.finish.Text
			c.out.finishes[e.leg] = finishWord(e.finish)
			c.out.usage = e.usage
		case observed:
			c.out.observed = append(c.out.observed, e)
		case endResponse:
			c.out.fault = e.fault
		case toReplica, placedLeg:
		}
	}
	c.todo = append(c.todo, after...)
}

// drop forgets what an aborted attempt would have said.
func (c *teller) drop(attempt uint64) {
	c.todo = slices.DeleteFunc(c.todo, func(e any) bool {
		f, isFrame := e.(frame)
		end, isEnd := e.(attemptEnded)
		return isFrame && f.attempt == attempt || isEnd && end.attempt == attempt
	})
}

// place is the router: as much room as a replica has, and no more than is asked.
func (c *teller) place(sub *Submit) []any {
	prompts := sub.Prompts
	var events []any
	if prompts == nil {
		for _, ids := range c.s.prompts {
			prompts = append(prompts, Prompt{IDs: ids})
		}
		events = append(events, Encoded{prompts})
	}
	p := Placed{Number: sub.Number}
	for _, a := range sub.Legs {
		c.out.asks = append(c.out.asks, a)
		n := len(prompts[a.Prompt].IDs)
		most := c.s.room - n
		if limit := c.s.req.MaxTokens; a.MaxTokens != nil {
			most = min(most, *a.MaxTokens)
		} else if limit != nil {
			most = min(most, *limit)
		}
		c.r.n++
		name := string(rune('a' + c.tries[a.Leg]))
		p.Placements = append(p.Placements, Placement{
			Leg: a.Leg, Ref: c.r.ref(name), Incarnation: 1, BlockTokens: 16, MaxTokens: most,
			Claim: ledger.Claim{Ticket: scoring.Ticket{Boot: 1, Number: c.r.n}, PromptTokens: scoring.Tokens(n), PrefillTokens: scoring.Tokens(n)},
		})
	}
	return append(events, p)
}

// generate is an engine: the oracle's answer in frames, up to the blow.
func (c *teller) generate(e startAttempt) []any {
	leg := e.place.Leg
	nth := c.tries[leg]
	c.tries[leg]++
	entropy := uint64(nth)*1000 + uint64(leg) //nolint:gosec // counts
	if c.s.steady {
		entropy = uint64(leg) //nolint:gosec // a count
	}
	tokens, finish := oracleTokens(c.s.source, e.request, entropy)
	b, fails := c.s.blows[[2]int{leg, nth}]
	if fails {
		tokens = tokens[:min(b.after, len(tokens))]
	}
	c.out.attempts = append(c.out.attempts, tried{leg, e.request, tokens})
	if b.unknown {
		tokens = append(slices.Clip(tokens), engine.Token{ID: idNone}, engine.Token{ID: 'q'}, engine.Token{ID: 'q'})
	}
	var events []any
	for part := range slices.Chunk(tokens, max(1, c.s.frame)) {
		f := frame{attempt: e.attempt}
		f.event.Tokens = part
		events = append(events, f.cached(min(nth+1, len(e.request.PromptTokens))))
	}
	switch {
	case !fails:
		f := frame{attempt: e.attempt}
		return append(events, f.finish(finish), attemptEnded{attempt: e.attempt})
	case b.aborted:
		f := frame{attempt: e.attempt}
		return append(events, f.finish(engine.FinishAbort), attemptEnded{attempt: e.attempt})
	case b.kind == nil:
		return append(events, attemptEnded{attempt: e.attempt})
	}
	return append(events, attemptEnded{e.attempt, failure(*b.kind)})
}

// ids are the token IDs of a leg's entries.
func (o *told) ids(leg int) []uint32 {
	var out []uint32
	for _, e := range o.entries[leg] {
		out = append(out, e.ID)
	}
	return out
}

// logprobs are those of a leg's entries, NaN where one has none.
func (o *told) logprobs(leg int) []float64 {
	out := []float64{}
	for _, e := range o.entries[leg] {
		if e.Logprob == nil {
			out = append(out, math.NaN())
			continue
		}
		out = append(out, e.Logprob.Logprob)
	}
	return out
}
