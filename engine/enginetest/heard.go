package enginetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
)

// Heard is what one call of Generate told.
type Heard struct {
	Tokens []engine.Token
	Deltas []string
	Cached []int
	Finish *engine.Finish
	Err    error
}

// IDs returns the tokens' IDs, nil if there are none.
func (h *Heard) IDs() []uint32 {
	if len(h.Tokens) == 0 {
		return nil
	}
	out := make([]uint32, len(h.Tokens))
	for i, token := range h.Tokens {
		out[i] = token.ID
	}
	return out
}

// Text returns the text that came with tokens.
func (h *Heard) Text() string {
	var text strings.Builder
	for _, token := range h.Tokens {
		if token.Text != nil {
			text.WriteString(*token.Text)
		}
	}
	return text.String()
}

// Take notes an event and checks what all events promise.
func (h *Heard) Take(ev engine.Event) error {
	switch {
	case h.Finish != nil:
		return errors.New("an event after the finish")
	case len(ev.Tokens) == 0 && ev.Finish == nil:
		return errors.New("an event that is no sign of progress")
	}
	h.Tokens = append(h.Tokens, ev.Tokens...)
	if ev.ChatDelta != nil {
		h.Deltas = append(h.Deltas, string(ev.ChatDelta))
	}
	if ev.CachedTokens != nil {
		h.Cached = append(h.Cached, *ev.CachedTokens)
	}
	h.Finish = ev.Finish
	return nil
}

// Generate runs one call to its end and checks that it ends as the contract says.
func Generate(tb testing.TB, e engine.Engine, req engine.Request) *Heard {
	tb.Helper()
	h := &Heard{}
	h.Err = e.Generate(deadline(tb), req, h.Take)
	h.Check(tb)
	return h
}

// Check asserts that a call ended in a finish or in a failure, never in both or neither.
func (h *Heard) Check(tb testing.TB) {
	tb.Helper()
	if h.Err == nil {
		require.NotNil(tb, h.Finish, "nil without a finish")
		return
	}
	require.Nil(tb, h.Finish, "a finish and an error: %v", h.Err)
	var failure *engine.Failure
	require.ErrorAs(tb, h.Err, &failure)
	require.Equal(tb, failure.Kind == engine.Client, failure.Message != "", "words for the client belong to Client alone: %v", h.Err)
}

// FailureIn asserts a failure of a kind and returns it.
func FailureIn(tb testing.TB, err error, kind engine.FailKind) engine.Failure {
	tb.Helper()
	var failure *engine.Failure
	require.ErrorAs(tb, err, &failure)
	require.Equal(tb, kind.String(), failure.Kind.String(), "%v", err)
	return *failure
}

// Awaited waits for something that must come.
func Awaited(tb testing.TB, done <-chan struct{}, otherwise string) {
	tb.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		tb.Fatal(otherwise)
	}
}
