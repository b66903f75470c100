package tokenize

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/stream"
	"plimsoll/tokenizer/chat"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func testConfig() Config {
	cfg := DefaultConfig("m")
	cfg.SliceBytes = 64 << 10
	return cfg
}

// jobOf is a call's input of so many bytes.
func jobOf(tenant string, bytes int, arrival time.Time) *job {
	return &job{tenant: tenant, bytes: bytes, arrival: arrival, owner: &stream.Submit{Call: &stream.Call{}, Number: 1}}
}

// take runs the lanes dry and names the jobs in the order in which they went.
func take(m *machine, now time.Time, lane Lane) []int {
	var got []int
	for j := m.next(now, lane); j != nil; j = m.next(now, lane) {
		got = append(got, j.bytes)
	}
	return got
}

// TestLaneOfAnInput: short ones have their own lane; of longer ones a chat is rendered first, and texts are cut at once.
func TestLaneOfAnInput(t *testing.T) {
	m := newMachine(testConfig())
	lane := func(in stream.Input, bytes int) Lane {
		j := jobOf("a", bytes, start)
		j.input = in
		require.True(t, m.add(start, j))
		return j.lane
	}
	require.Equal(t, Short, lane(stream.Input{Chat: &chat.Request{}}, 64<<10))
	require.Equal(t, Short, lane(stream.Input{Texts: []string{""}}, 64<<10))
	require.Equal(t, Render, lane(stream.Input{Chat: &chat.Request{}}, 65<<10))
	require.Equal(t, Slices, lane(stream.Input{Texts: []string{""}}, 65<<10))
}

// TestOrderOfOneTenant: the shortest first, but a byte costs only a microsecond of age.
func TestOrderOfOneTenant(t *testing.T) {
	for name, c := range map[string]struct {
		jobs []*job
		want []int // their bytes, as they are taken
	}{
		"the shortest first":                    {[]*job{jobOf("a", 3000, at(0)), jobOf("a", 10, at(0)), jobOf("a", 200, at(0))}, []int{10, 200, 3000}},
		"a longer one gives way for a while":    {[]*job{jobOf("a", 60_000, at(0)), jobOf("a", 10, at(59))}, []int{10, 60_000}},
		"and then no more":                      {[]*job{jobOf("a", 60_000, at(0)), jobOf("a", 10, at(61))}, []int{60_000, 10}},
		"of the same length the one that waits": {[]*job{jobOf("a", 50, at(7)), jobOf("a", 51, at(1))}, []int{51, 50}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(testConfig())
			for _, j := range c.jobs {
				require.True(t, m.add(at(100), j))
			}
			require.Equal(t, c.want, take(m, at(100), Short))
			require.False(t, m.waits(Short))
		})
	}
}

// TestTenantsTakeTurns: who has sent twenty long inputs does not delay another's beyond a slice or two.
func TestTenantsTakeTurns(t *testing.T) {
	m := newMachine(testConfig())
	for i := range 20 {
		require.True(t, m.add(at(i), jobOf("flood", 1_000_000+i, at(i))))
	}
	running := m.next(at(20), Slices)
	require.Equal(t, "flood", running.tenant)
	other := jobOf("other", 500_000, at(21))
	require.True(t, m.add(at(21), other))
	turns := []string{}
	for step := range 8 {
		require.True(t, m.ran(at(22+step), running, Slices, 64<<10))
		running = m.next(at(22+step), Slices)
		turns = append(turns, running.tenant)
	}
	n := len(slices.DeleteFunc(turns, func(t string) bool { return t == "flood" }))
	require.GreaterOrEqual(t, n, 3, "half of the slices are the other's")
}

// TestAFullTenantLeavesRoomToOthers: what waits is bounded, and each tenant has its part of it.
func TestAFullTenantLeavesRoomToOthers(t *testing.T) {
	cfg := testConfig()
	cfg.LongBytes = 1_000_000
	m := newMachine(cfg)
	require.True(t, m.add(start, jobOf("a", 2_000_000, start)), "a single one is always let in")
	require.False(t, m.add(start, jobOf("a", 100_000, start)))
	require.True(t, m.add(start, jobOf("a", 50, start)), "short ones have a bound of their own")
	require.True(t, m.add(start, jobOf("b", 400_000, start)), "another tenant has half of it")
	require.False(t, m.add(start, jobOf("b", 200_000, start)), "and no more")
	require.True(t, m.add(start, jobOf("c", 300_000, start)))
	require.False(t, m.add(start, jobOf("c", 100_000, start)))
	for m.next(start, Slices) != nil { //nolint:revive // they begin, and wait no more
	}
	require.True(t, m.add(start, jobOf("a", 900_000, start)))
}

