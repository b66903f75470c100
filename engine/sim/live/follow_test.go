package live_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// A follower hears every batch of every life, each life from its beginning.
func TestFollowerOutlivesLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		ctx, cancel := context.WithCancel(t.Context())
		c, deaths, gone := &cache{}, 0, make(chan error)
		var lives [][]uint64
		go func() {
			gone <- e.Follow(ctx, func(b engine.KVBatch) {
				if b.Reset {
					require.Zero(t, b.Seq)
					require.Empty(t, b.Events)
					lives = append(lives, nil)
				} else {
					lives[len(lives)-1] = append(lives[len(lives)-1], b.Seq)
				}
				c.apply(t, b)
			}, func() { deaths++ })
		}()
		synctest.Wait()
		for life := range 3 {
			require.Len(t, lives, life+1)
			require.NoError(t, generate(t.Context(), e, ask("a", 100, 40)).err)
			require.NoError(t, generate(t.Context(), e, ask("b", 300, 40)).err)
			synctest.Wait()
			require.Equal(t, snapshot(t, e).copies, c.copies)
			require.NotEmpty(t, lives[life])
			e.Kill()
			synctest.Wait()
			require.Equal(t, life+1, deaths)
			e.Start()
			synctest.Wait()
			require.Empty(t, c.copies)
		}
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		go func() { gone <- e.Follow(t.Context(), func(engine.KVBatch) {}, func() {}) }()
		synctest.Wait()
		require.NoError(t, e.Close())
		require.Equal(t, engine.Broken, engine.KindOf(<-gone))
		require.Equal(t, engine.Refused, engine.KindOf(e.Follow(t.Context(), nil, nil)))
	})
}

// What a follower has no room for is a hole, not a snapshot.
func TestSlowFollowerMissesBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := tinyConfig()
		cfg.FeedBatchesMax = 4
		e := open(t, cfg, source)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seqs []uint64
		busy, gone := make(chan struct{}), make(chan error)
		go func() {
			gone <- e.Follow(ctx, func(b engine.KVBatch) {
				<-busy
				seqs = append(seqs, b.Seq)
			}, func() {})
		}()
		synctest.Wait()
		for i := range 20 {
			require.NoError(t, generate(t.Context(), e, ask(strconv.Itoa(i), 100+i, 40)).err)
		}
		close(busy)
		synctest.Wait()
		require.NoError(t, generate(t.Context(), e, ask("last", 300, 40)).err)
		synctest.Wait()
		require.Equal(t, []uint64{0, 1, 2, 3, 4}, seqs[:5])
		require.Greater(t, seqs[5], uint64(5))
		require.Equal(t, snapshot(t, e).seq, seqs[len(seqs)-1])
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		require.NoError(t, e.Close())
	})
}

// As recorded of vLLM: nothing is told while the engine idles; the next step's batch begins with it.
func TestResetPrefixCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		ctx, cancel := context.WithCancel(t.Context())
		var heard []prefix.EventKind
		gone := make(chan error)
		go func() {
			gone <- e.Follow(ctx, func(b engine.KVBatch) {
				for _, event := range b.Events {
					heard = append(heard, event.Kind)
				}
			}, func() {})
		}()
		require.NoError(t, generate(t.Context(), e, ask("a", 100, 1)).err)
		synctest.Wait()
		require.Equal(t, []prefix.EventKind{prefix.Stored}, heard)
		ok, err := e.ResetPrefixCache(t.Context(), false)
		require.NoError(t, err)
		require.True(t, ok)
		time.Sleep(time.Hour) // virtual
		require.Len(t, heard, 1)
		again := generate(t.Context(), e, ask("a", 100, 1))
		require.NoError(t, again.err)
		require.Zero(t, *again.cached)
		synctest.Wait()
		require.Equal(t, []prefix.EventKind{prefix.Stored, prefix.Cleared, prefix.Stored}, heard)

		running := make(chan answer)
		go func() { running <- generate(t.Context(), e, ask("b", 100, 500)) }()
		time.Sleep(time.Millisecond) // virtual
		ok, err = e.ResetPrefixCache(t.Context(), false)
		require.NoError(t, err)
		require.False(t, ok, "a request runs")
		ok, err = e.ResetPrefixCache(t.Context(), true)
		require.NoError(t, err)
		require.True(t, ok)
		a := <-running
		require.NoError(t, a.err)
		require.Len(t, a.ids, 500, "it was preempted and went on")

		e.Pause()
		late := make(chan error)
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		go func() {
			_, err := e.ResetPrefixCache(short, false)
			late <- err
		}()
		require.ErrorIs(t, <-late, context.DeadlineExceeded)
		e.Resume()
		go func() { running <- generate(t.Context(), e, ask("c", 100, 500)) }()
		time.Sleep(time.Microsecond) // virtual
		go func() {
			_, err := e.ResetPrefixCache(t.Context(), false)
			late <- err
		}()
		synctest.Wait()
		e.Kill()
		require.Equal(t, engine.Refused, engine.KindOf(<-late))
		<-running
		_, err = e.ResetPrefixCache(t.Context(), false)
		require.Equal(t, engine.Refused, engine.KindOf(err))
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		require.NoError(t, e.Close())
	})
}
