package queue_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring"
	"plimsoll/scoring/queue"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ids(q *queue.Queue[string]) []queue.ID {
	out := []queue.ID{}
	q.Scan(q.Len(), func(e queue.Entry[string]) queue.Visit {
		out = append(out, e.ID)
		return queue.Keep
	})
	return out
}

// TestQueueAgainstList compares a queue with a list that is sorted at every question, and its bounds with sums.
func TestQueueAgainstList(t *testing.T) {
	did := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		cfg := queue.Config{RequestsMax: 5, TokensMax: 100}
		q := queue.New[string](cfg)
		var list []queue.Entry[string]
		tokens := func() (n scoring.Tokens) {
			for _, e := range list {
				n += e.Tokens
			}
			return n
		}
		has := func(id queue.ID) bool {
			return slices.ContainsFunc(list, func(e queue.Entry[string]) bool { return e.ID == id })
		}
		draw := func(t *rapid.T) queue.Entry[string] {
			return queue.Entry[string]{
				ID:      queue.ID(rapid.IntRange(1, 12).Draw(t, "id")),
				Item:    rapid.StringN(0, 3, -1).Draw(t, "item"),
				Tokens:  scoring.Tokens(rapid.IntRange(0, 60).Draw(t, "tokens")),
				Arrival: start.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "arrival")) * time.Second),
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				e := draw(t)
				err := q.Push(e.ID, e.Item, e.Tokens, e.Arrival)
				var full *queue.FullError
				switch {
				case len(list) >= cfg.RequestsMax:
					require.ErrorAs(t, err, &full)
					require.Equal(t, &queue.FullError{Bound: queue.Requests, Max: 5}, full)
					require.ErrorIs(t, err, queue.ErrFull)
					did["too many requests"]++
				case tokens()+e.Tokens > cfg.TokensMax:
					require.ErrorAs(t, err, &full)
					require.Equal(t, &queue.FullError{Bound: queue.Tokens, Max: 100}, full)
					did["too many tokens"]++
				case has(e.ID):
					require.ErrorIs(t, err, queue.ErrDuplicate)
					did["duplicate"]++
				default:
					require.NoError(t, err)
					list = append(list, e)
					did["push"]++
				}
			},
			"push head": func(t *rapid.T) {
				e := draw(t)
				e.Head = true
				err := q.PushHead(e.ID, e.Item, e.Tokens, e.Arrival)
				require.Equal(t, has(e.ID), errors.Is(err, queue.ErrDuplicate))
				if err == nil {
					list = append(list, e)
					did["push head"]++
				}
			},
			"remove": func(t *rapid.T) {
				id := queue.ID(rapid.IntRange(1, 12).Draw(t, "id"))
				e, ok := q.Remove(id)
				require.Equal(t, has(id), ok)
				if ok {
					require.Contains(t, list, e)
					list = slices.DeleteFunc(list, func(e queue.Entry[string]) bool { return e.ID == id })
					did["remove"]++
				}
			},
			"scan": func(t *rapid.T) {
				// A pump takes out what it dispatches; it keeps some, and stops anywhere.
				keepMax := rapid.IntRange(0, 6).Draw(t, "keep at most")
				var seen, want []queue.ID
				order := ids(q)
				kept, taken := 0, map[queue.ID]bool{}
				q.Scan(keepMax, func(e queue.Entry[string]) queue.Visit {
					seen = append(seen, e.ID)
					v := rapid.SampledFrom([]queue.Visit{queue.Keep, queue.Keep, queue.Take, queue.Take, queue.Stop}).Draw(t, "visit")
					switch v {
					case queue.Take:
						taken[e.ID] = true
						did["take"]++
					case queue.Keep:
						kept++
					case queue.Stop:
						kept = keepMax
						did["stop"]++
					}
					if kept == keepMax {
						want = order[:len(seen)]
					}
					return v
				})
				if want == nil && keepMax > 0 {
					want = order
				}
				require.Equal(t, len(want), len(seen), "until enough are kept, or all were seen")
				require.Equal(t, order[:len(seen)], append([]queue.ID{}, seen...))
				list = slices.DeleteFunc(list, func(e queue.Entry[string]) bool { return taken[e.ID] })
			},
			"": func(t *rapid.T) {
				sorted := slices.SortedFunc(slices.Values(list), func(a, b queue.Entry[string]) int {
					for _, before := range []func(x, y queue.Entry[string]) bool{
						func(x, y queue.Entry[string]) bool { return x.Head && !y.Head },
						func(x, y queue.Entry[string]) bool { return x.Arrival.Before(y.Arrival) },
						func(x, y queue.Entry[string]) bool { return x.ID < y.ID },
					} {
						if before(a, b) {
							return -1
						}
						if before(b, a) {
							return 1
						}
					}
					return 0
				})
				want := make([]queue.ID, 0, len(sorted))
				for _, e := range sorted {
					want = append(want, e.ID)
				}
				require.Equal(t, want, ids(q))
				require.Equal(t, len(list), q.Len())
				require.Equal(t, tokens(), q.Tokens())
				first, ok := q.Peek()
				require.Equal(t, len(sorted) > 0, ok)
				if ok {
					require.Equal(t, sorted[0], first)
				}
			},
		})
		for _, id := range ids(q) {
			_, ok := q.Remove(id)
			require.True(t, ok)
		}
		require.Zero(t, q.Len())
		require.Zero(t, q.Tokens())
	})
	t.Log(did)
	for _, op := range []string{"push", "push head", "remove", "duplicate", "too many requests", "too many tokens", "take", "stop"} {
		require.GreaterOrEqual(t, did[op], 20, "too few cases of %q", op)
	}
}

// BenchmarkScanFront takes one request from the front of a long queue and lets one in at its end: a busy router's life.
func BenchmarkScanFront(b *testing.B) {
	q := queue.New[int](queue.Config{RequestsMax: 8192, TokensMax: 1 << 30})
	next := queue.ID(0)
	push := func() {
		next++
		if err := q.Push(next, 0, 1000, start.Add(time.Duration(next))); err != nil {
			b.Fatal(err)
		}
	}
	for range 4096 {
		push()
	}
	b.ReportAllocs()
	for b.Loop() {
		visited := 0
		q.Scan(160, func(queue.Entry[int]) queue.Visit {
			visited++
			if visited == 1 {
				return queue.Take
			}
			return queue.Keep
		})
		push()
	}
}
