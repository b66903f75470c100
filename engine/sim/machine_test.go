package sim_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/scoring/prefix"
)

// blockConfig has blocks of 4 tokens, 15 of them usable.
func blockConfig() sim.Config {
	cfg := sim.TinyConfig()
	cfg.BlockTokens, cfg.KVBlocks, cfg.ContextTokens = 4, 16, 64
	return cfg
}

func TestRefusals(t *testing.T) {
	cfg := blockConfig() // the pool (60 tokens) is smaller than the context (64)
	for _, c := range []struct {
		name   string
		change func(*sim.Submit)
		kind   engine.FailKind
		status int
		says   string
	}{
		{"no prompt", func(s *sim.Submit) { s.PromptTokens = nil }, engine.Client, 400, "empty"},
		{"prompt fills the sequence", func(s *sim.Submit) { s.PromptTokens = prompt(60, 1, 1000) }, engine.Client, 400, "the prompt of 60"},
		{"unknown ID", func(s *sim.Submit) { s.PromptTokens[3] = 1000 }, engine.Client, 400, "token ID 1000"},
		{"no tokens", func(s *sim.Submit) { s.MaxTokens = 0 }, engine.Client, 400, "max_tokens is 0"},
		{"min above max", func(s *sim.Submit) { s.MinTokens = 6 }, engine.Client, 400, "min_tokens is 6, max_tokens 5"},
		{"negative min", func(s *sim.Submit) { s.MinTokens = -1 }, engine.Client, 400, "min_tokens"},
		{"alternatives", func(s *sim.Submit) { s.TopLogprobs = ptr(21) }, engine.Client, 400, "at most 20"},
		{"adapter", func(s *sim.Submit) { s.LoRA = "x" }, engine.Operator, 404, "\"x\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDriver(t, cfg, hashSource)
			s := ask("a", prompt(10, 1, 1000), 5)
			c.change(&s)
			d.step(s)
			f := d.of("a").failure
			require.NotNil(t, f)
			require.Equal(t, c.kind, f.Kind)
			require.Equal(t, c.status, f.Status)
			require.Contains(t, f.Message, c.says)
			require.True(t, f.FromEngine)
			require.False(t, d.pass(), "nothing runs")
		})
	}
}

func TestLongestSequenceFits(t *testing.T) {
	d := newDriver(t, blockConfig(), hashSource)
	d.step(ask("a", prompt(59, 1, 1000), 1000))
	d.step(ask("b", prompt(1, 1, 1000), 1000))
	d.drain()
	require.Len(t, d.of("a").ids, 1)
	require.Len(t, d.of("b").ids, 59)
	require.Equal(t, engine.FinishLength, *d.of("b").finish)
}

func TestTooManyWaiting(t *testing.T) {
	cfg := blockConfig()
	cfg.Seats, cfg.WaitingMax = 1, 2
	d := newDriver(t, cfg, hashSource)
	for i := range 4 {
		d.step(ask(strconv.Itoa(i), prompt(8, 1, 1000), 5))
	}
	require.Equal(t, engine.Shed, d.of("3").failure.Kind)
	require.Equal(t, 503, d.of("3").failure.Status)
	require.Equal(t, sim.Status{Alive: true, Life: 1, Running: 1, Waiting: 2, UsedBlocks: 2, CachedBlocks: 2, Steps: 1}, d.m.Status())
	d.step(ask("0", prompt(8, 1, 1000), 5))
	require.Nil(t, d.of("1").failure)
	require.Equal(t, engine.Client, d.of("0").failure.Kind, "an ID in use")
}

// A prompt beyond the budget takes several passes; who decodes meanwhile gets a token in each of them.
func TestChunkedPrefill(t *testing.T) {
	cfg := sim.TinyConfig()
	cfg.Seats, cfg.BatchTokens = 8, 100
	d := newDriver(t, cfg, hashSource)
	d.step(ask("short", prompt(10, 1, 1000), 20))
	d.pass()
	d.step(ask("long", prompt(450, 2, 1000), 3))
	for pass := range 6 {
		require.Len(t, d.of("short").ids, 1+pass)
		require.Empty(t, d.of("long").ids, "99 tokens a pass")
		d.pass()
	}
	require.Len(t, d.of("long").ids, 1)
	stores := 0
	for _, e := range d.kv {
		if e.Kind == prefix.Stored && len(e.Hashes) > 1 {
			stores++
			require.Equal(t, stores > 1, e.Parent != nil, "each chunk's store names the one before")
		}
	}
	require.Equal(t, 5, stores)
}

