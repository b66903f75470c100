package ingress

import (
	"context"
	"errors"
	"io"
	"strings"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine/openai"
)

// answering is one answer on its way: what the request's goroutine reads from the response and writes to the client.
type answering struct {
	x       *exchange
	q       *query
	resp    *stream.Response
	id      string
	created int64
	names   *vocabulary // nil: no logprobs were asked for
	legs    []leg
}

// leg is one choice of the answer.
type leg struct {
	opened bool            // streamed: its first chunk is out
	text   strings.Builder // whole answers only
	pieces []piece         // whole answers only
	more   openai.Delta    // what is said beside text: all of it, or if streamed what the present chunk says
	align  aligner
	told   place // streamed: where the text of the next token begins
	reason string
	stop   openai.StopReason
}

// generate has the request run and writes its answer. The client's leaving cancels it at once, wherever it is; so does
// every way out of here that is not the answer's end.
func (s *Server) generate(x *exchange, q *query) {
	chat := q.req.Input.Chat != nil
	a := &answering{x: x, q: q, id: "cmpl-" + s.deps.NewID(), created: s.deps.Now().Unix()}
	if chat {
		a.id = "chatcmpl-" + a.id[len("cmpl-"):]
	}
	if q.req.TopLogprobs != nil {
		a.names = newVocabulary(q.model.Tokenizer, q.req)
	}
	a.legs = make([]leg, q.req.Input.Prompts()*q.req.N)
	x.entry.answer, x.entry.stream, x.entry.n = a.id, q.stream, q.req.N

	a.resp = s.deps.Front.Submit(q.req)
	unwatch := context.AfterFunc(x.r.Context(), a.resp.Cancel)
	defer unwatch()
	over := false
	defer func() {
		if !over {
			a.resp.Cancel()
		}
		a.account()
		x.charge()
	}()
	if q.stream {
		over = newStreaming(a).run()
	} else {
		over = a.whole()
	}
}

// account notes what the answer cost so far.
func (a *answering) account() {
	u := a.resp.Usage()
	w := openai.Usage{
		PromptTokens: u.PromptTokens, CompletionTokens: u.CompletionTokens, TotalTokens: u.PromptTokens + u.CompletionTokens,
	}
	if u.CachedKnown {
		w.PromptTokensDetails = &openai.PromptTokensDetails{CachedTokens: u.CachedTokens}
	}
	a.x.entry.usage, a.x.entry.replicas = w, a.resp.Replicas()
}

// gone is the fault of a client that left.
func gone(err error) *fault.Fault {
	return &fault.Fault{Kind: fault.ClientGone, Message: "the client left", Err: err}
}

// unwritten is the fault of an answer that cannot be written to its client: it has left, or was cut off.
func (x *exchange) unwritten() *fault.Fault {
	if !x.stalled {
		return gone(x.writeErr)
	}
	return &fault.Fault{
		Kind: fault.SlowReader, Message: "the client has taken nothing for " + x.s.cfg.ClientStall.String(), Err: x.writeErr,
	}
}

// faultOf turns the error of Response.Next into a fault: its own, else the request's context has ended.
func faultOf(err error) *fault.Fault {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	return gone(err)
}

// isEnd says whether Response.Next has told of an answer's end. A fault is none, whatever caused it: an engine that hangs up without
// a word is one of io.EOF.
func isEnd(err error) bool {
	var f *fault.Fault
	return errors.Is(err, io.EOF) && !errors.As(err, &f)
}

// whole waits for the whole answer, or the client's leaving, and writes it. False: the answer is not over.
func (a *answering) whole() bool {
	for {
		d, err := a.resp.Next(a.x.r.Context())
		if isEnd(err) {
			break
		}
		if err != nil {
			var f *fault.Fault
			told := errors.As(err, &f) // else it is the request's context that has ended
			a.x.fail(faultOf(err))
			return told
		}
		if d.Restarted {
			a.legs[d.Leg] = leg{}
		}
		text, pieces, err := a.take(d)
		if err != nil {
			a.x.fail(unreadable(err))
			return false
		}
		l := &a.legs[d.Leg]
		l.text.WriteString(text)
		l.pieces = append(l.pieces, pieces...)
	}
	a.account()
	a.x.answerHeaders(a.resp)
	if a.q.req.Input.Chat != nil {
		a.x.json(200, wholeChat(a))
	} else {
		a.x.json(200, wholeCompletion(a))
	}
	return true
}

// unreadable is the fault of an engine whose answer says something beside text that is no JSON object.
func unreadable(err error) *fault.Fault {
	return &fault.Fault{Kind: fault.EngineFailed, Message: "the engine's answer cannot be read", Err: err}
}

// take returns what a delta adds to its leg: the text, and the tokens whose text is complete if logprobs are asked for. What
// is said beside text goes to the leg.
func (a *answering) take(d stream.Delta) (string, []piece, error) {
	l := &a.legs[d.Leg]
	if len(d.Entries) > 0 {
		a.x.tookFirstToken()
	}
	for i := range d.Entries {
		if more := d.Entries[i].ChatDelta; more != nil {
			if err := l.more.Add(more); err != nil {
				return "", nil, err
			}
		}
	}
	text := joined(d)
	if f := d.Finish; f != nil {
		l.reason = finishReason(f.Reason)
		l.stop = openai.StopReason{Text: f.StopString}
		if f.StopString == nil {
			l.stop.Token = f.StopToken
		}
	}
	if a.names == nil {
		return text, nil, nil
	}
	var pieces []piece
	for i := range d.Entries {
		pieces = append(pieces, l.align.push(&d.Entries[i], a.names)...)
	}
	if d.Finish != nil {
		pieces = append(pieces, l.align.end(d.Finish.Text)...)
	}
	return text, pieces, nil
}

// joined returns the text of a delta. A single piece, the usual case, is not copied.
func joined(d stream.Delta) string {
	only, pieces := "", 0
	for i := range d.Entries {
		if t := d.Entries[i].Text; t != "" {
			only = t
			pieces++
		}
	}
	if d.Finish != nil && d.Finish.Text != "" {
		only = d.Finish.Text
		pieces++
	}
	if pieces <= 1 {
		return only
	}
	var b strings.Builder
	for i := range d.Entries {
		b.WriteString(d.Entries[i].Text)
	}
	if d.Finish != nil {
		b.WriteString(d.Finish.Text)
	}
	return b.String()
}

func finishReason(r stream.StopReason) string {
	switch r {
	case stream.StopEnd:
		return openai.FinishStop
	case stream.StopToolCalls:
		return openai.FinishToolCalls
	case stream.StopLength, stream.NumStopReasons:
	}
	return openai.FinishLength
}
