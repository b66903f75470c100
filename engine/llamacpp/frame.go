package llamacpp

import (
	"encoding/json"

	"plimsoll/engine"
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
		Cache *int `json:"cache"`
	} `json:"prompt_progress"`
	Timings *struct {
		CacheN *int `json:"cache_n"`
	} `json:"timings"`
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
	finished  bool
}

// decode reads one frame. tell is false if the frame says nothing that an event would carry.
func (d *decoder) decode(data []byte) (ev engine.Event, tell bool, err error) {
	if string(data) == "null" || string(data) == "[DONE]" {
		return engine.Event{}, false, nil
	}
	var f frame
	if err := json.Unmarshal(data, &f); err != nil {
		return engine.Event{}, false, broken("frame: %w", err)
	}
	switch {
	case len(f.Error) > 0 && string(f.Error) != "null":
		return engine.Event{}, false, d.failure(f.Error)
	case f.Index != 0:
		return engine.Event{}, false, broken("frame for prompt %d of a request with one", f.Index)
	case f.Progress != nil:
		d.cached = count(f.Progress.Cache) // its tokens are none
		return engine.Event{}, false, nil
	case f.Stop == nil:
		return engine.Event{}, false, broken("frame without stop")
	}
	if ev.Tokens, err = d.tokens(&f); err != nil {
		return engine.Event{}, false, err
	}
	if *f.Stop {
		if ev.Finish, err = finish(&f); err != nil {
			return engine.Event{}, false, err
		}
		d.finished = true
	}
	if len(ev.Tokens) == 0 && ev.Finish == nil {
		return engine.Event{}, false, nil
	}
	ev.CachedTokens, d.cached = d.cached, nil
	if f.Timings != nil {
		if cached := count(f.Timings.CacheN); cached != nil {
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

// failure classifies an error frame. A server that has begun to answer does not shed any more.
func (d *decoder) failure(raw json.RawMessage) *engine.Failure {
	failure := failureOf(readError(raw))
	if failure.Kind == engine.Shed && d.predicted > 0 {
		failure.Kind = engine.Broken
	}
	return failure
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
		return nil, broken("%d tokens after %d, of at most %d", total, d.predicted, d.maxTokens)
	case len(ids) == 0 && f.Content != "" && !*f.Stop:
		return nil, broken("frame with text and no token: the server is too old for return_tokens")
	case len(ids) == 0, total == 0: // "tokens":[0] stands before the first token
		return nil, nil
	case len(ids) > fresh && !*f.Stop:
		return nil, broken("frame with %d tokens where %d are new", len(ids), fresh)
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
	out := &engine.Logprob{Logprob: bounded(p.Logprob)}
	for _, rival := range p.Top[:min(len(p.Top), *d.topLogprobs)] {
		out.Top = append(out.Top, engine.RankedToken{ID: rival.ID, Logprob: bounded(rival.Logprob)})
	}
	return out
}

// leastLogprob stands for a token that cannot come, as in OpenAI's API. The server sends null or the lowest float.
const leastLogprob = -9999

func bounded(logprob *float64) float64 {
	if logprob == nil {
		return leastLogprob
	}
	return max(*logprob, leastLogprob)
}

// finish reads why the last frame is the last.
func finish(f *frame) (*engine.Finish, error) {
	switch f.StopType {
	case "eos", "word":
		return &engine.Finish{Reason: engine.FinishStop}, nil
	case "limit": // n_predict or, with truncated, the context's end
		return &engine.Finish{Reason: engine.FinishLength}, nil
	}
	return nil, broken("last frame with stop_type %q", f.StopType)
}
