package admin

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
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
	req, err := supposed(http.MaxBytesReader(w, r.Body, supposedBytes), d.Now())
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

// question is a request that is not made: a chat as clients send it, of which only what the prompt is made of counts, or its
// text, or its tokens.
type question struct {
	Model         string          `json:"model"`
	Prompt        *string         `json:"prompt"`
	Tokens        []uint32        `json:"tokens"`
	Messages      json.RawMessage `json:"messages"`
	MaxTokens     *int            `json:"max_tokens"`
	MaxCompletion *int            `json:"max_completion_tokens"`
	MinTokens     int             `json:"min_tokens"`
	CacheSalt     string          `json:"cache_salt"`
	Session       string          `json:"prompt_cache_key"`
}

// supposed reads a question.
func supposed(body io.Reader, now time.Time) (*stream.Request, *fault.Fault) {
	raw, err := io.ReadAll(body)
	var q question
	if err == nil {
		err = json.Unmarshal(raw, &q)
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, fault.Invalid("", "the body has more than %d bytes", large.Limit)
	case err != nil:
		return nil, fault.Invalid("", "the body is no request in JSON: %v", err)
	}
	forms := 0
	for _, has := range []bool{q.Prompt != nil, q.Tokens != nil, q.Messages != nil} {
		if has {
			forms++
		}
	}
	if forms != 1 {
		return nil, fault.Invalid("messages", "exactly one of messages, prompt (a text) and tokens (IDs) is needed")
	}
	req := &stream.Request{
		Model: q.Model, Arrival: now, N: 1, MaxTokens: q.MaxTokens, MinTokens: q.MinTokens, CacheSalt: q.CacheSalt, Session: q.Session,
	}
	if req.MaxTokens == nil {
		req.MaxTokens = q.MaxCompletion
	}
	if n := req.MaxTokens; n != nil && (*n < 1 || *n > math.MaxInt32) || q.MinTokens < 0 {
		return nil, fault.Invalid("max_tokens", "max_tokens must be at least 1, and min_tokens at least 0")
	}
	switch {
	case q.Prompt != nil:
		req.Input = stream.Input{Texts: []string{*q.Prompt}, AddSpecial: true}
	case q.Tokens != nil:
		req.Input = stream.Input{Tokens: [][]uint32{q.Tokens}}
	default:
		asked, err := chat.ParseRequest(raw)
		if err != nil {
			return nil, fault.Invalid("", "the body is no chat request: %v", err)
		}
		req.Input = stream.Input{ChatBody: raw, Chat: &asked}
	}
	return req, nil
}
