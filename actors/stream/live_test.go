package stream

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
)

func TestDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{caps: confirms, generate: says("hello", time.Second)})
		require.NoError(t, n.live.Drained(t.Context()), "nothing runs")
		n.submit(&Request{})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		require.ErrorIs(t, n.live.Drained(ctx), context.DeadlineExceeded)
		require.Equal(t, 1, n.live.Len())
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- n.live.Drained(t.Context()) }()
		}
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.Equal(t, 5*time.Second, time.Since(began), "it ends with its answer, read or not")
		n.quiet()
		n.close()
	})
}

func TestShutdownReachesWhoComesLaterToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{caps: confirms, generate: says("hello", time.Second)})
		first := n.submit(&Request{})
		require.Equal(t, 1, n.live.Tell(shutdown))
		late := n.submit(&Request{})
		for _, r := range []*Response{first, late} {
			_, err := readAll(t.Context(), r)
			require.Equal(t, fault.ShuttingDown, kindOf(err))
		}
		n.quiet()
		n.close()
	})
}

// A model's calls are found by its own name, whatever their clients call it.
func TestTellModelReachesThatModelOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{caps: confirms, generate: says("hello", time.Second)})
		route := n.deps.Router
		var submissions atomic.Int32 // calls submit from their own goroutines
		n.deps.Router = func(message any) {
			if _, ok := message.(*Submit); ok {
				submissions.Add(1)
				return // it is kept waiting
			}
			route(message)
		}
		r := n.submit(&Request{})
		r.Cancel()
		r = n.submit(&Request{Model: "an adapter of m", LoRA: "an adapter of m"})
		synctest.Wait()
		require.EqualValues(t, 2, submissions.Load())
		submissions.Store(1)
		n.live.TellModel("an adapter of m", RouterRestarted{})
		n.live.TellModel("other", RouterRestarted{})
		synctest.Wait()
		require.EqualValues(t, 1, submissions.Load())
		n.live.TellModel("m", RouterRestarted{})
		synctest.Wait()
		require.EqualValues(t, 2, submissions.Load())
		r.Cancel()
		synctest.Wait()
		n.quiet() // though the router has answered nothing
		n.close()
	})
}