func TestSeatsAreTheLimit(t *testing.T) {
	cfg := sim.TinyConfig()
	cfg.Seats = 3
	d := newDriver(t, cfg, hashSource)
	for i := range 5 {
		d.step(ask(strconv.Itoa(i), prompt(10, uint32(i), 1000), 10))
	}
	d.pass()
	require.Equal(t, 3, d.m.Status().Running)
	require.Equal(t, 2, d.m.Status().Waiting)
	d.drain()
	for i := range 5 {
		require.Len(t, d.of(strconv.Itoa(i)).ids, 10)
	}
}

// Two sequences that outgrow the pool: the last admitted gives way, computes its context again, and nobody sees it.
func TestPreemptionByRecompute(t *testing.T) {
	cfg := blockConfig()
	d := newDriver(t, cfg, hashSource)
	first, last := ask("first", prompt(16, 1, 1000), 30), ask("last", prompt(16, 2, 1000), 30)
	d.step(first)
	d.step(last)
	for d.m.Status().Preemptions == 0 {
		require.True(t, d.pass())
	}
	held, ok := d.m.HeldBlocks("last")
	require.True(t, ok)
	require.Zero(t, held, "who waits holds nothing")
	require.EqualValues(t, 1, d.of("last").preemptions)
	d.drain()
	require.Equal(t, d.m.Status().Preemptions, d.of("first").preemptions+d.of("last").preemptions, "each is told")
	for _, s := range []sim.Submit{first, last} {
		want, _ := sim.Answer(cfg, hashSource, s)
		require.Equal(t, want, d.of(s.ID).ids)
		require.Equal(t, 0, *d.of(s.ID).cached, "the first admission's figure stands")
	}
}

// A recorded answer is put out as it is, whatever would be drawn, and a later prompt that goes on from it finds it cached.
func TestRecordedAnswers(t *testing.T) {
	cfg := blockConfig()
	d := newDriver(t, cfg, hashSource)
	answer := prompt(9, 7, 1000)
	r := ask("whole", prompt(8, 1, 1000), 30)
	r.Answer, r.TopLogprobs = answer, new(2)
	d.step(r)
	short := ask("cut", prompt(8, 2, 1000), 4)
	short.Answer = answer
	d.step(short)
	d.drain()
	require.Equal(t, answer, d.of("whole").ids)
	require.Equal(t, engine.FinishStop, *d.of("whole").finish)
	require.Len(t, d.of("whole").logprobs[0].Top, 2)
	require.Equal(t, answer[:4], d.of("cut").ids)
	require.Equal(t, engine.FinishLength, *d.of("cut").finish)

	d.step(ask("next", slices.Concat(prompt(8, 1, 1000), answer, []uint32{1, 2}), 1))
	d.drain()
	require.Equal(t, 16, *d.of("next").cached, "prompt and answer, but for its last token, in whole blocks")

	none := ask("none", prompt(8, 3, 1000), 4)
	none.Answer = []uint32{}
	d.step(none)
	require.Equal(t, "answer", d.of("none").failure.Param)
}

// What a request that was preempted before its first token finds of its own blocks when it comes back is no hit: the
// figure of the first admission stands.
func TestPreemptedPrefillReportsItsFirstHit(t *testing.T) {
	cfg := blockConfig()
	cfg.BatchTokens = 8
	d := newDriver(t, cfg, hashSource)
	d.step(ask("decodes", prompt(16, 1, 1000), 10))
	d.step(ask("prefills", prompt(40, 2, 1000), 2))
	for d.m.Status().Preemptions == 0 {
		require.True(t, d.pass())
	}
	require.Empty(t, d.of("prefills").ids)
	d.drain()
	require.Equal(t, 0, *d.of("prefills").cached)
}

