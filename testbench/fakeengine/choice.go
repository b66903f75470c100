package fakeengine

import (
	"strings"
	"unicode/utf8"

	"plimsoll/engine"
	"plimsoll/engine/openai"
	"plimsoll/tokenizer/detok"
)

// finishAbort is the finish reason of a request that somebody aborted.
const finishAbort = "abort"

// delta is what one event of the engine adds to a choice.
type delta struct {
	text   string
	tokens []engine.Token
	finish string // "" while it goes on
	stop   openai.StopReason
}

// choice is one answer under way. One goroutine, its leg's, adds to it; the shapes read it under the answer's lock.
type choice struct {
	index  int
	prompt []uint32
	eos    uint32

	begun  bool // its first frame is out
	ids    []uint32
	cached *int

	stream  *detok.Stream // nil: no text is made
	stops   []string
	include bool
	from    int    // tokens from which on stop strings count
	text    string // since the answer's start, where stop strings need it, else what is not given out
	given   int    // bytes of text given out
}

func newChoice(a *ask, index int, prompt []uint32, decoder detok.Decoder, eos uint32) *choice {
	c := &choice{index: index, prompt: prompt, eos: eos, stops: a.stops, include: a.includeStop, from: a.minTokens}
	if !a.silent {
		c.stream = detok.New(decoder, detok.Config{SkipSpecial: a.skipSpecial, PromptTail: prompt})
	}
	return c
}

// take adds an event. done says that a stop string ends the choice, of which the engine does not know.
func (c *choice) take(e engine.Event) (d delta, done bool, err error) {
	if e.CachedTokens != nil {
		c.cached = e.CachedTokens
	}
	d.tokens = e.Tokens
	stopped := e.Finish != nil && e.Finish.Reason == engine.FinishStop
	for i, t := range e.Tokens {
		c.ids = append(c.ids, t.ID)
		if c.stream == nil || stopped && !c.include && i == len(e.Tokens)-1 {
			continue
		}
		piece, err := c.stream.Push(t.ID)
		if err != nil {
			return d, true, err
		}
		c.text += piece
		if stop, hit := c.stopped(len(piece)); hit {
			d.finish, d.stop.Text = openai.FinishStop, &stop
			d.text = c.release(true)
			return d, true, nil
		}
	}
	if e.Finish == nil {
		d.text = c.release(false)
		return d, false, nil
	}
	d.text = c.release(true)
	d.finish = openai.FinishLength
	if stopped {
		d.finish = openai.FinishStop
		if last := c.ids[len(c.ids)-1]; last != c.eos {
			d.stop.Token = &last
		}
	}
	return d, true, nil
}

// stopped looks for a stop string in the text, of which the last bytes are new, and cuts the text there. The request's
// order decides which one it was.
func (c *choice) stopped(fresh int) (string, bool) {
	if len(c.ids) <= c.from {
		return "", false
	}
	for _, stop := range c.stops {
		from := max(0, len(c.text)-fresh-len(stop)+1)
		at := strings.Index(c.text[from:], stop)
		if at < 0 {
			continue
		}
		end := from + at
		if c.include {
			end += len(stop)
		}
		c.text = c.text[:end]
		return stop, true
	}
	return "", false
}

// release gives out the text that is due: all but as many characters as the longest stop string has, less one.
func (c *choice) release(all bool) string {
	end := len(c.text)
	if !all && !c.include {
		hold := 0
		for _, stop := range c.stops {
			hold = max(hold, utf8.RuneCountInString(stop)-1)
		}
		for ; hold > 0 && end > 0; hold-- {
			_, size := utf8.DecodeLastRuneInString(c.text[:end])
			end -= size
		}
	}
	if end <= c.given {
		return ""
	}
	out := c.text[c.given:end]
	c.given = end
	c.forget()
	return out
}

// forget drops text that nobody looks at any more, so that a long answer costs no more than its tail.
func (c *choice) forget() {
	const enough = 4096
	longest := 0
	for _, stop := range c.stops {
		longest = max(longest, len(stop))
	}
	if cut := c.given - longest; cut > enough {
		c.text = strings.Clone(c.text[cut:])
		c.given -= cut
	}
}
