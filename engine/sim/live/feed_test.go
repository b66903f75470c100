package live_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/sim/live"
	"plimsoll/scoring/prefix"
)

type cache struct {
	copies map[uint64]int
	seq    uint64
	resets int
}

func (c *cache) apply(tb testing.TB, b engine.KVBatch) {
	tb.Helper()
	if b.Reset {
		c.copies, c.resets = map[uint64]int{}, c.resets+1
	} else {
		require.Equal(tb, c.seq+1, b.Seq, "a hole without Reset")
	}
	c.seq = b.Seq
	for _, event := range b.Events {
		switch event.Kind {
		case prefix.Stored:
			require.Len(tb, event.Tokens, len(event.Hashes)*event.BlockTokens)
			if b.Reset && event.Parent != nil {
				require.Positive(tb, c.copies[*event.Parent], "a snapshot names parents first")
			}
			for _, h := range event.Hashes {
				c.copies[h]++
			}
		case prefix.Removed:
			for _, h := range event.Hashes {
				c.copies[h]--
				require.GreaterOrEqual(tb, c.copies[h], 0)
				if c.copies[h] == 0 {
					delete(c.copies, h)
				}
			}
		case prefix.Cleared:
			clear(c.copies)
		case prefix.NumEventKinds:
		}
	}
}

func snapshot(t *testing.T, e *live.Engine) *cache {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &cache{}
	err := e.Subscribe(ctx, func(b engine.KVBatch) { c.apply(t, b); cancel() })
	require.ErrorIs(t, err, context.Canceled)
	return c
}

func TestFeedFollowsTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		rng := rand.New(rand.NewPCG(1, 2))
		ctx, cancel := context.WithCancel(t.Context())
		var followers []*cache
		var wg sync.WaitGroup
		for i := range 60 {
			if i%20 == 0 {
				c := &cache{}
				followers = append(followers, c)
				wg.Go(func() { _ = e.Subscribe(ctx, func(b engine.KVBatch) { c.apply(t, b) }) })
				synctest.Wait()
			}
			req := ask(strconv.Itoa(i), 50+rng.IntN(8)*150, 1+rng.IntN(100))
			wg.Go(func() { generate(ctx, e, req) })
			time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond) // virtual
		}
		time.Sleep(time.Hour) // virtual
		synctest.Wait()
		want := snapshot(t, e)
		require.NotEmpty(t, want.copies)
		for _, c := range followers {
			require.Equal(t, want.copies, c.copies)
			require.Equal(t, want.seq, c.seq)
			require.Equal(t, 1, c.resets)
		}
		cancel()
		wg.Wait()
		require.NoError(t, e.Close())
	})
}

func TestSlowSubscriberGetsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := tinyConfig()
		cfg.FeedBatchesMax = 4
		e := open(t, cfg, source)
		ctx, cancel := context.WithCancel(t.Context())
		c, busy, gone := &cache{}, make(chan struct{}), make(chan error)
		go func() {
			gone <- e.Subscribe(ctx, func(b engine.KVBatch) {
				<-busy
				c.apply(t, b)
			})
		}()
		for i := range 20 {
			require.NoError(t, generate(t.Context(), e, ask(strconv.Itoa(i), 100+i, 40)).err)
		}
		close(busy)
		synctest.Wait()
		require.NoError(t, generate(t.Context(), e, ask("last", 300, 40)).err)
		synctest.Wait()
		require.Equal(t, 2, c.resets)
		require.Equal(t, snapshot(t, e).copies, c.copies)
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		require.NoError(t, e.Close())
	})
}
