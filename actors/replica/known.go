package replica

import (
	"math/bits"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/scoring"
)

// known is what one life of the engine has shown of its work, so that slow is told from hung: what it was ever seen to do, and how
// long it took for prompts of which length.
type known struct {
	seen  *fleet.Seen
	paces [64]paces // by the length's power of two
	first time.Time // when the last prompt was through
}

// paces are the last prompts of about one length.
type paces struct {
	last [2]prefilled
	n    int
}

// prefilled is a prompt that was computed.
type prefilled struct {
	tokens scoring.Tokens
	took   time.Duration
}

// pacesKept is how many prompts of a length are remembered: a slow one is forgotten with the second that is quick.
const pacesKept = len(paces{}.last)

// done takes a first token. What an engine does for the first time tells nothing of its pace.
func (k *known) done(now, granted time.Time, w fleet.Work) {
	if k.seen.Covers(w) || k.seen == nil && !w.Logprobs && !w.Schema && w.LoRA == "" {
		if k.first.After(granted) {
			granted = k.first // they follow each other
		}
		p := &k.paces[bits.Len64(uint64(max(0, w.PromptTokens)))%len(k.paces)] //nolint:gosec // not negative
		p.last[p.n%pacesKept] = prefilled{w.PromptTokens, now.Sub(granted)}
		p.n++
	}
	k.first = now
	if !k.seen.Covers(w) || k.seen.PromptTokens < w.PromptTokens {
		k.seen = k.seen.With(w)
	}
}

// takes is how long a prompt of a length takes, by the slowest of the last ones of about that length, or else of the nearest one;
// false where none was ever half as long.
func (k *known) takes(tokens scoring.Tokens) (time.Duration, bool) {
	if !k.seen.Covers(fleet.Work{PromptTokens: tokens}) {
		return 0, false
	}
	at := bits.Len64(uint64(max(0, tokens))) % len(k.paces) //nolint:gosec // not negative
	for far := range len(k.paces) {
		for _, i := range [2]int{at + far, at - far} {
			if i < 0 || i >= len(k.paces) || k.paces[i].n == 0 {
				continue
			}
			return k.paces[i].takes(tokens), true
		}
	}
	return 0, false
}

func (p *paces) takes(tokens scoring.Tokens) (most time.Duration) {
	for _, x := range p.last[:min(p.n, pacesKept)] {
		most = max(most, time.Duration(float64(x.took)*float64(tokens)/float64(max(1, x.tokens))))
	}
	return most
}