// The blocks of a prefill are hit from when it is scheduled, as the requests that came with it show.
func TestRunningPrefillIsHit(t *testing.T) {
	d := newDriver(t, sim.TinyConfig(), hashSource)
	for i := range 4 {
		d.step(ask(strconv.Itoa(i), append(prompt(160, 1, 1000), uint32(i)), 2))
	}
	d.drain()
	for i, cached := range []int{0, 160, 160, 160} {
		require.Equal(t, cached, *d.of(strconv.Itoa(i)).cached)
	}
}

// After a turn floor((prompt+output-1)/block) blocks stay: the last token was sampled, not computed.
func TestLastTokenIsNeverComputed(t *testing.T) {
	for _, c := range []struct{ prompt, output, blocks int }{
		{10, 1, 0}, {16, 1, 1}, {16, 16, 1}, {16, 17, 2}, {40, 24, 3}, {40, 25, 4}, {70, 40, 6},
	} {
		d := newDriver(t, sim.TinyConfig(), hashSource)
		d.step(ask("a", prompt(c.prompt, 1, 1000), c.output))
		d.drain()
		require.Equal(t, (c.prompt+c.output-1)/16, c.blocks)
		require.Equal(t, c.blocks, d.m.Status().CachedBlocks, "%d in, %d out", c.prompt, c.output)
	}
}

// A prompt of whole blocks computes its last block again, each time as one more copy.
func TestFullHitStoresASecondCopy(t *testing.T) {
	d := newDriver(t, sim.TinyConfig(), hashSource)
	for i, cached := range []int{0, 48, 48} {
		id := strconv.Itoa(i)
		d.step(ask(id, prompt(64, 1, 1000), 1))
		d.drain()
		require.Equal(t, cached, *d.of(id).cached)
	}
	require.Equal(t, 6, d.m.Status().CachedBlocks)
	require.Equal(t, d.kv[1].Hashes, d.kv[2].Hashes)
	require.Equal(t, d.kv[0].Hashes[2], *d.kv[1].Parent)
	require.Equal(t, d.kv[0].Hashes[3], d.kv[1].Hashes[0])
}

func TestNamespacesShareNothing(t *testing.T) {
	cfg := sim.TinyConfig()
	cfg.Adapters = []string{"a", "b"}
	d := newDriver(t, cfg, hashSource)
	for round, cached := range []int{0, 96} {
		for _, space := range [][2]string{{"", ""}, {"a", ""}, {"b", ""}, {"", "s"}, {"a", "s"}, {"", "a"}} {
			s := ask(fmt.Sprint(round, space), prompt(100, 1, 1000), 1)
			s.LoRA, s.Salt = space[0], space[1]
			d.step(s)
			d.drain()
			require.Equal(t, cached, *d.of(s.ID).cached, "%v", space)
		}
	}
}

// What a pass computes is let go of when it is over; what waits, at once.
func TestAbort(t *testing.T) {
	cfg := sim.TinyConfig()
	cfg.Seats = 1
	d := newDriver(t, cfg, hashSource)
	d.step(ask("running", prompt(100, 1, 1000), 100))
	d.step(ask("waiting", prompt(100, 2, 1000), 100))
	d.step(sim.Abort{ID: "waiting"})
	require.True(t, d.of("waiting").aborted)
	d.pass()
	d.step(sim.Abort{ID: "running"})
	require.False(t, d.of("running").aborted)
	require.Positive(t, d.m.Status().UsedBlocks)
	d.pass()
	require.True(t, d.of("running").aborted)
	require.Len(t, d.of("running").ids, 1, "no token after the abort")
	require.Zero(t, d.m.Status().UsedBlocks)
	require.Equal(t, 6, d.m.Status().CachedBlocks, "its full blocks stay in the cache")
	require.False(t, d.pass())
	d.step(sim.Abort{ID: "unknown"})
	require.False(t, d.of("unknown").aborted)
}

