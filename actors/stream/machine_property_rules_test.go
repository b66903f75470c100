package stream

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
)

// oracle is a leg's answer by the rules of semantics 3, without streams, windows or holding back: how many of the tokens
// count, their text, and the finish that ends them, nil if none does.
func oracle(sent []engine.Token, most int) (n int, text string, finish *string) {
	total := 0
	say := func(f Finish) *string {
		f.CompletionTokens = total
		w := finishWord(f)
		return &w
	}
	for i, t := range sent {
		total += 1 + t.LostIDs
		switch {
		case t.ID == idWord:
			id := t.ID
			return i + 1, text, say(Finish{Reason: StopEnd, StopToken: &id})
		case t.ID == idEOS:
			return i + 1, text, say(Finish{Reason: StopEnd})
		case t.Text != nil:
			text += *t.Text
		default:
			text += string(rune(t.ID))
		}
		first, which := -1, ""
		for _, stop := range []string{"b!", "aab"} {
			if at := strings.Index(text, stop); at >= 0 && (first < 0 || at+len(stop) < first+len(which)) {
				first, which = at, stop
			}
		}
		if first >= 0 {
			return i + 1, text[:first], say(Finish{Reason: StopEnd, StopString: &which})
		}
		if total >= most {
			return i + 1, text, say(Finish{Reason: StopLength})
		}
	}
	return len(sent), text, nil
}

// drain lets everything come to an end and checks what each ticket's replica has heard.
func (w *world) drain() {
	if w.ended == 0 {
		w.step(clientGone{})
	}
	for n := range w.open {
		delete(w.open, n)
		w.step(Withdrawn{Number: n})
	}
	for at, ok := w.r.m.nextTimeout(); ok; at, ok = w.r.m.nextTimeout() {
		w.r.now = at
		w.step(timeout{})
	}
	require.True(w.t, w.r.m.done(), "no engine is waited for")
	for _, id := range sortedCalls(w.calls) {
		w.returns(w.calls[id])
	}
	for n, t := range w.tickets {
		heard := fmt.Sprintf("ticket %d: %+v", n, *t)
		require.LessOrEqual(w.t, t.end, 1, heard)
		require.LessOrEqual(w.t, t.linger+len(t.failed), 1, heard)
		require.Positive(w.t, t.end+t.linger+len(t.failed), heard)
		switch {
		case !t.placed:
			require.Equal(w.t, 1, t.end, heard)
			require.Zero(w.t, t.linger+len(t.failed), heard)
		case len(t.failed) == 1 && t.failed[0] != engine.Stalled:
			require.Zero(w.t, t.end, heard)
		case t.confirms || t.finishedFirst:
			require.Equal(w.t, 1, t.end, heard)
		default:
			require.Zero(w.t, t.end, heard)
		}
	}
}
