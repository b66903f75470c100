package queue_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring"
	"plimsoll/scoring/queue"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func ids[T any](q *queue.Queue[T], now time.Time) []queue.ID {
	out := []queue.ID{}
	q.Scan(now, q.Len()+1, func(e queue.Entry[T]) queue.Visit {
		out = append(out, e.ID)
		return queue.Keep
	})
	return out
}

// config is small enough for its bounds to be reached.
func config() queue.Config {
	return queue.Config{RequestsMax: 1000, TokensMax: 1 << 30, PromoteAfter: 10 * time.Second, PrefillWeight: 1}
}

// TestOrder is the order of the queue, case by case.
func TestOrder(t *testing.T) {
	plain := func(id queue.ID, change func(*queue.Entry[int])) queue.Entry[int] {
		e := queue.Entry[int]{ID: id, Arrival: at(float64(id)), Class: queue.Default, Tenant: "a", Weight: 1, ChargeSeconds: 1}
		change(&e)
		return e
	}
	as := func(*queue.Entry[int]) {}
	for name, c := range map[string]struct {
		entries []queue.Entry[int]
		heads   map[queue.ID]time.Time
		now     time.Time
		want    []queue.ID
	}{
		"by arrival": {
			entries: []queue.Entry[int]{plain(2, as), plain(1, as), plain(3, as)},
			want:    []queue.ID{1, 2, 3},
		},
		"a long prompt lets short ones pass that come while it would prefill, and no later ones": {
			entries: []queue.Entry[int]{plain(1, func(e *queue.Entry[int]) { e.PrefillSeconds = 2.5 }), plain(2, as), plain(3, as), plain(4, as)},
			want:    []queue.ID{2, 3, 1, 4},
		},
		"the lower class first": {
			entries: []queue.Entry[int]{plain(1, func(e *queue.Entry[int]) { e.Class = queue.Flex }), plain(2, as), plain(3, func(e *queue.Entry[int]) { e.Class = queue.Priority })},
			want:    []queue.ID{3, 2, 1},
		},
		"who has waited for 10 s stands in the class above": {
			entries: []queue.Entry[int]{plain(1, func(e *queue.Entry[int]) { e.Class = queue.Flex }), plain(2, as)},
			now:     at(11),
			want:    []queue.ID{1, 2},
		},
		"and for 20 s in the one above that": {
			entries: []queue.Entry[int]{plain(1, func(e *queue.Entry[int]) { e.Class = queue.Flex }), plain(20, func(e *queue.Entry[int]) { e.Class = queue.Priority }), plain(3, as)},
			now:     at(21.5),
			want:    []queue.ID{1, 3, 20},
		},
		"the head of a class goes before the rest of it, by its place": {
			entries: []queue.Entry[int]{plain(1, as), plain(5, as), plain(6, as), plain(7, func(e *queue.Entry[int]) { e.Class = queue.Priority })},
			heads:   map[queue.ID]time.Time{5: at(9), 6: at(8)},
			want:    []queue.ID{7, 6, 5, 1},
		},
		"tenants take turns by what they are charged": {
			entries: []queue.Entry[int]{
				plain(1, as), plain(2, as), plain(3, as),
				plain(4, func(e *queue.Entry[int]) { e.Tenant = "b" }), plain(5, func(e *queue.Entry[int]) { e.Tenant = "b" }),
			},
			want: []queue.ID{1, 4, 2, 5, 3},
		},
		"by their weights": {
			entries: []queue.Entry[int]{
				plain(1, as), plain(2, as),
				plain(4, func(e *queue.Entry[int]) { e.Tenant, e.Weight = "b", 2 }), plain(5, func(e *queue.Entry[int]) { e.Tenant, e.Weight = "b", 2 }),
				plain(6, func(e *queue.Entry[int]) { e.Tenant, e.Weight = "b", 2 }),
			},
			want: []queue.ID{1, 4, 5, 2, 6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := queue.New[int](config())
			for _, e := range c.entries {
				if place, ok := c.heads[e.ID]; ok {
					require.NoError(t, q.PushHead(e, place))
				} else {
					require.NoError(t, q.Push(e))
				}
			}
			now := c.now
			if now.IsZero() {
				now = start
			}
			require.Equal(t, c.want, ids(q, now))
		})
	}
}

