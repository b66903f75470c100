package prefix_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring/prefix"
)

const (
	auditBlock  = 16
	shortTokens = 2 * auditBlock
)

// feedAudit feeds n equal requests and says how many alarms they raised.
func feedAudit(a *prefix.Audit, n, predicted, reported int) (alarms int) {
	for range n {
		if a.Request(predicted, reported, auditBlock) {
			alarms++
		}
	}
	return alarms
}

// TestAudit: what raises an alarm and what does not.
func TestAudit(t *testing.T) {
	for _, tc := range []struct {
		name                string
		predicted, reported int
		alarm               bool
	}{
		{"all found", 1024, 1024, false},
		{"a block less each time: it was recomputed", 1024, 1008, false},
		{"exactly three quarters", 1024, 768, false},
		{"a little less than three quarters", 1024, 767, true},
		{"nothing found", 1024, 0, true},
		{"short by less than counts, though it is all", shortTokens - 1, 0, false},
		{"more found than predicted: the feed was late", 512, 1024, false},
		{"nothing predicted", 0, 1024, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &prefix.Audit{}
			require.Zero(t, feedAudit(a, prefix.AuditWindow-1, tc.predicted, tc.reported), "before the window is full")
			require.Equal(t, tc.alarm, a.Request(tc.predicted, tc.reported, auditBlock))
		})
	}
}

// TestAuditWantsMany: one request that missed a long prompt raises no alarm however long it was, and a quarter of the requests
// does not either.
func TestAuditWantsMany(t *testing.T) {
	a := &prefix.Audit{}
	require.False(t, a.Request(100_000, 0, auditBlock))
	require.Zero(t, feedAudit(a, 4*prefix.AuditWindow, 64, 64))

	a = &prefix.Audit{}
	require.Zero(t, feedAudit(a, prefix.AuditWindow*3/4, 64, 64))
	require.Zero(t, feedAudit(a, prefix.AuditWindow/4, 1024, 0))
	require.True(t, a.Request(1024, 0, auditBlock), "one more than a quarter")
}

// TestAuditBeginsAnew: an alarm is raised once a window, and the window after it is judged by itself.
func TestAuditBeginsAnew(t *testing.T) {
	a := &prefix.Audit{}
	require.Equal(t, 3, feedAudit(a, 3*prefix.AuditWindow, 1024, 0))
	require.Zero(t, feedAudit(a, prefix.AuditWindow-1, 1024, 0))
	a.Reset()
	require.Zero(t, feedAudit(a, prefix.AuditWindow-1, 1024, 0))
}

// TestAuditAgainstDefinition compares every answer with the rule, applied to all requests since the last alarm.
func TestAuditAgainstDefinition(t *testing.T) {
	did := tally{}
	checkOften(t, func(t *rapid.T) {
		a := &prefix.Audit{}
		type pair struct{ predicted, reported int }
		var since []pair
		for _, r := range rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pair {
			p := rapid.SampledFrom([]int{0, 16, 64, 256, 1024}).Draw(t, "predicted")
			return pair{p, rapid.SampledFrom([]int{0, p / 4, p / 2, p, 2 * p}).Draw(t, "reported")}
		}), 40, 150).Draw(t, "requests") {
			if r.predicted > 0 {
				since = append(since, r)
			}
			last := since[max(0, len(since)-prefix.AuditWindow):]
			predicted, found, short := 0, 0, 0
			for _, r := range last {
				predicted, found = predicted+r.predicted, found+min(r.predicted, r.reported)
				if r.predicted-r.reported >= shortTokens {
					short++
				}
			}
			want := r.predicted > 0 && len(last) == prefix.AuditWindow && 4*short > len(last) && 4*found < 3*predicted
			require.Equal(t, want, a.Request(r.predicted, r.reported, auditBlock))
			if want {
				since = nil
				did["alarm"]++
			} else {
				did["none"]++
			}
		}
	})
	did.require(t, 50, "alarm", "none")
}
