package trace

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// ownLine is a request as it stands in a trace of our own.
type ownLine struct {
	At           *float64  `json:"at"` // seconds
	PromptTokens int       `json:"prompt_tokens"`
	OutputTokens int       `json:"output_tokens"`
	MaxTokens    *int      `json:"max_tokens,omitempty"`
	BlockTokens  int       `json:"block_tokens,omitempty"`
	Blocks       string    `json:"blocks,omitempty"`
	Parts        []ownPart `json:"parts,omitempty"`
	Session      string    `json:"session,omitempty"`
	Tenant       string    `json:"tenant,omitempty"`
	Class        string    `json:"class,omitempty"`
	Outcome      string    `json:"outcome,omitempty"`
}

// ownPart is a [Part], as [ID in hexadecimal, tokens].
type ownPart Part

// MarshalJSON implements json.Marshaler.
func (p ownPart) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `["%x",%d]`, p.ID, p.Tokens), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *ownPart) UnmarshalJSON(text []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(text, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("part %s is no pair of an ID and a number of tokens", text)
	}
	var id string
	if err := json.Unmarshal(pair[0], &id); err != nil {
		return fmt.Errorf("part %s: its ID is no string", text)
	}
	var err error
	if p.ID, err = strconv.ParseUint(id, 16, 64); err != nil {
		return fmt.Errorf("part %s: its ID is no hexadecimal number of at most 16 digits", text)
	}
	if err := json.Unmarshal(pair[1], &p.Tokens); err != nil || p.Tokens < 1 || p.Tokens > tokensMax {
		return fmt.Errorf("part %s: it needs at least one token", text)
	}
	return nil
}

// Own reads a trace of our own format. Its errors name the line.
func Own(r io.Reader) Source {
	return newLines(r, func(text []byte) (Request, error) {
		var l ownLine
		if err := json.Unmarshal(text, &l); err != nil {
			return Request{}, err
		}
		return l.request()
	})
}

func (l *ownLine) request() (Request, error) {
	if l.At == nil || math.IsNaN(*l.At) || math.Abs(*l.At) > secondsMax {
		return Request{}, errors.New("at is missing, or no time in seconds")
	}
	r := Request{
		At: time.Duration(math.Round(*l.At * float64(time.Second))), PromptTokens: l.PromptTokens, OutputTokens: l.OutputTokens,
		MaxTokens: l.MaxTokens, Session: l.Session, Tenant: l.Tenant, Class: l.Class, Outcome: l.Outcome,
	}
	if l.Outcome != "" { // it was recorded: no answer, or one that ended at once
		r.OutputTokens = max(1, r.OutputTokens)
	}
	if (l.Blocks == "") != (l.BlockTokens == 0) || l.Blocks != "" && l.Parts != nil {
		return Request{}, errors.New("blocks and block_tokens go together, and parts without them")
	}
	if l.Blocks != "" {
		return r, l.blocks(&r)
	}
	for _, p := range l.Parts {
		r.Parts = append(r.Parts, Part(p))
	}
	return r, nil
}

// secondsMax is some thirty years.
const secondsMax = 1e9

// blocks reads the keys of blocks.
func (l *ownLine) blocks(r *Request) error {
	if l.BlockTokens < 1 || l.BlockTokens > tokensMax {
		return fmt.Errorf("block_tokens is %d, at least 1 is needed", l.BlockTokens)
	}
	raw, err := hex.DecodeString(l.Blocks)
	if err != nil || len(raw)%8 != 0 {
		return errors.New("blocks are not of 16 hexadecimal digits each")
	}
	r.Parts = make([]Part, 0, len(raw)/8)
	for ; len(raw) > 0; raw = raw[8:] {
		id := uint64(0)
		for _, b := range raw[:8] {
			id = id<<8 | uint64(b)
		}
		r.Parts = append(r.Parts, Part{id, l.BlockTokens})
	}
	return nil
}

// Write writes a request as a line of our own format.
func Write(w io.Writer, r Request) error {
	seconds := r.At.Seconds()
	l := ownLine{
		At: &seconds, PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens, MaxTokens: r.MaxTokens,
		Session: r.Session, Tenant: r.Tenant, Class: r.Class, Outcome: r.Outcome,
	}
	if size, ok := uniform(r.Parts); ok {
		l.BlockTokens = size
		blocks := make([]byte, 0, 16*len(r.Parts))
		for _, p := range r.Parts {
			blocks = fmt.Appendf(blocks, "%016x", p.ID)
		}
		l.Blocks = string(blocks)
	} else {
		for _, p := range r.Parts {
			l.Parts = append(l.Parts, ownPart(p))
		}
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}

// uniform says whether all parts, of which there are some, are of one size.
func uniform(parts []Part) (tokens int, ok bool) {
	for _, p := range parts {
		if p.Tokens != parts[0].Tokens {
			return 0, false
		}
	}
	if len(parts) < 2 {
		return 0, false
	}
	return parts[0].Tokens, true
}
