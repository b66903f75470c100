package quota_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring/quota"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestRequests(t *testing.T) {
	q := quota.New(quota.Limits{RequestsPerMinute: new(3)})
	for range 3 {
		require.Nil(t, q.Admit(start))
	}
	require.Equal(t, &quota.Refusal{Bound: quota.Requests, PerMinute: 3, Wait: 20 * time.Second}, q.Admit(start))
	require.NotNil(t, q.Admit(start.Add(19*time.Second)))
	require.Nil(t, q.Admit(start.Add(20*time.Second)), "what was refused counts for nothing")
	require.NotNil(t, q.Admit(start.Add(20*time.Second)))
}

func TestTokensAreADebt(t *testing.T) {
	q := quota.New(quota.Limits{TokensPerMinute: new(600)})
	require.Nil(t, q.Admit(start))
	q.Charge(start, 2400) // far more than a minute's worth
	r := q.Admit(start)
	require.Equal(t, quota.Tokens, r.Bound)
	require.InDelta(t, 180.1, r.Wait.Seconds(), 1e-6, "1,800 more than there were, at 10 a second, and one token")
	require.NotNil(t, q.Admit(start.Add(180*time.Second)))
	require.Nil(t, q.Admit(start.Add(r.Wait)))
}

func TestNoLimits(t *testing.T) {
	q := quota.New(quota.Limits{})
	require.Nil(t, q)
	for range 1000 {
		require.Nil(t, q.Admit(start))
		q.Charge(start, 1<<30)
	}
	require.Error(t, quota.Limits{TokensPerMinute: new(0)}.Validate())
	require.NoError(t, quota.Limits{RequestsPerMinute: new(1)}.Validate())
}

// TestNobodyGetsMore: whatever is asked and when, what was let in never exceeds a minute's worth at once and the rate after it;
// and who waits as long as it is told is let in.
func TestNobodyGetsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requests, tokens := rapid.IntRange(1, 100).Draw(t, "requests"), rapid.IntRange(1, 5000).Draw(t, "tokens")
		q := quota.New(quota.Limits{RequestsPerMinute: &requests, TokensPerMinute: &tokens})
		now, largest := start, 0
		letIn, charged := 0, 0
		for range 60 {
			r := q.Admit(now)
			minutes := now.Sub(start).Minutes()
			if r == nil {
				letIn++
				cost := rapid.IntRange(0, 3000).Draw(t, "cost")
				q.Charge(now, cost)
				charged += cost
				largest = max(largest, cost)
				require.LessOrEqual(t, float64(letIn), float64(requests)*(1+minutes)+1e-6)
				require.LessOrEqual(t, float64(charged-cost), float64(tokens)*(1+minutes)+1e-6, "let in while there was something")
				now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
				continue
			}
			require.Positive(t, r.Wait)
			now = now.Add(r.Wait + time.Millisecond)
			if again := q.Admit(now); again != nil {
				require.NotEqual(t, r.Bound, again.Bound, "what it waited for is there")
				continue
			}
			letIn++
		}
	})
}
