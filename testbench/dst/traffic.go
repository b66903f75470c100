package dst

import (
	"math/rand/v2"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine"
)

// engineEvent is what a frame carries.
type engineEvent = engine.Event

// letters decodes the vocabulary: most tokens are two letters of a small alphabet, so that stop strings are hit across
// tokens; some hold half of a character of two bytes.
type letters struct{}

const (
	halves = 80 // IDs from here on hold halves: the first eight begin a character, the others end it
	middle = 88
)

// Decode implements detok.Decoder.
func (letters) Decode(ids []uint32, _ bool) (string, error) {
	var buf [64]byte
	b := buf[:0]
	whole := true
	for _, id := range ids {
		if id != idEnd {
			b, whole = append(b, spelling(id)...), whole && id < halves
		}
	}
	if whole {
		return string(b), nil
	}
	return string([]rune(string(b))), nil // each byte that is of no character becomes one that says so
}

// spelling is the bytes of a token. No two have the same.
func spelling(id uint32) []byte {
	switch {
	case id < halves:
		return []byte{'a' + byte(id%10), 'a' + byte(id/10)} //nolint:gosec // below 10
	case id < middle:
		return []byte{'k' + byte(id-halves), 0xc3} //nolint:gosec // below 8
	default:
		return []byte{0x80 + byte(id-middle), 'k' + byte(id-middle)} //nolint:gosec // below 8
	}
}

var streamModel = stream.Model{Decoder: letters{}, EndTokens: []uint32{idEnd}, Encode: unspell}

func (w *world) drawTokens(n int) []uint32 { return drawTokens(w.rng, n) }

func drawTokens(rng *rand.Rand, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = 1 + rng.Uint32N(vocabulary-1)
	}
	return ids
}

func (w *world) drawPrefixes() {
	w.prefixes = make([][]uint32, w.plan.families)
	for i := range w.prefixes {
		w.prefixes[i] = w.drawTokens(16 + w.rng.IntN(112))
	}
}

// newCall draws a request. A small one is for a moment's work.
func (w *world) newCall(small bool) *call {
	c := w.blankCall()
	req, prompts := c.req, 1
	if small {
		c.small = true
		req.MaxTokens, req.IgnoreEOS = new(24), true
		c.ids = [][]uint32{w.drawTokens(8 + w.rng.IntN(24))}
	} else {
		if w.chance(0.1) {
			prompts = 2
		}
		req.N = []int{1, 1, 1, 1, 1, 1, 2, 3}[w.rng.IntN(8)]
		for range prompts {
			c.ids = append(c.ids, w.drawPrompt())
		}
		w.drawParameters(req)
		w.drawClient(c)
		w.plan.tiers.rank(req)
	}
	c.filled()
	return c
}

// blankCall is a request of one answer, without a prompt.
func (w *world) blankCall() *call {
	w.callsMade++
	c := &call{w: w, n: w.callsMade, armed: none, roomSince: none}
	c.box = mailbox{w: w, owner: c, id: w.newBox()}
	c.req = &stream.Request{ID: "q", Model: modelName, N: 1, SkipSpecialTokens: true}
	return c
}

// filled makes the legs of a call whose prompts are known.
func (c *call) filled() {
	c.req.Input.Texts = make([]string, len(c.ids))
	c.legs = make([]*leg, len(c.ids)*c.req.N)
	for i := range c.legs {
		c.legs[i] = &leg{retry: retrying{parked: none}}
	}
	c.w.legs += len(c.legs)
}

func (w *world) drawPrompt() []uint32 {
	var ids []uint32
	if w.chance(0.7) {
		p := w.prefixes[w.rng.IntN(len(w.prefixes))]
		ids = append(ids, p[:1+w.rng.IntN(len(p))]...)
	}
	if w.chance(0.3) { // whole blocks, exactly
		ids = ids[:len(ids)/blockTokens*blockTokens]
		return append(ids, w.drawTokens(blockTokens*(1+w.rng.IntN(3)))...)
	}
	return append(ids, w.drawTokens(1+w.rng.IntN(60))...)
}

func (w *world) drawParameters(req *stream.Request) {
	if w.chance(0.9) {
		req.MaxTokens = new(1 + w.rng.IntN(90))
	}
	zero := 0.0
	switch r := w.rng.IntN(20); {
	case r < 10:
		req.Sampling.Temperature = &zero
	case r < 12: // unseeded
	case r < 15:
		req.Sampling.Seed = new(w.rng.Int64())
	case r < 17:
		req.Sampling.Temperature = &zero
		req.Sampling.PresencePenalty = new(0.5)
	case r < 18:
		req.Sampling.Temperature = &zero
		req.Sampling.RepetitionPenalty = new(1.1)
	case r < 19:
		req.Sampling.Temperature = &zero
		req.Sampling.LogitBias = map[uint32]float64{3: -100, 5: 2}
	default:
		req.Sampling.FrequencyPenalty = new(0.25)
	}
	if w.chance(0.25) {
		for range 1 + w.rng.IntN(2) {
			req.Stop = append(req.Stop, w.drawStop())
		}
		req.IncludeStop = w.chance(0.3)
	}
	if w.chance(0.1) {
		req.StopTokenIDs = []uint32{1 + w.rng.Uint32N(vocabulary-1)}
	}
	if w.chance(0.15) {
		req.MinTokens = 1 + w.rng.IntN(20)
		if req.MaxTokens != nil {
			req.MinTokens = min(req.MinTokens, *req.MaxTokens)
		}
	}
	req.Whole = w.chance(0.2)
	switch r := w.rng.IntN(10); {
	case r == 0:
		req.Resume = stream.ResumeOff
	case r < 3:
		req.Resume = stream.ResumeExact
	}
	req.IgnoreEOS = w.chance(0.1)
	if w.chance(0.15) {
		req.TopLogprobs = new(w.rng.IntN(3))
	}
	if w.chance(0.05) {
		req.CacheSalt = "s"
	}
}

func (w *world) drawStop() string {
	b := make([]byte, 2+w.rng.IntN(3))
	for i := range b {
		b[i] = 'a' + byte(w.rng.IntN(8)) //nolint:gosec // below 8
	}
	return string(b)
}

func (w *world) drawClient(c *call) {
	if w.plan.enabled[ClientLeaves] && w.chance(0.2) {
		c.leaving, c.leaves = true, Phase(w.rng.IntN(int(Draining)))
	}
	if w.plan.enabled[SlowClient] && w.chance(0.1) {
		c.slow = true
	}
}

// prompts are the request's token IDs.
func (c *call) prompts() [][]uint32 { return c.ids }

// prompt is a leg's.
func (c *call) prompt(leg int) []uint32 { return c.ids[leg/c.req.N] }

// end is how the call ended.
func (c *call) end() End {
	switch {
	case c.fault == nil:
		return Finished
	case c.fault.Kind == fault.ClientGone, c.fault.Kind == fault.SlowReader:
		return Cancelled
	}
	for _, l := range c.legs {
		if len(l.tries) > 0 {
			return Failed
		}
	}
	return Refused
}
