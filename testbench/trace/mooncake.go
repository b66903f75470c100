package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// BlockTokens is how many tokens of a prompt one hash ID of a Mooncake trace stands for.
const BlockTokens = 512

// mooncakeLine is a request as it stands in a Mooncake trace.
type mooncakeLine struct {
	Timestamp    int64    `json:"timestamp"` // milliseconds
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

// Mooncake reads a Mooncake trace. Its errors name the line.
func Mooncake(r io.Reader) Source {
	return newLines(r, func(text []byte) (Request, error) {
		var l mooncakeLine
		if err := json.Unmarshal(text, &l); err != nil {
			return Request{}, err
		}
		return l.request()
	})
}

// Read reads at most that many requests of a Mooncake trace.
func Read(r io.Reader, most int) ([]Request, error) { return Take(Mooncake(r), most) }

func (l *mooncakeLine) request() (Request, error) {
	r := Request{At: time.Duration(l.Timestamp) * time.Millisecond, PromptTokens: l.InputLength, OutputTokens: l.OutputLength}
	if err := r.check(); err != nil {
		return Request{}, err
	}
	blocks := (l.InputLength + BlockTokens - 1) / BlockTokens
	if len(l.HashIDs) < blocks {
		return Request{}, fmt.Errorf("%d hash_ids for %d tokens, %d are needed", len(l.HashIDs), l.InputLength, blocks)
	}
	r.Parts = make([]Part, blocks)
	left := l.InputLength
	for i := range r.Parts {
		r.Parts[i] = Part{l.HashIDs[i], min(left, BlockTokens)}
		left -= r.Parts[i].Tokens
	}
	return r, nil
}