// TestTakenBack: a job that waits is dropped at once, one that runs is not gone on with; of another submission, nothing is.
func TestTakenBack(t *testing.T) {
	m := newMachine(testConfig())
	waits, runs := jobOf("a", 300_000, start), jobOf("a", 200_000, start)
	require.True(t, m.add(start, runs))
	require.Equal(t, runs, m.next(start, Slices))
	require.True(t, m.add(start, waits))
	require.Nil(t, m.withdraw(start, waits.owner.Call, 2))
	require.Nil(t, m.withdraw(start, &stream.Call{}, 0))

	require.Equal(t, waits, m.withdraw(at(5), waits.owner.Call, 1))
	require.Equal(t, 5*time.Millisecond, waits.waited)
	require.Nil(t, m.withdraw(start, waits.owner.Call, 1), "once")
	require.False(t, m.waits(Slices))

	require.Equal(t, runs, m.withdraw(start, runs.owner.Call, 0))
	require.False(t, m.ran(start, runs, Slices, 1000), "its next step is not waited for")
	require.False(t, m.end(runs), "nobody wants what has come of it")
	jobs, bytes := m.held()
	require.Zero(t, jobs)
	require.Zero(t, bytes)
}

// TestSubmittedAgain: the job of a call that submits again, because its router has failed, goes on for the new submission.
func TestSubmittedAgain(t *testing.T) {
	m := newMachine(testConfig())
	j := jobOf("a", 300_000, start)
	require.False(t, m.submitted(j.owner))
	require.True(t, m.add(start, j))
	again := &stream.Submit{Call: j.owner.Call, Number: 2}
	require.True(t, m.submitted(again))
	require.Equal(t, j, m.next(start, Slices))
	require.True(t, m.end(j))
	require.Equal(t, again, j.owner)
	require.False(t, m.submitted(again), "it is over")
}

// TestMachineAgainstList: what waits, runs and is held, against a list that is searched at every question.
func TestMachineAgainstList(t *testing.T) {
	did := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.ShortBytes, cfg.LongBytes = 5_000, 300_000
		m := newMachine(cfg)
		var waiting, running []*job
		now := start
		drop := func(list []*job, j *job) []*job { return slices.DeleteFunc(list, func(k *job) bool { return k == j }) }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				j := jobOf(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"), rapid.IntRange(512, 400_000).Draw(t, "bytes"), now)
				if rapid.Bool().Draw(t, "chat") {
					j.input.Chat = &chat.Request{}
				}
				if rapid.Bool().Draw(t, "bare") {
					j.owner, j.bare = nil, &Tokenize{}
				}
				if m.add(now, j) {
					waiting = append(waiting, j)
					did["added"]++
				} else {
					did["refused"]++
				}
			},
			"direct": func(t *rapid.T) {
				j := jobOf(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"), rapid.IntRange(512, 400_000).Draw(t, "bytes"), now)
				switch {
				case !m.admit(j):
				case m.waits(j.lane):
					m.push(now, j)
					waiting = append(waiting, j)
				default:
					m.direct(j)
					running = append(running, j)
					did["begun at once"]++
				}
			},
			"next": func(t *rapid.T) {
				lane := Lane(rapid.IntRange(0, int(NumLanes)-1).Draw(t, "lane")) //nolint:gosec // small
				var of []*job
				for _, j := range waiting {
					if j.lane == lane {
						of = append(of, j)
					}
				}
				require.Equal(t, len(of) > 0, m.waits(lane))
				j := m.next(now, lane)
				require.Equal(t, len(of) == 0, j == nil)
				if j != nil {
					require.Contains(t, of, j)
					waiting, running = drop(waiting, j), append(running, j)
					did["begun"]++
				}
			},
			"ran": func(t *rapid.T) {
				if len(running) == 0 {
					t.Skip("idle")
				}
				j := rapid.SampledFrom(running).Draw(t, "job")
				running = drop(running, j)
				if rapid.Bool().Draw(t, "over") {
					require.Equal(t, !j.gone, m.end(j))
					did["over"]++
					return
				}
				gone := j.gone
				require.Equal(t, !gone, m.ran(now, j, Slices, 1000))
				if gone {
					require.False(t, m.end(j))
					return
				}
				waiting = append(waiting, j)
				did["went on"]++
			},
			"leave": func(t *rapid.T) {
				list := slices.Concat(waiting, running)
				if len(list) == 0 {
					t.Skip("empty")
				}
				j := rapid.SampledFrom(list).Draw(t, "job")
				var dropped *job
				if j.bare != nil {
					dropped = m.abandon(now, j.bare)
				} else {
					dropped = m.withdraw(now, j.owner.Call, rapid.SampledFrom([]uint64{0, 1}).Draw(t, "number"))
				}
				if slices.Contains(waiting, j) {
					require.Equal(t, j, dropped)
				}
				waiting = drop(waiting, j)
				did["left"]++
			},
			"": func(t *rapid.T) {
				now = now.Add(time.Millisecond)
				jobs, bytes := m.held()
				require.Equal(t, len(waiting)+len(running), jobs)
				want := 0
				for _, j := range waiting {
					if !j.begun {
						want += j.bytes
					}
				}
				require.Equal(t, want, bytes)
				lanes := 0
				for lane := range NumLanes {
					lanes += m.lanes[lane].Len()
				}
				require.Equal(t, len(waiting), lanes)
			},
		})
	})
	t.Log(did)
	for _, what := range []string{"added", "refused", "begun", "begun at once", "over", "went on", "left"} {
		require.GreaterOrEqual(t, did[what], 20, what)
	}
}