// TestChargedIsWhatWasTaken: a tenant pays for what it got, not for what did not fit or was turned away, nor for what came back to the
// head.
func TestChargedIsWhatWasTaken(t *testing.T) {
	q := queue.New[int](config())
	push := func(id queue.ID, tenant string, charge float64) {
		require.NoError(t, q.Push(queue.Entry[int]{ID: id, Arrival: at(float64(id)), Tenant: tenant, Weight: 1, ChargeSeconds: charge}))
	}
	push(1, "a", 10) // does not fit anywhere
	push(2, "a", 1)
	push(3, "b", 4)
	push(4, "b", 4)
	push(5, "b", 4)
	take := func(ids ...queue.ID) {
		q.Scan(start, q.Len()+1, func(e queue.Entry[int]) queue.Visit {
			if slices.Contains(ids, e.ID) {
				return queue.Take
			}
			return queue.Keep
		})
	}
	require.Equal(t, []queue.ID{1, 3, 4, 5, 2}, ids(q, start))
	take(2)
	push(6, "a", 1)
	require.Equal(t, []queue.ID{3, 1, 4, 5, 6}, ids(q, start), "a has had 1 s, not 11")
	require.NoError(t, q.PushHead(queue.Entry[int]{ID: 9, Arrival: at(9), Tenant: "a", Weight: 1, ChargeSeconds: 50}, start))
	take(9)
	require.Equal(t, []queue.ID{3, 1, 4, 5, 6}, ids(q, start))
	q.Scan(start, q.Len()+1, func(e queue.Entry[int]) queue.Visit {
		if e.ID == 3 {
			return queue.Drop
		}
		return queue.Keep
	})
	require.Equal(t, []queue.ID{4, 1, 5, 6}, ids(q, start), "b has had nothing yet")
}

// TestLateTenantHasNoCredit: who had nothing waiting while others were served begins where they stand.
func TestLateTenantHasNoCredit(t *testing.T) {
	q := queue.New[int](config())
	push := func(id queue.ID, tenant string) {
		require.NoError(t, q.Push(queue.Entry[int]{ID: id, Arrival: at(float64(id)), Tenant: tenant, Weight: 1, ChargeSeconds: 1}))
	}
	for id := range queue.ID(20) {
		push(id, "a")
	}
	for range 10 {
		first := true
		q.Scan(start, 1, func(queue.Entry[int]) queue.Visit {
			if !first {
				return queue.Stop
			}
			first = false
			return queue.Take
		})
	}
	for id := range queue.ID(5) {
		push(100+id, "b")
	}
	require.Equal(t, []queue.ID{100, 10, 101, 11, 102, 12}, ids(q, start)[:6], "b takes turns with a at once, and no more than that")
}

// model is the queue as a list that is sorted at every question.
type model struct {
	cfg     queue.Config
	entries []waiting
	tags    map[share]float64
	served  [queue.NumClasses]float64
}

type waiting struct {
	queue.Entry[string]

	head  bool
	place time.Time
}

type share struct {
	class  queue.Class
	tenant string
}

func (w *waiting) class(m *model, now time.Time) queue.Class {
	up := max(0, now.Sub(w.Arrival)/m.cfg.PromoteAfter)
	return queue.Class(max(0, int(w.Class)-int(up)))
}

// next is who goes next of those that are left. ahead is what tenants would have had besides, if all that were kept had been taken.
func (m *model) next(now time.Time, left []waiting, ahead map[share]float64) waiting {
	tag := func(w *waiting) float64 {
		s := share{w.class(m, now), w.Tenant}
		return m.tags[s] + ahead[s]
	}
	return slices.MinFunc(left, func(a, b waiting) int {
		if c := cmp.Compare(a.class(m, now), b.class(m, now)); c != 0 {
			return c
		}
		if a.head != b.head {
			if a.head {
				return -1
			}
			return 1
		}
		if !a.head && a.Tenant != b.Tenant {
			// Compare the firsts of both tenants by tag; the rest of the order is within one.
			if c := cmp.Compare(tag(&a), tag(&b)); c != 0 {
				return c
			}
		}
		return cmp.Or(a.place.Compare(b.place), cmp.Compare(a.ID, b.ID))
	})
}

