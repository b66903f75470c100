package detok

import (
	"strings"
	"unicode/utf8"
)

// Limits of the window, in ids. A character has at most four bytes, so that what an id decodes to is settled by the few after it.
const (
	maxPendingIDs = 64 // ids held without giving out text, before the window is cut by force
	contextIDs    = 8  // ids that stay as context after a cut by force, or of the prompt
)

// replacement is what decoders give for bytes that are no character, or not yet one.
const replacement = string(utf8.RuneError)

// Decoder turns a list of ids into text; *hf.Tokenizer is one.
type Decoder interface {
	Decode(ids []uint32, skipSpecial bool) (string, error)
}

// Config says how one answer is decoded.
type Config struct {
	// SkipSpecial leaves special tokens out of the text.
	SkipSpecial bool
	// PromptTail is the end of the prompt, where the answer is to continue the prompt's text exactly: some decoders strip the
	// space before the first word. Empty decodes the answer as a text of its own. The last 8 ids count.
	PromptTail []uint32
}

// Stream is the incremental detokenizer of one answer.
type Stream struct {
	decoder Decoder
	skip    bool

	window  []uint32 // the ids that are decoded together
	context int      // how many ids of the window, at its front, had their text given out before the rest came
	given   string   // the part of the window's text that was given out
	settled int      // how many bytes of given are the context's
	started bool     // given and settled tell the text of the prompt's tail
}

// New starts the stream of one answer.
func New(d Decoder, cfg Config) *Stream {
	tail := cfg.PromptTail[max(0, len(cfg.PromptTail)-contextIDs):]
	s := &Stream{decoder: d, skip: cfg.SkipSpecial, window: make([]uint32, 0, contextIDs+2)}
	s.window = append(s.window, tail...)
	s.context = len(tail)
	return s
}

// Push takes the answer's next id and returns the text that it completes, often none.
// On an error, such as an id that the vocabulary lacks, the stream is as if the id had not come, and may go on.
func (s *Stream) Push(id uint32) (string, error) {
	if err := s.start(); err != nil {
		return "", err
	}
	s.window = append(s.window, id)
	text, err := s.decoder.Decode(s.window, s.skip)
	if err != nil {
		s.window = s.window[:len(s.window)-1]
		return "", err
	}
	sure := strings.TrimRight(text, replacement)
	piece := ""
	switch {
	case strings.HasPrefix(sure, s.given):
		piece = sure[len(s.given):]
		s.given = sure
	case len(sure) == len(text):
		// The decoder took back what was given out. The pending ids on their own tell what is new.
		return s.afresh()
	}
	switch {
	case piece != "" && len(sure) == len(text):
		return piece, s.slide(s.context)
	case len(s.window)-s.context > maxPendingIDs:
		return s.force(piece, text)
	}
	return piece, nil
}

// Flush returns the text that is still held, such as the U+FFFD of a character that never became whole. It ends the answer:
// a second Flush returns nothing.
func (s *Stream) Flush() (string, error) {
	if err := s.start(); err != nil {
		return "", err
	}
	text, err := s.decoder.Decode(s.window, s.skip)
	if err != nil || !strings.HasPrefix(text, s.given) {
		return "", err
	}
	rest := text[len(s.given):]
	s.given = text
	return rest, nil
}

// start finds out, once, what the prompt's tail reads.
func (s *Stream) start() error {
	if s.started {
		return nil
	}
	if err := s.recall(); err != nil {
		return err
	}
	s.started = true
	return nil
}

// slide drops the first n ids of the window. All that remain are context, and their text was given out.
func (s *Stream) slide(n int) error {
	s.window = s.window[:copy(s.window, s.window[n:])]
	s.context = len(s.window)
	return s.recall()
}

// recall sets what was given out of a window that is all context: its text but for the start of a character at the end.
// Where the text is nothing but such starts, they are left-overs of a character before the window.
func (s *Stream) recall() error {
	text, err := s.decoder.Decode(s.window, s.skip)
	if err != nil {
		return err
	}
	if s.given = strings.TrimRight(text, replacement); s.given == "" {
		s.given = text
	}
	s.settled = len(s.given)
	return nil
}

// afresh gives out the text of the pending ids as a text of their own, less what was given of them.
func (s *Stream) afresh() (string, error) {
	text, err := s.decoder.Decode(s.window[s.context:], s.skip)
	if err != nil {
		return "", err
	}
	piece, _ := strings.CutPrefix(text, s.given[s.settled:])
	return piece, s.slide(s.context)
}

// force shortens a window whose pending ids gave no text for long. Either they have none, and are dropped; or they are bytes
// that make no characters: all but the last of their U+FFFD, which might still become one, are given out.
func (s *Stream) force(piece, text string) (string, error) {
	if text == s.given {
		s.window = s.window[:s.context]
		return piece, nil
	}
	sure := strings.TrimSuffix(text, replacement)
	if more, ok := strings.CutPrefix(sure, s.given); ok {
		piece += more
	}
	if err := s.slide(len(s.window) - contextIDs); err != nil {
		return "", err
	}
	last, err := s.decoder.Decode(s.window, s.skip)
	s.given = strings.TrimSuffix(last, replacement)
	s.settled = len(s.given)
	return piece, err
}