func TestResetPrefixCache(t *testing.T) {
	d := newDriver(t, sim.TinyConfig(), hashSource)
	long := ask("a", prompt(100, 1, 1000), 50)
	d.step(long)
	d.pass()
	d.step(sim.ResetPrefixCache{})
	require.Empty(t, d.resets, "not while a pass runs")
	d.pass()
	require.Equal(t, []bool{false}, d.resets, "blocks are in use")
	d.step(sim.ResetPrefixCache{Force: true})
	d.pass()
	require.Equal(t, []bool{false, true}, d.resets)
	require.EqualValues(t, 1, d.m.Status().Preemptions)
	d.drain()
	want, _ := sim.Answer(sim.TinyConfig(), hashSource, long)
	require.Equal(t, want, d.of("a").ids, "the stream goes on unharmed")

	d.kv = nil
	d.step(sim.ResetPrefixCache{})
	require.Equal(t, []bool{false, true, true}, d.resets)
	require.Zero(t, d.m.Status().CachedBlocks)
	require.Empty(t, d.kv, "an idle engine says nothing")
	d.step(ask("b", prompt(100, 1, 1000), 1))
	d.drain()
	require.Equal(t, prefix.Cleared, d.kv[0].Kind, "the next pass says it first")
	require.Equal(t, 0, *d.of("b").cached)
}

func TestKillAndStart(t *testing.T) {
	cfg := sim.TinyConfig()
	cfg.Seats = 1
	d := newDriver(t, cfg, hashSource)
	d.step(ask("running", prompt(100, 1, 1000), 100))
	d.step(ask("waiting", prompt(100, 1, 1000), 100))
	former := *d.running
	d.step(sim.Kill{})
	require.True(t, d.of("running").lost)
	require.True(t, d.of("waiting").lost)
	require.Equal(t, sim.Status{Life: 1}, d.m.Status())
	require.Empty(t, d.m.Snapshot())
	d.step(ask("late", prompt(100, 1, 1000), 1))
	require.Equal(t, engine.Refused, d.of("late").failure.Kind)

	d.step(sim.Start{})
	require.Equal(t, sim.Status{Alive: true, Life: 2}, d.m.Status())
	d.kv = nil
	d.step(ask("new", prompt(100, 1, 1000), 2))
	require.Empty(t, d.m.Step(d.now, sim.StepDone{Step: former.Step}), "a pass of the former life means nothing")
	require.Empty(t, d.of("new").ids)
	d.drain()
	require.Len(t, d.of("new").ids, 2)
	require.Equal(t, 0, *d.of("new").cached)
}

// Engines of different seeds, and lives of one engine, name the same blocks differently.
func TestHashesTellLivesApart(t *testing.T) {
	hash := func(d *driver) uint64 {
		d.kv = nil
		d.step(ask(strconv.Itoa(int(d.m.Status().Life)), prompt(20, 1, 1000), 1))
		d.drain()
		return d.kv[0].Hashes[0]
	}
	cfg := sim.TinyConfig()
	one, same := newDriver(t, cfg, hashSource), newDriver(t, cfg, hashSource)
	cfg.HashSeed++
	other := newDriver(t, cfg, hashSource)
	first := hash(one)
	require.Equal(t, first, hash(same))
	require.NotEqual(t, first, hash(other))
	one.step(sim.Kill{})
	one.step(sim.Start{})
	require.NotEqual(t, first, hash(one))
}

// A snapshot and the events before it tell the same, copies included.
func TestSnapshot(t *testing.T) {
	cfg := blockConfig()
	d := newDriver(t, cfg, hashSource)
	live, fresh := newNaiveIndex(4), newNaiveIndex(4)
	for i := range 12 {
		d.step(ask(strconv.Itoa(i), prompt(16+i%3*4, uint32(i%4), 1000), 3))
		d.drain()
	}
	live.apply(d.kv)
	fresh.apply(d.m.Snapshot())
	for name, copies := range live.copies {
		require.Equal(t, copies, fresh.copies[name])
	}
	require.Len(t, d.m.Snapshot(), d.m.Status().CachedBlocks)
}

func TestTimePasses(t *testing.T) {
	cfg := sim.DefaultConfig()
	d := newDriver(t, cfg, hashSource)
	d.now = time.Hour
	d.step(ask("a", prompt(1000, 1, 1000), 3))
	d.drain()
	want := time.Hour + cfg.Timing.Pass(1000, 0, 0, 0) + cfg.Timing.Pass(0, 0, 1, 1000) + cfg.Timing.Pass(0, 0, 1, 1001)
	require.Equal(t, want, d.now)
}
