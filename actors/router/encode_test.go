package router

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/stream"
	"plimsoll/tokenizer/chat"
)

// TestJobOrder: the shortest first, but a byte costs only a microsecond of age.
func TestJobOrder(t *testing.T) {
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for name, c := range map[string]struct {
		jobs []*job
		want []int // their bytes, as they are taken
	}{
		"the shortest first":                    {[]*job{{bytes: 3000, arrival: at(0)}, {bytes: 10, arrival: at(0)}, {bytes: 200, arrival: at(0)}}, []int{10, 200, 3000}},
		"a long one gives way for a while":      {[]*job{{bytes: 100_000, arrival: at(0)}, {bytes: 10, arrival: at(99)}}, []int{10, 100_000}},
		"and then no more":                      {[]*job{{bytes: 100_000, arrival: at(0)}, {bytes: 10, arrival: at(101)}}, []int{100_000, 10}},
		"of the same length the one that waits": {[]*job{{bytes: 50, arrival: at(7)}, {bytes: 50, arrival: at(1)}}, []int{50, 50}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newJobs(1 << 20)
			for _, j := range c.jobs {
				require.True(t, q.push(j))
			}
			var got []int
			var last time.Time
			for j := q.pop(); j != nil; j = q.pop() {
				require.False(t, j.due().Before(last))
				last = j.due()
				got = append(got, j.bytes)
				require.Equal(t, -1, j.at)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestJobsAgainstList: bound, order and removal against a list that is searched at every question.
func TestJobsAgainstList(t *testing.T) {
	did := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		const bound = 1000
		q := newJobs(bound)
		var list []*job
		bytes := func() (n int) {
			for _, j := range list {
				n += j.bytes
			}
			return n
		}
		drop := func(j *job) { list = slices.DeleteFunc(list, func(k *job) bool { return k == j }) }
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				j := &job{
					bytes:   rapid.IntRange(1, 1200).Draw(t, "bytes"),
					arrival: start.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "us")) * time.Microsecond),
				}
				if rapid.Bool().Draw(t, "owned") {
					j.owner = &stream.Submit{Call: &stream.Call{}, Number: 3}
				}
				fits := len(list) == 0 || bytes()+j.bytes <= bound
				require.Equal(t, fits, q.push(j), "bounded, but a single one is always let in")
				if fits {
					list = append(list, j)
					did["pushed"]++
				} else {
					did["refused"]++
				}
			},
			"pop": func(t *rapid.T) {
				j := q.pop()
				require.Equal(t, len(list) == 0, j == nil)
				if j == nil {
					return
				}
				for _, other := range list {
					require.False(t, other.due().Before(j.due()))
				}
				drop(j)
				did["popped"]++
			},
			"remove": func(t *rapid.T) {
				if len(list) == 0 {
					t.Skip("empty")
				}
				j := rapid.SampledFrom(list).Draw(t, "job")
				number := rapid.SampledFrom([]uint64{0, 3, 4}).Draw(t, "number")
				if j.owner == nil {
					require.False(t, q.remove(&stream.Call{}, number))
					return
				}
				require.Equal(t, number != 4, q.remove(j.owner.Call, number))
				if number != 4 {
					drop(j)
					did["removed"]++
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, bytes(), q.bytes)
				require.Equal(t, len(list), q.heap.Len())
			},
		})
	})
	t.Log(did)
	for _, what := range []string{"pushed", "refused", "popped", "removed"} {
		require.GreaterOrEqual(t, did[what], 50, what)
	}
}

// TestInputBytes: all that an input holds counts, and something for each.
func TestInputBytes(t *testing.T) {
	least := inputBytes(stream.Input{})
	require.Positive(t, least)
	require.GreaterOrEqual(t, inputBytes(stream.Input{Texts: []string{"abc", "de"}}), least+5)
	require.GreaterOrEqual(t, inputBytes(stream.Input{Tokens: [][]uint32{make([]uint32, 100)}}), least+400)
	part := []byte(`["0123456789"]`)
	all := chat.Request{Messages: part, Tools: part, ToolChoice: part, Documents: part, Kwargs: part, ChatTemplate: part}
	require.GreaterOrEqual(t, inputBytes(stream.Input{Chat: &all}), least+6*len(part))
}

// TestGate: no more slots than there are; who finds it closed is called once after a release, all who wait.
func TestGate(t *testing.T) {
	g := NewGate(2)
	woken := map[string]int{}
	wake := func(who string) func() { return func() { woken[who]++ } }
	require.True(t, g.TryAcquire("a", wake("a")))
	require.True(t, g.TryAcquire("b", wake("b")))
	require.False(t, g.TryAcquire("a", wake("a")))
	require.False(t, g.TryAcquire("a", wake("a")), "who waits twice is called once")
	require.False(t, g.TryAcquire("b", wake("b")))
	require.Zero(t, g.Free())
	g.Release()
	require.Equal(t, map[string]int{"a": 1, "b": 1}, woken)
	require.True(t, g.TryAcquire("b", wake("b")))
	require.False(t, g.TryAcquire("a", wake("a")))
	g.Release()
	require.Equal(t, map[string]int{"a": 2, "b": 1}, woken)
	g.Release()
	require.Equal(t, 2, g.Free())

	j := &job{}
	require.True(t, g.TryAcquire("a", nil))
	for range 3 {
		j.release(g)
	}
	require.Equal(t, 2, g.Free(), "a job gives its slot back once")
}
