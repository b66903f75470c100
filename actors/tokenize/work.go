package tokenize

import (
	"slices"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/tokenizer/chat"
)

// Texts is what a pool needs of a model's tokenizer. Several workers call it at once.
type Texts interface {
	// Check says quickly why a text cannot be encoded at all.
	Check(text string) error
	// AtLeast is how many IDs a text has at least; 0: that is not known.
	AtLeast(text string) int
	// Cut is the length of a text's first slice, of at most most bytes if there is a place to cut it at.
	Cut(text string, most int) int
	// Frame is what special tokens put around the IDs of a text in slices; ok is false if such a text must be encoded whole.
	Frame() (before, after []uint32, ok bool)
	Encode(text string, addSpecial bool) ([]uint32, error)
}

// Limits are how long a prompt may be.
type Limits struct {
	// SequenceTokens is the longest prompt and answer that any configured replica takes; nil: some have not told.
	SequenceTokens *int
	// PromptTokens is the longest prompt that is let in, whatever the replicas take; nil: there is no such limit.
	PromptTokens *int
}

// work is how far a job has come.
type work struct {
	prompts []stream.Prompt // with their texts, once they are rendered
	at      int             // the prompt that is encoded
	offset  int             // how much of its text is
	ids     []uint32        // of that, without special tokens
	tokens  int             // of the prompts before it
}

// result is what has come of a step: prompts, an error, or what the next step takes.
type result struct {
	prompts []stream.Prompt
	err     error

	more bool
	lane Lane
	step int
}

// encoder does the steps of jobs.
type encoder struct {
	prompts    func(stream.Input) ([]stream.Prompt, error)
	texts      Texts
	limits     func() Limits
	sliceBytes int
}

// step does the next step of a job: it renders if that is not done, and encodes as much as the lane of the step is for.
func (e *encoder) step(j *job) result {
	w := &j.work
	limits := e.limits()
	if w.prompts == nil {
		if err := e.render(j, limits); err != nil {
			return result{err: err}
		}
	}
	for used := 0; w.advance(); {
		p := &w.prompts[w.at]
		n := e.slice(p.Text[w.offset:], j.input.AddSpecial)
		lane := Slices
		if n > e.sliceBytes {
			lane = Whole
		}
		if used > 0 && (lane == Whole || used+n > e.sliceBytes) || lane != j.lane && (lane != Slices || j.lane != Short) {
			return result{more: true, lane: lane, step: n + textBytes}
		}
		used += n + textBytes
		if err := e.encode(w, p, n, j.input.AddSpecial); err != nil {
			return result{err: Fault(err, param(j.input))}
		}
		if f := e.tooLong(j, p.Text[w.offset:], limits); f != nil {
			return result{err: f}
		}
	}
	return result{prompts: w.prompts}
}

// advance goes to the next prompt that is not encoded; false if all are.
func (w *work) advance() bool {
	for w.at < len(w.prompts) && (w.prompts[w.at].Raw || w.prompts[w.at].IDs != nil) {
		w.at, w.offset, w.ids = w.at+1, 0, nil
	}
	return w.at < len(w.prompts)
}

// render makes an input's texts, and refuses what cannot fit before anything is encoded.
func (e *encoder) render(j *job, limits Limits) error {
	if most := limits.SequenceTokens; j.limited && most != nil && j.input.Chat != nil && len(j.input.Chat.Messages) > *most {
		if n := chat.CountMessages(j.input.Chat.Messages); n > *most {
			f := fault.New(fault.ContextLength, "this model's maximum context length is %d tokens, but there are %d messages; send fewer", *most, n)
			f.Param = param(j.input)
			return f
		}
	}
	prompts, err := e.prompts(j.input)
	if err != nil {
		return err
	}
	for i := range prompts {
		if err := e.texts.Check(prompts[i].Text); err != nil {
			return Fault(err, param(j.input))
		}
		if f := e.tooLong(j, prompts[i].Text, limits); f != nil {
			return f
		}
	}
	j.work.prompts = prompts
	return nil
}

// slice is how much of a text comes next.
func (e *encoder) slice(text string, addSpecial bool) int {
	if len(text) <= e.sliceBytes {
		return len(text)
	}
	if addSpecial {
		if _, _, ok := e.texts.Frame(); !ok {
			return len(text)
		}
	}
	return e.texts.Cut(text, e.sliceBytes)
}

// encode does the next n bytes of a prompt's text.
func (e *encoder) encode(w *work, p *stream.Prompt, n int, addSpecial bool) error {
	whole := n == len(p.Text)
	ids, err := e.texts.Encode(p.Text[w.offset:w.offset+n], addSpecial && whole)
	if err != nil {
		return err
	}
	w.offset += n
	if w.ids == nil {
		w.ids = ids
	} else {
		w.ids = append(w.ids, ids...)
	}
	if w.offset < len(p.Text) {
		return nil
	}
	if addSpecial && !whole {
		before, after, _ := e.texts.Frame()
		w.ids = slices.Concat(before, w.ids, after)
	}
	p.IDs = w.ids
	if p.IDs == nil {
		p.IDs = []uint32{} // a text without any
	}
	w.tokens += len(p.IDs)
	return nil
}

// tooLong refuses a prompt of which rest is not encoded yet and that no replica can take, whatever that comes to. Whether one that is
// known to its end fits is for the router to say.
func (e *encoder) tooLong(j *job, rest string, limits Limits) *fault.Fault {
	if !j.limited || rest == "" {
		return nil
	}
	least := len(j.work.ids) + e.texts.AtLeast(rest)
	var f *fault.Fault
	switch {
	case limits.PromptTokens != nil && least > *limits.PromptTokens:
		f = fault.New(fault.ContextLength, "the prompt has at least %d tokens, but this server takes at most %d; shorten the prompt",
			least, *limits.PromptTokens)
	case limits.SequenceTokens != nil && least >= *limits.SequenceTokens:
		f = fault.New(fault.ContextLength,
			"this model's maximum context length is %d tokens, but the prompt has at least %d and the answer needs at least 1; shorten the prompt",
			*limits.SequenceTokens, least)
	default:
		return nil
	}
	f.Param = param(j.input)
	return f
}

// param is what a client calls its prompt.
func param(in stream.Input) string {
	if in.Chat != nil {
		return "messages"
	}
	return "prompt"
}
