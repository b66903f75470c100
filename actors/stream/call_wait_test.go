package stream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
)

// TestNobodyWaitsForARouterThatIsGone: a call whose router never says anything ends with its client at once, and by itself within
// a bound. Nothing of it is left.
func TestNobodyWaitsForARouterThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{caps: confirms, generate: says("hello", time.Second)})
		n.deps.Router = func(any) {}
		left := n.submit(&Request{})
		synctest.Wait()
		left.Cancel()
		n.quiet()
		n.submit(&Request{})
		began := time.Now()
		require.NoError(t, n.live.Wait(t.Context()))
		require.Equal(t, 8*n.cfg.RouterWait, time.Since(began))
		require.Equal(t, fault.ClientGone, n.ended[0].Fault.Kind)
		require.Equal(t, fault.Internal, n.ended[1].Fault.Kind)
		n.close()
	})
}

// TestOneBudgetAModel: requests that name adapters share what their model may retry.
func TestOneBudgetAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{caps: confirms, generate: says("hello", time.Second)})
		n.deps.Router = func(any) {}
		var all []*Response
		for _, name := range []string{"m", "an adapter", "another"} {
			all = append(all, n.submit(&Request{Model: name, LoRA: name}))
		}
		synctest.Wait()
		require.Len(t, n.live.budgets, 1)
		require.Equal(t, 3, n.live.budgets["m"].live)
		for _, r := range all {
			r.Cancel()
		}
		n.quiet()
		require.Empty(t, n.live.budgets)
		n.close()
	})
}
