package vllm

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// errNoTokenIDs is why a server cannot be used.
var errNoTokenIDs = errors.New("the server gives text without token IDs: it is too old for return_token_ids")

// logprobs is the shape of completions (Tokens, TokenLogprobs, TopLogprobs) and that of chat and generate (Content).
type logprobs struct {
	Tokens        []string              `json:"tokens"`
	TokenLogprobs []*float64            `json:"token_logprobs"`
	TopLogprobs   []map[string]*float64 `json:"top_logprobs"`
	Content       []struct {
		tokenLogprob
		Bytes []int          `json:"bytes"`
		Top   []tokenLogprob `json:"top_logprobs"`
	} `json:"content"`
}

// tokenLogprob names its token by its ID (generate) or as "token_id:N".
type tokenLogprob struct {
	TokenID *uint32  `json:"token_id"`
	Token   string   `json:"token"`
	Logprob *float64 `json:"logprob"`
}

func (t tokenLogprob) id() (uint32, bool) {
	if t.TokenID != nil {
		return *t.TokenID, true
	}
	return tokenID(t.Token)
}

// tokenID reads "token_id:123"; text is no ID.
func tokenID(text string) (uint32, bool) {
	digits, ok := strings.CutPrefix(text, "token_id:")
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(digits, 10, 32)
	return uint32(id), err == nil //nolint:gosec // 32 bits were asked for
}

// pieces are the parts of a frame's text that its tokens are; nil where that is not told, or is another text than the frame's: of
// what a parser has held back or rewritten, say.
func (l *logprobs) pieces(text string, tokens int) []string {
	if l == nil || tokens < 2 || len(l.Content) != tokens {
		return nil
	}
	out := make([]string, tokens)
	rest := text
	for i := range l.Content {
		piece := make([]byte, len(l.Content[i].Bytes))
		for j, b := range l.Content[i].Bytes {
			if b < 0 || b > 0xff {
				return nil
			}
			piece[j] = byte(b)
		}
		var ok bool
		if rest, ok = strings.CutPrefix(rest, string(piece)); !ok {
			return nil
		}
		out[i] = string(piece)
	}
	if rest != "" {
		return nil
	}
	return out
}

// logprob returns that of the i-th token of a frame; nil if it was not asked for or is not there.
func (d *decoder) logprob(c *choice, i int, id uint32) *engine.Logprob {
	switch {
	case d.topLogprobs == nil || c.Logprobs == nil:
		return nil
	case i < len(c.Logprobs.Content):
		said := &c.Logprobs.Content[i]
		if got, ok := said.id(); !ok || got != id {
			return nil
		}
		out := &engine.Logprob{Logprob: wire.Logprob(said.Logprob)}
		for _, rival := range said.Top {
			if rivalID, ok := rival.id(); ok {
				out.Top = append(out.Top, engine.RankedToken{ID: rivalID, Logprob: wire.Logprob(rival.Logprob)})
			}
		}
		return d.ranked(out)
	case i < len(c.Logprobs.Tokens) && i < len(c.Logprobs.TokenLogprobs):
		if got, ok := tokenID(c.Logprobs.Tokens[i]); !ok || got != id {
			return nil
		}
		out := &engine.Logprob{Logprob: wire.Logprob(c.Logprobs.TokenLogprobs[i])}
		if i < len(c.Logprobs.TopLogprobs) {
			for token, logprob := range c.Logprobs.TopLogprobs[i] {
				if rivalID, ok := tokenID(token); ok {
					out.Top = append(out.Top, engine.RankedToken{ID: rivalID, Logprob: wire.Logprob(logprob)})
				}
			}
		}
		return d.ranked(out)
	}
	return nil
}

// ranked puts the best first and cuts the list to what was asked for: the server adds the token itself where it is not
// among the best.
func (d *decoder) ranked(l *engine.Logprob) *engine.Logprob {
	slices.SortFunc(l.Top, func(a, b engine.RankedToken) int {
		return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.ID, b.ID))
	})
	l.Top = l.Top[:min(len(l.Top), *d.topLogprobs)]
	if len(l.Top) == 0 {
		l.Top = nil
	}
	return l
}
