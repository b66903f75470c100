package admin

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine/openai"
	"plimsoll/tokenizer/chat"
)

const (
	// decisionsUsual is how many decisions are shown where nobody says.
	decisionsUsual = 20
	// supposedBytes bounds the body of a question.
	supposedBytes = 32 << 20
)

// Decisions is the body of an answer.
type Decisions struct {
	Decisions []explain.Record `json:"decisions"`
}

func (d Deps) recent(w http.ResponseWriter, r *http.Request) {
	if request := r.URL.Query().Get("request"); request != "" {
		d.past(w, request)
		return
	}
	most := decisionsUsual
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			writeFault(w, fault.Invalid("limit", "%q is no number of decisions: write 1 or more", text))
			return
		}
		most = n
	}
	writeJSON(w, http.StatusOK, Decisions{d.Decisions(most)})
}

func (d Deps) past(w http.ResponseWriter, request string) {
	found := d.DecisionsOf(request)
	if len(found) == 0 {
		writeFault(w, fault.New(fault.NotFound, "nothing is remembered of a request %q: the ID is the X-Request-Id of its answer, and only the last "+
			"requests are remembered (--decisions, --decisions-bytes)", request))
		return
	}
	writeJSON(w, http.StatusOK, Decisions{found})
}

func (d Deps) suppose(w http.ResponseWriter, r *http.Request) {
	req, err := d.supposed(http.MaxBytesReader(w, r.Body, supposedBytes), r.Header)
	if err != nil {
		writeFault(w, err)
		return
	}
	record, failed := d.Suppose(r.Context(), req)
	if failed != nil {
		writeFault(w, fault.Of(failed))
		return
	}
	writeJSON(w, http.StatusOK, Decisions{[]explain.Record{record}})
}

// supposed reads a request that is not made: a chat as clients send it, of which only what the prompt is made of counts, how long its
// answer may be and how urgent it is; or the prompt's text, or its tokens.
func (d Deps) supposed(body io.Reader, h http.Header) (*stream.Request, *fault.Fault) {
	raw, err := io.ReadAll(body)
	if f := late(err); f != nil {
		return nil, f
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, fault.Invalid("", "the body has more than %d bytes", large.Limit)
	case err != nil:
		return nil, fault.Invalid("", "the body could not be read: %v", err)
	}
	o, err := openai.ParseObject(raw)
	if err != nil {
		return nil, fault.Invalid("", "%v", err)
	}
	forms := 0
	for _, name := range []string{"prompt", "tokens", "messages"} {
		if o.Raw(name) != nil {
			forms++
		}
	}
	if forms != 1 {
		return nil, fault.Invalid("messages", "exactly one of messages, prompt (a text) and tokens (IDs) is needed")
	}
	req := &stream.Request{Arrival: d.Now(), N: 1, Tenant: "default"}
	var wrong *fault.Fault
	if req.Class, req.SLO, wrong = d.Urgency(h, o); wrong != nil {
		return nil, wrong
	}
	for _, read := range []func() error{
		func() error { return names(o, req) }, func() error { return lengths(o, req) }, func() error { return input(o, raw, req) },
	} {
		if err := read(); err != nil {
			return nil, fault.Invalid("", "%v", err)
		}
	}
	return req, nil
}

// names reads whom and what a question names.
func names(o openai.Object, req *stream.Request) error {
	for _, member := range []struct {
		name string
		to   *string
	}{{"model", &req.Model}, {"cache_salt", &req.CacheSalt}, {"prompt_cache_key", &req.Session}} {
		text, err := o.String(member.name)
		if err != nil {
			return err
		}
		if text != nil {
			*member.to = *text
		}
	}
	return nil
}

// lengths reads how long a question's answer may be, and has to be.
func lengths(o openai.Object, req *stream.Request) error {
	count := func(name string, least int64) (*int, error) {
		n, err := o.Int(name)
		if err != nil || n == nil {
			return nil, err
		}
		if *n < least || *n > math.MaxInt32 {
			return nil, fmt.Errorf("%s must be from %d to %d, not %d", name, least, math.MaxInt32, *n)
		}
		v := int(*n)
		return &v, nil
	}
	most, err := count("max_tokens", 1)
	if most == nil && err == nil {
		most, err = count("max_completion_tokens", 1)
	}
	if err != nil {
		return err
	}
	least, err := count("min_tokens", 0)
	if err != nil {
		return err
	}
	if req.MaxTokens = most; least != nil {
		req.MinTokens = *least
	}
	if most != nil && req.MinTokens > *most {
		return fmt.Errorf("min_tokens must be at most max_tokens, which is %d, not %d", *most, req.MinTokens)
	}
	return nil
}

// input reads the prompt of a question, in the one form that it has.
func input(o openai.Object, raw []byte, req *stream.Request) error {
	text, err := o.String("prompt")
	if err != nil {
		return err
	}
	ids, err := o.IDs("tokens")
	if err != nil {
		return err
	}
	switch {
	case text != nil:
		req.Input = stream.Input{Texts: []string{*text}, AddSpecial: true}
	case ids != nil:
		req.Input = stream.Input{Tokens: [][]uint32{ids}}
	default:
		asked, err := chat.ParseRequest(raw)
		if err != nil {
			return fmt.Errorf("the body is no chat request: %w", err)
		}
		req.Input = stream.Input{ChatBody: raw, Chat: &asked}
	}
	return nil
}
