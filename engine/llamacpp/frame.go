package llamacpp

import (
	"encoding/json"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// frame is what we read of one data line of a stream.
type frame struct {
	Error           json.RawMessage `json:"error"`
	Index           int             `json:"index"`
	Content         string          `json:"content"`
	Tokens          []uint32        `json:"tokens"`
	Stop            *bool           `json:"stop"`
	StopType        string          `json:"stop_type"`
	TokensPredicted *int            `json:"tokens_predicted"`
	Progress        *struct {
		Cache wire.Aside[int] `json:"cache"`
	} `json:"prompt_progress"`
	Timings wire.Aside[struct {
		CacheN wire.Aside[int] `json:"cache_n"`
	}] `json:"timings"`
	Probabilities []probability `json:"completion_probabilities"`
}

// probability is a token's own logprob and those of its rivals, best first.
type probability struct {
	ID      uint32   `json:"id"`
	Logprob *float64 `json:"logprob"`
	Top     []struct {
		ID      uint32   `json:"id"`
		Logprob *float64 `json:"logprob"`
	} `json:"top_logprobs"`
}

// decoder turns the frames of one stream into events.
type decoder struct {
	maxTokens   int
	topLogprobs *int

	predicted int  // tokens that the engine has sampled, as far as events told
	cached    *int // heard of by a progress frame and not yet told
}

// End implements [wire.Decoder]: nothing follows a finish, and a stream without one is broken.
func (d *decoder) End() (ev engine.Event, ok bool) { return engine.Event{}, false }

// Frame implements [wire.Decoder].
func (d *decoder) Frame(data []byte) (ev engine.Event, tell bool, err error) {
	if string(data) == "[DONE]" {
		return engine.Event{}, false, nil
	}
	var f frame
	err = json.Unmarshal(data, &f)
	switch {
	case wire.SaysNothing(data, err):
		return engine.Event{}, false, nil
	case err != nil:
		return engine.Event{}, false, wire.Broken("frame: %w", err)
	case wire.IsError(f.Error):
		return engine.Event{}, false, wire.FrameFailure(f.Error, d.predicted > 0)
	case f.Index != 0:
		return engine.Event{}, false, wire.Broken("frame for prompt %d of a request with one", f.Index)
	case f.Progress != nil:
		d.cached = count(f.Progress.Cache.Value) // its tokens are none
		return engine.Event{}, false, nil
	case f.Stop == nil && f.Content == "" && len(f.Tokens) == 0:
		return engine.Event{}, false, nil // it tells of something else
	case f.Stop == nil:
		return engine.Event{}, false, wire.Broken("frame without stop")
	}
	if ev.Tokens, err = d.tokens(&f); err != nil {
		return engine.Event{}, false, err
	}
	if *f.Stop {
		if ev.Finish, err = finish(&f); err != nil {
			return engine.Event{}, false, err
		}
	}
	if len(ev.Tokens) == 0 && ev.Finish == nil {
		return engine.Event{}, false, nil
	}
	ev.CachedTokens, d.cached = d.cached, nil
	if f.Timings.Value != nil {
		if cached := count(f.Timings.Value.CacheN.Value); cached != nil {
			ev.CachedTokens = cached
		}
	}
	return ev, true, nil
}

// count drops a number that is none.
func count(n *int) *int {
	if n != nil && *n < 0 {
		return nil
	}
	return n
}

// tokens returns the frame's tokens and notes how many there are by now.
func (d *decoder) tokens(f *frame) ([]engine.Token, error) {
	ids := f.Tokens
	total := d.predicted + len(ids)
	if f.TokensPredicted != nil {
		total = *f.TokensPredicted
	}
	fresh := total - d.predicted
	switch {
	case fresh < 0 || total > d.maxTokens:
		return nil, wire.Broken("%d tokens after %d, of at most %d", total, d.predicted, d.maxTokens)
	case len(ids) == 0 && f.Content != "" && !*f.Stop:
		return nil, wire.Broken("frame with text and no token: the server is too old for return_tokens")
	case len(ids) == 0, total == 0: // "tokens":[0] stands before the first token
		return nil, nil
	case len(ids) > fresh && !*f.Stop:
		return nil, wire.Broken("frame with %d tokens where %d are new", len(ids), fresh)
	case len(ids) > fresh: // a last frame that repeats what was sent
		ids = ids[len(ids)-fresh:]
	}
	if len(ids) == 0 {
		return nil, nil
	}
	out := make([]engine.Token, len(ids))
	for i, id := range ids {
		out[i] = engine.Token{ID: id, Logprob: d.logprob(f, len(ids)-i, id)}
	}
	if lost := fresh - len(ids); lost > 0 {
		out[0].LostIDs, out[0].Text = lost, &f.Content
	}
	d.predicted = total
	return out, nil
}

// logprob returns that of the token at a place counted from the frame's end, 1 being the last; nil if it was not asked
// for or is not there.
func (d *decoder) logprob(f *frame, fromEnd int, id uint32) *engine.Logprob {
	if d.topLogprobs == nil || fromEnd > len(f.Probabilities) {
		return nil
	}
	p := &f.Probabilities[len(f.Probabilities)-fromEnd]
	if p.ID != id {
		return nil
	}
	out := &engine.Logprob{Logprob: wire.Logprob(p.Logprob)}
	for _, rival := range p.Top[:min(len(p.Top), *d.topLogprobs)] {
		out.Top = append(out.Top, engine.RankedToken{ID: rival.ID, Logprob: wire.Logprob(rival.Logprob)})
	}
	return out
}

// finish reads why the last frame is the last.
func finish(f *frame) (*engine.Finish, error) {
	switch f.StopType {
	case "eos", "word":
		return &engine.Finish{Reason: engine.FinishStop}, nil
	case "limit": // n_predict or, with truncated, the context's end
		return &engine.Finish{Reason: engine.FinishLength}, nil
	}
	return nil, wire.Broken("last frame with stop_type %q", f.StopType)
}
