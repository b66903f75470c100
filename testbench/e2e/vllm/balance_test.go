//go:build e2e

package vllm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/e2e/rig"
)

const (
	atOnce = 10
	// learnedFrom is how many chats, one by one, have shown what the engines are like, and learnedRounds how many rounds of ten.
	learnedFrom, learnedRounds = 12, 3
	judgedRounds               = 5
)

// TestTenChatsAtOnce has ten chats come at once to two equal engines that are idle, several times over: each gets four to six of them,
// though what was learned of the two is of different age; and what was predicted of their first tokens came about. Before that chats
// one by one go to both in turn.
func TestTenChatsAtOnce(t *testing.T) {
	folder := modelDir(t)
	a, b := startEngine(t, "a"), startEngine(t, "b", "--enable-scale-out")
	a.await(t)
	b.await(t)
	admin := "127.0.0.1:" + rig.FreePort(t)
	url := rig.StartPlimsoll(
		t, "--tokenizer", folder, "--admin-listen", admin,
		"--replica", fmt.Sprintf("vllm=%s,name=%s,slots=16", a.url, a.name), "--replica", fmt.Sprintf("vllm=%s,name=%s,slots=16,api=auto", b.url, b.name),
	)
	rng := rand.New(rand.NewPCG(1, 2))
	taken := map[string]int{}
	for range learnedFrom {
		taken = add(taken, together(t, url, rng, 1))
	}
	t.Logf("one by one: %v", taken)
	for range learnedRounds {
		together(t, url, rng, atOnce)
	}
	var off []float64
	for range judgedRounds {
		split := together(t, url, rng, atOnce)
		ratios := predictions(t, "http://"+admin, atOnce)
		t.Logf("ten at once: %v; first tokens measured over predicted: %.2f", split, ratios)
		require.InDelta(t, atOnce/2, split[a.name], 1, "%v", split)
		require.InDelta(t, atOnce/2, split[b.name], 1, "%v", split)
		off = append(off, ratios...)
	}
	require.InDelta(t, learnedFrom/2, taken[a.name], learnedFrom/4, "one by one they go to both: %v", taken)
	slices.Sort(off)
	good := 0
	for _, ratio := range off {
		if ratio >= 0.5 && ratio <= 2 {
			good++
		}
	}
	t.Logf("%d of %d first tokens within twice of what was predicted; median %.2f", good, len(off), off[len(off)/2])
	require.GreaterOrEqual(t, good, len(off)*9/10)
}

func add(a, b map[string]int) map[string]int {
	sum := maps.Clone(a)
	for name, n := range b {
		sum[name] += n
	}
	return sum
}

// together sends so many chats at once and says how many each replica answered.
func together(t *testing.T, url string, rng *rand.Rand, n int) map[string]int {
	t.Helper()
	type outcome struct {
		answer rig.Answer
		err    error
	}
	done := make(chan outcome, n)
	for i := range n {
		words := make([]string, 40)
		for w := range words {
			words[w] = []string{"crane", "quay", "pilot", "grain", "lighthouse", "tide", "rope"}[rng.IntN(7)]
		}
		body := rig.ChatOf(model, 60, rig.User(fmt.Sprintf("%d %s", i, strings.Join(words, " "))))
		body.IgnoreEOS = true
		go func() {
			answer, err := rig.Chat(t.Context(), url, body, nil)
			done <- outcome{answer, err}
		}()
	}
	split := map[string]int{}
	for range n {
		o := <-done
		require.NoError(t, o.err)
		split[o.answer.Replica]++
	}
	return split
}

// predictions is, of each of the last n decisions, when the first token came over when it was to come.
func predictions(t *testing.T, admin string, n int) (ratios []float64) {
	t.Helper()
	type course struct {
		FirstTokenSeconds *float64 `json:"first_token_seconds"`
	}
	type told struct {
		Decisions []struct {
			Predicted, Came *course
		}
	}
	var d told
	rig.Eventually(t, 5*time.Second, "all decisions have their outcome", func() bool {
		d = rig.As[told](t, rig.Exchange(t, http.MethodGet, fmt.Sprintf("%s/debug/decisions?limit=%d", admin, n), nil))
		for i := range d.Decisions {
			if came := d.Decisions[i].Came; came == nil || came.FirstTokenSeconds == nil {
				return false
			}
		}
		return len(d.Decisions) == n
	})
	for i := range d.Decisions {
		ratios = append(ratios, *d.Decisions[i].Came.FirstTokenSeconds / *d.Decisions[i].Predicted.FirstTokenSeconds)
	}
	slices.Sort(ratios)
	return ratios
}