// without leaves one out of a list.
func without(list []waiting, id queue.ID) []waiting {
	return slices.DeleteFunc(list, func(w waiting) bool { return w.ID == id })
}

// order sorts by asking each time who goes next: the definition, not an algorithm.
func (m *model) order(now time.Time) []waiting {
	left := slices.Clone(m.entries)
	ahead := map[share]float64{}
	var out []waiting
	for len(left) > 0 {
		best := m.next(now, left, ahead)
		out = append(out, best)
		left = without(left, best.ID)
		if !best.head {
			ahead[share{best.class(m, now), best.Tenant}] += best.ChargeSeconds / best.Weight
		}
	}
	return out
}

// TestQueueAgainstList compares a queue with the model under all that can be done to it.
func TestQueueAgainstList(t *testing.T) {
	did := map[string]int{}
	for range 5 {
		rapid.Check(t, func(t *rapid.T) { runQueue(t, did) })
	}
	t.Log(did)
	for _, op := range []string{"push", "push head", "remove", "duplicate", "too many requests", "too many tokens", "take", "drop", "stop", "promoted"} {
		require.GreaterOrEqual(t, did[op], 20, "too few cases of %q", op)
	}
}

// runQueue drives a queue and its list.
func runQueue(t *rapid.T, did map[string]int) {
	cfg := queue.Config{RequestsMax: 7, TokensMax: 140, PromoteAfter: 10 * time.Second, PrefillWeight: 0.5}
	q := queue.New[string](cfg)
	m := &model{cfg: cfg, tags: map[share]float64{}}
	now := start
	tokens := func() (n scoring.Tokens) {
		for _, e := range m.entries {
			n += e.Tokens
		}
		return n
	}
	has := func(id queue.ID) bool {
		return slices.ContainsFunc(m.entries, func(e waiting) bool { return e.ID == id })
	}
	// enter has a tenant begin where the last one served stands, if it had nothing waiting in the class.
	enter := func(s share, but queue.ID) {
		if !slices.ContainsFunc(m.entries, func(e waiting) bool {
			return e.ID != but && !e.head && share{e.class(m, now), e.Tenant} == s
		}) {
			m.tags[s] = max(m.tags[s], m.served[s.class])
		}
	}
	settle := func() {
		if len(m.entries) == 0 {
			clear(m.tags)
			m.served = [queue.NumClasses]float64{}
		}
	}
	draw := func(t *rapid.T) queue.Entry[string] {
		return queue.Entry[string]{
			ID:             queue.ID(rapid.IntRange(1, 14).Draw(t, "id")),
			Item:           rapid.StringN(0, 3, -1).Draw(t, "item"),
			Tokens:         scoring.Tokens(rapid.IntRange(0, 60).Draw(t, "tokens")),
			Arrival:        now.Add(-time.Duration(rapid.IntRange(0, 9).Draw(t, "ago")) * time.Second),
			Class:          rapid.SampledFrom([]queue.Class{queue.Priority, queue.Default, queue.Flex}).Draw(t, "class"),
			Tenant:         rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"),
			Weight:         rapid.SampledFrom([]float64{1, 2}).Draw(t, "weight"),
			PrefillSeconds: float64(rapid.IntRange(0, 4).Draw(t, "prefill")),
			ChargeSeconds:  float64(rapid.IntRange(1, 8).Draw(t, "charge")),
		}
	}
	admit := func(w waiting) {
		if !w.head {
			enter(share{w.class(m, now), w.Tenant}, w.ID)
		}
		m.entries = append(m.entries, w)
	}
	t.Repeat(map[string]func(*rapid.T){
		"push": func(t *rapid.T) {
			e := draw(t)
			err := q.Push(e)
			var full *queue.FullError
			switch {
			case len(m.entries) >= cfg.RequestsMax:
				require.ErrorAs(t, err, &full)
				require.Equal(t, &queue.FullError{Bound: queue.Requests, Max: 7}, full)
				require.ErrorIs(t, err, queue.ErrFull)
				did["too many requests"]++
			case tokens()+e.Tokens > cfg.TokensMax:
				require.ErrorAs(t, err, &full)
				require.Equal(t, &queue.FullError{Bound: queue.Tokens, Max: 140}, full)
				did["too many tokens"]++
			case has(e.ID):
				require.ErrorIs(t, err, queue.ErrDuplicate)
				did["duplicate"]++
			default:
				require.NoError(t, err)
				admit(waiting{Entry: e, place: e.Arrival.Add(time.Duration(0.5 * e.PrefillSeconds * float64(time.Second)))})
				did["push"]++
			}
		},
		"push head": func(t *rapid.T) {
			e := draw(t)
			place := at(float64(rapid.IntRange(0, 5).Draw(t, "place")))
			err := q.PushHead(e, place)
			require.Equal(t, has(e.ID), errors.Is(err, queue.ErrDuplicate))
			if err == nil {
				admit(waiting{Entry: e, head: true, place: place})
				did["push head"]++
			}
		},
		"remove": func(t *rapid.T) {
			id := queue.ID(rapid.IntRange(1, 14).Draw(t, "id"))
			e, ok := q.Remove(id)
			require.Equal(t, has(id), ok)
			if ok {
				i := slices.IndexFunc(m.entries, func(w waiting) bool { return w.ID == id })
				require.Equal(t, m.entries[i].Entry, e)
				m.entries = slices.Delete(m.entries, i, i+1)
				settle()
				did["remove"]++
			}
		},
		"time passes": func(t *rapid.T) {
			// One promotion at a time, at a scan, so that the model's tags follow the same order of events.
			end := now.Add(time.Duration(rapid.IntRange(1, 12).Draw(t, "seconds")) * time.Second)
			for {
				next, who := end.Add(1), -1
				for i := range m.entries {
					e := &m.entries[i]
					for up := 1; up <= int(e.Class); up++ {
						if due := e.Arrival.Add(time.Duration(up) * cfg.PromoteAfter); due.After(now) && due.Before(next) {
							next, who = due, i
						}
					}
				}
				if who < 0 {
					break
				}
				before := slices.Clone(m.entries)
				was := make([]queue.Class, len(before))
				for i := range before {
					was[i] = before[i].class(m, now)
				}
				now = next
				for i := range before {
					e := &before[i]
					if c := e.class(m, now); c != was[i] && !e.head {
						s := share{c, e.Tenant}
						alone := !slices.ContainsFunc(before, func(o waiting) bool {
							j := slices.IndexFunc(before, func(x waiting) bool { return x.ID == o.ID })
							return o.ID != e.ID && !o.head && was[j] == c && o.Tenant == e.Tenant
						})
						if alone {
							m.tags[s] = max(m.tags[s], m.served[c])
						}
						did["promoted"]++
					}
				}
				q.Scan(now, 1, func(queue.Entry[string]) queue.Visit { return queue.Stop })
			}
			now = end
			q.Scan(now, 1, func(queue.Entry[string]) queue.Visit { return queue.Stop })
		},
		"scan": func(t *rapid.T) {
			// A pump takes out what it dispatches; it keeps some, and stops anywhere.
			keepMax := rapid.IntRange(0, 8).Draw(t, "keep at most")
			left := slices.Clone(m.entries)
			ended := keepMax == 0
			kept := 0
			ahead := map[share]float64{}
			q.Scan(now, keepMax, func(e queue.Entry[string]) queue.Visit {
				require.False(t, ended)
				w := m.next(now, left, ahead)
				left = without(left, w.ID)
				require.Equal(t, w.Entry, e)
				s := share{w.class(m, now), w.Tenant}
				v := rapid.SampledFrom([]queue.Visit{queue.Keep, queue.Keep, queue.Take, queue.Take, queue.Drop, queue.Stop}).Draw(t, "visit")
				switch v {
				case queue.Take:
					if !w.head {
						m.served[s.class] = max(m.served[s.class], m.tags[s]+ahead[s])
						m.tags[s] += w.ChargeSeconds / w.Weight
					}
					m.entries = without(m.entries, w.ID)
					did["take"]++
					return v
				case queue.Drop:
					m.entries = without(m.entries, w.ID)
					did["drop"]++
					return v
				case queue.Keep:
					kept++
					ended = kept == keepMax
				case queue.Stop:
					ended = true
					did["stop"]++
				}
				if !w.head {
					ahead[s] += w.ChargeSeconds / w.Weight
				}
				return v
			})
			require.True(t, ended || len(left) == 0, "until enough are kept, or all were seen")
			settle()
		},
		"": func(t *rapid.T) {
			want := []queue.ID{}
			for _, w := range m.order(now) {
				want = append(want, w.ID)
			}
			require.Equal(t, want, ids(q, now))
			require.Equal(t, len(m.entries), q.Len())
			require.Equal(t, tokens(), q.Tokens())
		},
	})
	for _, id := range ids(q, now) {
		_, ok := q.Remove(id)
		require.True(t, ok)
	}
	require.Zero(t, q.Len())
	require.Zero(t, q.Tokens())
}

