package enginetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
)

// manyTokens is an answer that is not over before a test has reacted to its first token.
const manyTokens = 400

// anyEngine is what is asked of engines behind HTTP and of those inside the process alike.
func (s Subject) anyEngine(t *testing.T) {
	t.Run("nil comes only after a finish, which is the last event", func(t *testing.T) {
		h := Generate(t, s.start(t), Request(5))
		require.NoError(t, h.Err)
		require.Len(t, h.Tokens, 5)
		require.Equal(t, engine.FinishLength, h.Finish.Reason)
	})
	t.Run("no more tokens come than were asked for", func(t *testing.T) {
		h := Generate(t, s.start(t), Request(1))
		require.NoError(t, h.Err)
		require.Len(t, h.Tokens, 1)
	})
	t.Run("a context that has ended is the call's error", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		e := s.start(t)
		require.ErrorIs(t, e.Generate(ctx, Request(1), (&Heard{}).Take), context.Canceled)
		_, err := e.Probe(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("a context that ends during the call is its error", func(t *testing.T) {
		e := s.start(t)
		ctx, cancel := context.WithCancel(deadline(t))
		defer cancel()
		h := &Heard{}
		err := e.Generate(ctx, Request(manyTokens), func(ev engine.Event) error {
			cancel()
			return h.Take(ev)
		})
		require.ErrorIs(t, err, context.Canceled)
		if e.Capabilities().ConfirmsAbort {
			st, err := e.Probe(t.Context())
			require.NoError(t, err)
			require.Zero(t, *st.Load.UsedBlocks, "the call has returned and its blocks are held")
		}
	})
	t.Run("an error of emit ends the call and is returned as it is", func(t *testing.T) {
		mine, calls := errors.New("the journal is full"), 0
		err := s.start(t).Generate(deadline(t), Request(manyTokens), func(engine.Event) error {
			calls++
			return mine
		})
		require.Equal(t, mine, err)
		require.Equal(t, 1, calls)
	})
	t.Run("calls at once are independent", s.independent)
	t.Run("Close fails what runs and what comes after", s.closes)
	t.Run("what a probe gives is the caller's own", func(t *testing.T) {
		e := s.start(t)
		first, err := e.Probe(t.Context())
		require.NoError(t, err)
		blocks, seats := *first.KVBlocks, *first.Seats
		require.Positive(t, blocks)
		require.Positive(t, seats)
		require.Positive(t, *first.BlockTokens)
		require.Positive(t, *first.SequenceTokens)
		*first.KVBlocks, *first.Seats = -1, -1
		second, err := e.Probe(t.Context())
		require.NoError(t, err)
		require.Equal(t, blocks, *second.KVBlocks)
		require.Equal(t, seats, *second.Seats)
		require.Equal(t, first.Incarnation, second.Incarnation, "one life")
	})
	t.Run("capabilities say what the engine is", func(t *testing.T) {
		e := s.start(t)
		c := e.Capabilities()
		require.NotEmpty(t, c.Kind)
		require.Less(t, c.Sharing, engine.NumSharings)
		_, source := e.(engine.KVSource)
		require.Equal(t, source, c.KVEvents)
		require.True(t, c.ConfirmsAbort || c.LingerBound > 0, "nothing says when an aborted request's blocks are free")
		require.Equal(t, c, e.Capabilities())
	})
	t.Run("what the engine cannot do is refused as the client's", s.refuses)
}

func (s Subject) refuses(t *testing.T) {
	e := s.start(t)
	can := e.Capabilities()
	for name, c := range map[string]struct {
		can    bool
		change func(*engine.Request)
	}{
		"neither tokens nor a chat": {false, func(r *engine.Request) { r.PromptTokens = nil }},
		"a chat":                    {can.Chat, func(r *engine.Request) { r.PromptTokens, r.ChatBody = nil, []byte(`{"messages":[]}`) }},
		"min_tokens":                {can.MinTokens, func(r *engine.Request) { r.MinTokens = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			req := Request(2)
			c.change(&req)
			if !c.can {
				FailureIn(t, Generate(t, e, req).Err, engine.Client)
			} else if req.ChatBody == nil {
				require.NoError(t, Generate(t, e, req).Err)
			}
		})
	}
}

func (s Subject) independent(t *testing.T) {
	e := s.start(t)
	ctx := deadline(t)
	var calls sync.WaitGroup
	for i := range 30 {
		calls.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			req := Request(8)
			cancels := i%3 == 1
			if cancels {
				req.MaxTokens = manyTokens
			}
			req.ID += string(rune('a' + i))
			h := &Heard{}
			h.Err = e.Generate(ctx, req, func(ev engine.Event) error {
				if cancels {
					cancel()
				}
				return h.Take(ev)
			})
			switch {
			case cancels && !errors.Is(h.Err, context.Canceled):
				t.Errorf("call %d: %v", i, h.Err)
			case !cancels && (h.Err != nil || len(h.Tokens) != 8):
				t.Errorf("call %d: %d tokens, %v", i, len(h.Tokens), h.Err)
			}
		})
	}
	calls.Wait()
}

func (s Subject) closes(t *testing.T) {
	e := s.Open(t)
	began, closed, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		ended <- e.Generate(t.Context(), Request(manyTokens), func(engine.Event) error {
			if first {
				first = false
				close(began)
				<-closed // the call is not over before
			}
			return nil
		})
	}()
	Awaited(t, began, "no token came")
	require.NoError(t, e.Close())
	close(closed)
	FailureIn(t, <-ended, engine.Broken)
	require.Error(t, e.Generate(t.Context(), Request(1), (&Heard{}).Take))
}
