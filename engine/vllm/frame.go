package vllm

import (
	"encoding/json"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// frame is what we read of one data line of a stream, of all three routes.
type frame struct {
	Object  string          `json:"object"`
	Error   json.RawMessage `json:"error"`
	Choices []choice        `json:"choices"`

	Usage wire.Aside[usage] `json:"usage"`
}

// usage audits an answer and is no part of it.
type usage struct {
	PromptTokens wire.Aside[int] `json:"prompt_tokens"`
	Details      wire.Aside[struct {
		CachedTokens wire.Aside[int] `json:"cached_tokens"`
	}] `json:"prompt_tokens_details"`
}

type choice struct {
	Index        int             `json:"index"`
	Text         string          `json:"text"`
	TokenIDs     []uint32        `json:"token_ids"`
	Delta        json.RawMessage `json:"delta"`
	FinishReason *string         `json:"finish_reason"`
	Logprobs     *logprobs       `json:"logprobs"`
}

// readWithout reads a frame that cannot be read as it stands, by err, without its log probabilities: the answer does not hang on
// them, as it does not on its usage.
func (f *frame) readWithout(data []byte, err error) error {
	var members map[string]json.RawMessage
	var choices []map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || json.Unmarshal(members["choices"], &choices) != nil {
		return err
	}
	for _, c := range choices {
		delete(c, "logprobs")
	}
	var again error
	if members["choices"], again = json.Marshal(choices); again != nil {
		return err
	}
	if data, again = json.Marshal(members); again != nil {
		return err
	}
	*f = frame{}
	return json.Unmarshal(data, f)
}

// decoder turns the frames of one stream into events.
type decoder struct {
	maxTokens   int
	topLogprobs *int
	chat        bool

	produced int           // tokens told or held
	nameless int           // frames of a chat that say something without IDs, told or held as a token each
	held     *engine.Event // the frame with the finish, until the usage came
}

// End implements [wire.Decoder].
func (d *decoder) End() (ev engine.Event, ok bool) {
	if d.held == nil {
		return engine.Event{}, false
	}
	return *d.held, true
}

// Frame implements [wire.Decoder].
func (d *decoder) Frame(data []byte) (ev engine.Event, tell bool, err error) {
	if string(data) == "[DONE]" {
		if d.held == nil {
			return engine.Event{}, false, wire.Unfinished()
		}
		return *d.held, true, nil
	}
	var f frame
	err = json.Unmarshal(data, &f)
	if err != nil {
		err = f.readWithout(data, err)
	}
	switch {
	case wire.SaysNothing(data, err), err != nil && d.held != nil: // once there is a finish the answer is whole
		return engine.Event{}, false, nil
	case err != nil:
		return d.broken("frame: %w", err)
	case wire.IsError(f.Error):
		return d.fail(wire.FrameFailure(f.Error, d.produced+d.nameless > 0))
	case f.Object == "error": // as older servers wrote it
		return d.fail(wire.FrameFailure(data, d.produced+d.nameless > 0))
	case len(f.Choices) == 0:
		return d.usage(&f)
	case d.held != nil: // the answer is whole: what follows may add figures, and nothing else
		return d.usage(&f)
	case len(f.Choices) > 1 || f.Choices[0].Index != 0:
		return d.broken("frame for choice %d of a request with one", f.Choices[len(f.Choices)-1].Index)
	}
	return d.choice(&f.Choices[0])
}

// fail ends the stream; tokens that came with a finish that is none are told.
func (d *decoder) fail(f *engine.Failure) (ev engine.Event, tell bool, err error) {
	if d.held != nil {
		ev = engine.Event{Tokens: d.held.Tokens, ChatDelta: d.held.ChatDelta}
		d.held = nil
	}
	return ev, len(ev.Tokens) > 0, f
}

func (d *decoder) broken(format string, args ...any) (ev engine.Event, tell bool, err error) {
	return d.fail(wire.Broken(format, args...))
}

// usage takes a frame without choices, of which only the last one tells what was cached and how long the prompt was.
func (d *decoder) usage(f *frame) (ev engine.Event, tell bool, err error) {
	u := f.Usage.Value
	if d.held == nil || u == nil {
		return engine.Event{}, false, nil
	}
	if n := u.PromptTokens.Value; d.chat && n != nil && *n >= 0 {
		d.held.PromptTokens = n
	}
	if details := u.Details.Value; details != nil {
		if cached := details.CachedTokens.Value; cached != nil && *cached >= 0 {
			d.held.CachedTokens = cached
		}
	}
	return *d.held, true, nil
}

// namelessMore is how many frames without IDs a chat may have beyond max_tokens: parsers of reasoning and tool calls send
// what they held back in frames of their own, which are no tokens.
const namelessMore = 16

// choice takes a frame of the answer.
func (d *decoder) choice(c *choice) (ev engine.Event, tell bool, err error) {
	if d.chat {
		err = d.takeText(c, &ev)
	} else {
		err = d.takeIDs(c, &ev)
	}
	if err != nil {
		return engine.Event{}, false, err
	}
	if n := len(ev.Tokens); d.chat && n == 1 && ev.Tokens[0].ID == engine.NoTokenID {
		d.nameless++
	} else {
		d.produced += n
	}
	if d.produced > d.maxTokens || d.nameless > d.maxTokens+namelessMore {
		return d.broken("%d tokens where at most %d were asked for", d.produced+d.nameless, d.maxTokens)
	}
	if c.FinishReason == nil {
		return ev, len(ev.Tokens) > 0, nil
	}
	reason, ok := finishReason(*c.FinishReason)
	if !ok {
		return ev, len(ev.Tokens) > 0, wire.Broken("finish_reason %q", *c.FinishReason)
	}
	d.held = &engine.Event{Tokens: ev.Tokens, ChatDelta: ev.ChatDelta, Finish: &engine.Finish{Reason: reason}}
	return engine.Event{}, false, nil
}

// finishReason reads why the engine stopped. A repetition that the server was told to detect ends an answer as an end
// token does; error is a failure.
func finishReason(said string) (reason engine.FinishReason, ok bool) {
	switch said {
	case "stop", "repetition":
		return engine.FinishStop, true
	case "tool_calls", "function_call":
		return engine.FinishToolCalls, true
	case "length":
		return engine.FinishLength, true
	case "abort":
		return engine.FinishAbort, true
	}
	return 0, false
}

// takeIDs reads a frame of an answer in token IDs.
func (d *decoder) takeIDs(c *choice, ev *engine.Event) error {
	if len(c.TokenIDs) == 0 {
		if c.Text != "" {
			return &engine.Failure{Kind: engine.Operator, Err: errNoTokenIDs}
		}
		return nil
	}
	ev.Tokens = make([]engine.Token, len(c.TokenIDs))
	for i, id := range c.TokenIDs {
		ev.Tokens[i] = engine.Token{ID: id, Logprob: d.logprob(c, i, id)}
	}
	return nil
}

// takeText reads a frame of a chat: the text is the engine's, IDs are only counted. A frame that says something without
// IDs counts as one token.
func (d *decoder) takeText(c *choice, ev *engine.Event) error {
	said, err := readDelta(c.Delta)
	if err != nil {
		return wire.Broken("frame: %w", err)
	}
	ids := c.TokenIDs
	if len(ids) == 0 && (said.text != "" || said.other != nil) {
		ids = []uint32{engine.NoTokenID}
	}
	if len(ids) == 0 {
		return nil
	}
	ev.Tokens, ev.ChatDelta = make([]engine.Token, len(ids)), said.other
	none := ""
	for i, id := range ids {
		ev.Tokens[i] = engine.Token{ID: id, Text: &none, Logprob: d.logprob(c, i, id)}
	}
	if pieces := c.Logprobs.pieces(said.text, len(ids)); pieces != nil {
		for i := range pieces {
			ev.Tokens[i].Text = &pieces[i]
		}
		return nil
	}
	ev.Tokens[len(ids)-1].Text = &said.text
	return nil
}
