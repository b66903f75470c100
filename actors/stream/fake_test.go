package stream

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"plimsoll/engine"
)

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Token IDs of the tests' tokenizer beside the bytes, which stand for themselves.
const (
	idEOS  = 300 // "<eos>", special: an end token of the model
	idEnd2 = 301 // "<end2>", special: another end token
	idWord = 302 // " word"
	idBomb = 400 // decoding it panics
	idNone = 500 // not in the vocabulary
)

// letters decodes the tests' IDs.
type letters struct{}

func (letters) Decode(ids []uint32, skipSpecial bool) (string, error) {
	var out strings.Builder
	for _, id := range ids {
		switch {
		case id < 256:
			out.WriteByte(byte(id))
		case id == idEOS && !skipSpecial:
			out.WriteString("<eos>")
		case id == idEnd2 && !skipSpecial:
			out.WriteString("<end2>")
		case id == idEOS, id == idEnd2:
		case id == idWord:
			out.WriteString(" word")
		case id == idBomb:
			panic("a bomb in the decoder")
		default:
			return "", errors.New("no such token")
		}
	}
	return strings.ToValidUTF8(out.String(), "\ufffd"), nil
}

// encodeBytes is the inverse of letters for text.
func encodeBytes(text string) ([]uint32, error) {
	ids := make([]uint32, len(text))
	for i := range len(text) {
		ids[i] = uint32(text[i])
	}
	return ids, nil
}

// script is an engine whose Generate is the test's.
type script struct {
	caps     engine.Capabilities
	status   engine.Status
	generate func(ctx context.Context, req engine.Request, emit func(engine.Event) error) error
	running  atomic.Int32
}

func (s *script) Capabilities() engine.Capabilities { return s.caps }

func (s *script) Probe(context.Context) (engine.Status, error) { return s.status, nil }

func (s *script) Generate(ctx context.Context, req engine.Request, emit func(engine.Event) error) error {
	s.running.Add(1)
	defer s.running.Add(-1)
	return s.generate(ctx, req, emit)
}

func (s *script) Close() error { return nil }