// TestStandingAndSpan: requests are tried in the order of the classes in which they stand by their age, and the classes that they came
// with are counted.
func TestStandingAndSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config()
		q := queue.New[int](cfg)
		first, last := q.Span()
		require.Greater(t, first, last)
		came := map[queue.ID]queue.Entry[int]{}
		for id := range queue.ID(rapid.IntRange(1, 20).Draw(t, "requests")) {
			e := queue.Entry[int]{
				ID: id, Arrival: at(rapid.Float64Range(0, 60).Draw(t, "arrival")), Class: queue.Class(rapid.IntRange(0, 2).Draw(t, "class")),
				Tenant: "a", Weight: 1, ChargeSeconds: 1,
			}
			came[id] = e
			require.NoError(t, q.Push(e))
		}
		now := at(rapid.Float64Range(0, 90).Draw(t, "now"))
		before := queue.Priority
		q.Scan(now, q.Len()+1, func(e queue.Entry[int]) queue.Visit {
			stands := cfg.Standing(e.Class, e.Arrival, now)
			require.GreaterOrEqual(t, stands, before)
			require.LessOrEqual(t, stands, e.Class)
			before = stands
			if rapid.Bool().Draw(t, "take") {
				delete(came, e.ID)
				return queue.Take
			}
			return queue.Keep
		})
		for id := range queue.ID(20) {
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				delete(came, id)
				q.Remove(id)
			}
		}
		first, last = q.Span()
		if len(came) == 0 {
			require.Greater(t, first, last)
			return
		}
		classes := []queue.Class{}
		for _, e := range came {
			classes = append(classes, e.Class)
		}
		require.Equal(t, [2]queue.Class{slices.Min(classes), slices.Max(classes)}, [2]queue.Class{first, last})
	})
}

