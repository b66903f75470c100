package stream

import (
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/tokenizer/detok"
)

// Model is what a stream needs to know of its model.
type Model struct {
	// Name is the served model's inside the node: calls are found by it, and share what is the model's. Clients name the model
	// as they like, or an adapter of it ([Request].Model).
	Name      string
	Decoder   detok.Decoder
	EndTokens []uint32 // IDs that end an answer; the client sees none of their text
	// Encode turns text of an answer back into IDs, without special tokens; nil: that can't be done.
	Encode func(text string) ([]uint32, error)
}

// hole is a place in an answer whose IDs the engine did not tell; text is theirs.
type hole struct {
	at   int // of legState.ids: the text comes before this one
	text string
}

// legState is one answer as the machine sees it.
type legState struct {
	index, prompt int
	decode        func() *detok.Stream // begins a stream of IDs
	detok         *detok.Stream
	stops         *detok.Stops

	ids      []uint32 // what was produced, but for what is in the holes
	holes    []hole
	wordless bool // an engine gave text without any ID
	produced int  // tokens, lost ones included
	finished bool

	attempts int
	excluded []Exclusion
	limit    int      // the most it may produce, as its first attempt was placed
	input    []uint32 // prompt and journal, for the next attempt; nil: the prompt alone
	// giver is the first attempt that gave a token: what engines say of the prompt counts from it alone. 0: none has.
	giver     uint64
	refused   int // attempts that engines refused as if they refused us
	fruitless int // attempts in a row that took what it had produced and added nothing
	// silenced counts the replicas that it left for their silence while they computed its prompt, or after it had waited for the
	// first token in vain: it may be the cause. twice: the next one fell silent too, and it waits there.
	silenced int
	twice    bool
	only     []scoring.ReplicaID // where its next attempt may go, see Ask
	retrying bool                // it has a share in the retry budget
	parked   *Ask                // what it wants as soon as it has one; nil: it does not wait for that
	breach   *breach             // nil: its stream of tokens is not broken
}

func newLeg(req *Request, model Model, index int) *legState {
	decode := func() *detok.Stream {
		return detok.New(model.Decoder, detok.Config{SkipSpecial: req.SkipSpecialTokens})
	}
	return &legState{
		index: index, prompt: index / req.N, decode: decode, detok: decode(),
		stops: detok.NewStops(req.Stop, req.IncludeStop),
	}
}

// restart makes a leg as new, but for the memory of its attempts.
func (l *legState) restart(req *Request, model Model) {
	fresh := newLeg(req, model, l.index)
	fresh.attempts, fresh.refused, fresh.excluded, fresh.giver, fresh.breach = l.attempts, l.refused, l.excluded, l.giver, l.breach
	fresh.silenced, fresh.twice, fresh.only = l.silenced, l.twice, l.only
	*l = *fresh
}

// known are the IDs that the answer begins with, up to the first hole.
func (l *legState) known() []uint32 {
	if len(l.holes) > 0 {
		return l.ids[:l.holes[0].at]
	}
	return l.ids
}

// note takes a token's ID, or the text of what has none.
func (l *legState) note(t engine.Token) {
	l.produced += 1 + t.LostIDs
	l.wordless = l.wordless || t.ID == engine.NoTokenID
	if t.LostIDs > 0 && t.Text != nil {
		l.holes = append(l.holes, hole{len(l.ids), *t.Text})
		return
	}
	l.ids = append(l.ids, t.ID)
}

// token takes one token into the journal and says whether the answer ends with it. After an error without a finish, of a token
// that cannot be read, it is as if the token had not come.
func (l *legState) token(req *Request, model Model, maxTokens int, t engine.Token, at time.Time) (Entry, *Finish, error) {
	wordless := l.wordless
	l.note(t)
	entry := Entry{ID: t.ID, LostIDs: t.LostIDs, Logprob: t.Logprob, Stamp: at}
	ended := !req.IgnoreEOS && slices.Contains(model.EndTokens, t.ID)
	if l.produced >= req.MinTokens {
		if slices.Contains(req.StopTokenIDs, t.ID) {
			f, err := l.end(StopEnd)
			if f.StopString == nil {
				id := t.ID // a copy, so that not every token escapes
				f.StopToken = &id
			}
			return entry, f, err
		}
		if ended {
			f, err := l.end(StopEnd)
			return entry, f, err
		}
	}
	if !ended { // an end token has no text, also where it comes too early to end anything
		finish, err := l.text(req, t, &entry)
		if err != nil {
			l.forget(t)
			l.wordless = wordless
		}
		if finish != nil || err != nil {
			return entry, finish, err
		}
	}
	if l.produced >= maxTokens {
		f, err := l.end(StopLength)
		return entry, f, err
	}
	return entry, nil, nil
}

// forget takes back what was noted of the last token.
func (l *legState) forget(t engine.Token) {
	l.produced -= 1 + t.LostIDs
	if t.LostIDs > 0 && t.Text != nil {
		l.holes = l.holes[:len(l.holes)-1]
		return
	}
	l.ids = l.ids[:len(l.ids)-1]
}

// relay takes one token of an answer that the engine reads: its text is taken as it is, and only the engine ends it.
func (l *legState) relay(t engine.Token, at time.Time) Entry {
	l.produced += 1 + t.LostIDs
	entry := Entry{ID: t.ID, LostIDs: t.LostIDs, Logprob: t.Logprob, Stamp: at, Relayed: true}
	if t.Text != nil {
		entry.Text = *t.Text
	}
	return entry
}

// text gives out what has become certain with a token, and the finish if a stop string is complete.
func (l *legState) text(req *Request, t engine.Token, entry *Entry) (*Finish, error) {
	piece, err := l.piece(t)
	if err != nil {
		return nil, err
	}
	if l.produced < req.MinTokens {
		entry.Text = piece // a stop string that begins this early ends nothing
		return nil, nil
	}
	out, matched, hit := l.stops.Push(piece)
	entry.Text = out
	if hit {
		stop := matched
		return &Finish{Reason: StopEnd, StopString: &stop, CompletionTokens: l.produced}, nil
	}
	return nil, nil
}

// piece is the text that has become certain with a token.
func (l *legState) piece(t engine.Token) (string, error) {
	if t.Text == nil {
		return l.detok.Push(t.ID)
	}
	// The engine sent text for IDs it lost: the window can't know them, so it starts anew behind them.
	held, err := l.detok.Flush()
	l.detok = l.decode()
	return held + *t.Text, err
}

// end finishes the leg with what is still held back; there is a finish with an error too.
func (l *legState) end(reason StopReason) (*Finish, error) {
	f := &Finish{Reason: reason, CompletionTokens: l.produced}
	held, err := l.detok.Flush()
	if err != nil {
		return f, err
	}
	out, matched, hit := l.stops.Push(held)
	f.Text = out
	if hit {
		f.Reason, f.StopString = StopEnd, &matched
		return f, nil
	}
	f.Text += l.stops.Flush()
	return f, nil
}