// TestFairness: of tenants that always have requests waiting, no two differ in charged seconds ÷ weight by more than twice the
// largest charge ÷ weight, whatever their requests are and wherever one begins.
func TestFairness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := queue.New[int](config())
		tenants := rapid.IntRange(2, 6).Draw(t, "tenants")
		weights := make([]float64, tenants)
		most := 0.0
		next := queue.ID(0)
		push := func(i int) {
			next++
			charge := rapid.Float64Range(0.01, 5).Draw(t, "charge")
			most = max(most, charge/weights[i])
			require.NoError(t, q.Push(queue.Entry[int]{
				ID: next, Item: i, Arrival: start.Add(time.Duration(next)), Class: queue.Default, Tenant: strconv.Itoa(i), Weight: weights[i],
				PrefillSeconds: rapid.Float64Range(0, 3).Draw(t, "prefill"), ChargeSeconds: charge,
			}))
		}
		for i := range weights {
			weights[i] = rapid.SampledFrom([]float64{0.5, 1, 3}).Draw(t, "weight")
			for range 3 {
				push(i)
			}
		}
		got := make([]float64, tenants)
		for range 200 {
			first, of := true, 0
			q.Scan(start, 1, func(e queue.Entry[int]) queue.Visit {
				if !first {
					return queue.Stop
				}
				first, of = false, e.Item
				got[of] += e.ChargeSeconds / e.Weight
				return queue.Take
			})
			push(of)
			require.LessOrEqual(t, slices.Max(got)-slices.Min(got), 2*most)
		}
	})
}

// TestNobodyStarves: whatever comes in classes above, a request is next within its class's age and what stood there before.
func TestNobodyStarves(t *testing.T) {
	q := queue.New[int](config())
	require.NoError(t, q.Push(queue.Entry[int]{ID: 1, Arrival: start, Class: queue.Flex, Tenant: "patient", Weight: 1, ChargeSeconds: 1}))
	served := 0
	for second := 1; ; second++ {
		now := at(float64(second))
		for range 3 {
			served++
			require.NoError(t, q.Push(queue.Entry[int]{
				ID: queue.ID(1 + served), Arrival: now, Class: queue.Priority, Tenant: "busy", Weight: 1, ChargeSeconds: 1,
			}))
		}
		taken := 0
		patient := false
		q.Scan(now, 1, func(e queue.Entry[int]) queue.Visit {
			if taken == 2 { // less than comes in
				return queue.Stop
			}
			taken++
			patient = patient || e.ID == 1
			return queue.Take
		})
		if patient {
			require.LessOrEqual(t, second, 21)
			return
		}
		require.Less(t, second, 100, "it starves")
	}
}

// TestMemoryIsBounded: tenants that have gone and promotions that never came leave nothing.
func TestMemoryIsBounded(t *testing.T) {
	q := queue.New[int](config())
	require.NoError(t, q.Push(queue.Entry[int]{ID: 1, Arrival: at(1e6), Class: queue.Flex, Tenant: "stays", Weight: 1, ChargeSeconds: 1e9}))
	for i := range queue.ID(10000) {
		require.NoError(t, q.Push(queue.Entry[int]{ID: 10 + i, Arrival: start, Class: queue.Flex, Tenant: fmt.Sprint(i), Weight: 1, ChargeSeconds: 1}))
		q.Scan(start, 1, func(e queue.Entry[int]) queue.Visit {
			if e.ID == 1 {
				return queue.Keep
			}
			return queue.Take
		})
	}
	tenants, promotions := q.Remembered()
	require.Less(t, tenants, 2000)
	require.Less(t, promotions, 2000)
}

// BenchmarkScanFront takes one request from the front of a long queue and lets one in at its end: a busy router's life.
func BenchmarkScanFront(b *testing.B) {
	for _, tenants := range []int{1, 16} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			q := queue.New[int](queue.Config{RequestsMax: 8192, TokensMax: 1 << 30, PromoteAfter: time.Hour, PrefillWeight: 1})
			names := make([]string, tenants)
			for i := range names {
				names[i] = strconv.Itoa(i)
			}
			next := queue.ID(0)
			push := func() {
				next++
				err := q.Push(queue.Entry[int]{
					ID: next, Tokens: 1000, Arrival: start.Add(time.Duration(next)), Class: queue.Default, Tenant: names[int(next)%tenants], Weight: 1, ChargeSeconds: 1,
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			for range 4096 {
				push()
			}
			b.ReportAllocs()
			for b.Loop() {
				visited := 0
				q.Scan(start, 160, func(queue.Entry[int]) queue.Visit {
					visited++
					if visited == 1 {
						return queue.Take
					}
					return queue.Keep
				})
				push()
			}
		})
	}
}

// TestTenantsWhoseRequestsAreTakenBackAreForgotten: a tenant whose only request leaves the queue by itself, since its client has left,
// waits no more. Were it counted on, as many tenants of whom nothing waits would be remembered as have ever left.
func TestTenantsWhoseRequestsAreTakenBackAreForgotten(t *testing.T) {
	q := queue.New[int](config())
	require.NoError(t, q.Push(queue.Entry[int]{ID: 1, Arrival: start, Class: queue.Flex, Tenant: "stays", Weight: 1, ChargeSeconds: 1}))
	for i := range queue.ID(10000) {
		require.NoError(t, q.Push(queue.Entry[int]{ID: 10 + i, Arrival: start, Class: queue.Flex, Tenant: fmt.Sprint(i), Weight: 1, ChargeSeconds: 1}))
		_, found := q.Remove(10 + i)
		require.True(t, found)
	}
	tenants, _ := q.Remembered()
	require.LessOrEqual(t, tenants, 1026)
}
