package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/fault"
	"plimsoll/engine"
)

func of[T any](v T) *T { return &v }

// kinds of requests whose answers are broken off, by what is promised of them.
func kinds() map[string]struct {
	sampling engine.Sampling
	class    Class
} {
	type kind = struct {
		sampling engine.Sampling
		class    Class
	}
	return map[string]kind{
		"greedy":            {engine.Sampling{Temperature: of(0.0)}, Exact},
		"greedy and seeded": {engine.Sampling{Temperature: of(0.0), Seed: of(int64(7))}, Exact},
		"greedy with biases and a repetition penalty": {
			engine.Sampling{Temperature: of(0.0), RepetitionPenalty: of(1.2), LogitBias: map[uint32]float64{'c': -100, 'a': 2}}, Exact,
		},
		"greedy with penalties of nothing": {engine.Sampling{Temperature: of(0.0), PresencePenalty: of(0.0), FrequencyPenalty: of(0.0)}, Exact},
		"sampled":                          {engine.Sampling{TopP: of(0.9)}, SameDistribution},
		"sampled with a temperature":       {engine.Sampling{Temperature: of(0.7)}, SameDistribution},
		"seeded":                           {engine.Sampling{Temperature: of(0.7), Seed: of(int64(7))}, Inexact},
		"presence":                         {engine.Sampling{Temperature: of(0.0), PresencePenalty: of(0.5)}, Inexact},
		"frequency":                        {engine.Sampling{FrequencyPenalty: of(-0.5)}, Inexact},
	}
}

func TestClasses(t *testing.T) {
	for name, k := range kinds() {
		require.Equal(t, k.class, classOf(&k.sampling), name)
	}
}

// shapes of requests beside their sampling.
func shapes() map[string]Request {
	return map[string]Request{
		"plain":         {MaxTokens: of(40)},
		"unlimited":     {},
		"stop strings":  {MaxTokens: of(40), Stop: []string{"é word", "cc", "!é"}},
		"stops kept":    {MaxTokens: of(40), Stop: []string{"ab!", "bé"}, IncludeStop: true},
		"a stop token":  {MaxTokens: of(40), StopTokenIDs: []uint32{idWord}, MinTokens: 9},
		"at least some": {MaxTokens: of(40), MinTokens: 25, Stop: []string{"a"}},
		"on and on":     {MaxTokens: of(30), IgnoreEOS: true},
		"logprobs":      {MaxTokens: of(40), TopLogprobs: of(2), CacheSalt: "salt", LoRA: "adapter"},
		"two answers":   {MaxTokens: of(20), N: 2, TopLogprobs: of(0), Stop: []string{"!a"}},
	}
}

// TestKilledAtEveryToken breaks an answer off after each of its tokens, in each way that an engine can do it. What the client
// gets is what its class promises.
func TestKilledAtEveryToken(t *testing.T) {
	ways := map[string]blow{
		"broken": {kind: of(engine.Broken)}, "stalled": {kind: of(engine.Stalled)}, "refused": {kind: of(engine.Refused)},
		"no finish": {}, "aborted": {aborted: true}, "unknown": {unknown: true},
	}
	joints := 0
	for name, k := range kinds() {
		for shape, req := range shapes() {
			req.Sampling = k.sampling
			for _, whole := range []bool{false, true} {
				req.Whole = whole
				for _, frame := range []int{1, 3} {
					s := story{req: req, prompts: [][]uint32{{5, 6, 7}}, source: tongue{12}, frame: frame, room: 90}
					unharmed := s.tell(t)
					require.Nil(t, unharmed.fault)
					for leg := range unharmed.text {
						for at := range len(unharmed.entries[leg]) + 1 {
							for i, how := range sorted(ways) {
								if k.class != Exact && i != at%len(ways) {
									continue // one after the other
								}
								b := ways[how]
								b.after = at
								s.blows = map[[2]int]blow{{leg, 0}: b}
								what := fmt.Sprintf("%s, %s, whole %v, frames of %d, leg %d %s after %d", name, shape, whole, frame, leg, how, at)
								got := s.tell(t)
								checkDelivered(t, &s, &got, k.class, &unharmed, what)
								joints++
							}
						}
					}
				}
			}
		}
	}
	t.Log("joints:", joints)
	require.Greater(t, joints, 10_000)
}

// checkDelivered holds an answer to what its class promises.
func checkDelivered(t tester, s *story, got *told, class Class, unharmed *told, what string) {
	require.Nil(t, got.fault, what)
	require.Zero(t, got.restarts, what)
	checkAttempts(t, s, got, what)
	if class == Exact {
		require.Equal(t, unharmed.text, got.text, what)
		require.Equal(t, unharmed.finishes, got.finishes, what)
		require.Equal(t, unharmed.usage.CompletionTokens, got.usage.CompletionTokens, what)
		for leg := range got.text {
			require.Equal(t, unharmed.ids(leg), got.ids(leg), what)
			if s.req.TopLogprobs != nil {
				require.Equal(t, unharmed.logprobs(leg), got.logprobs(leg), what)
			}
		}
	}
	require.Equal(t, unharmed.usage.PromptTokens, got.usage.PromptTokens, what)
	checkUnbroken(t, s, got, what)
}

// checkAttempts: each attempt was asked for what was left of the answer, and what the client got is what they gave.
func checkAttempts(t tester, s *story, got *told, what string) {
	before := make([][]uint32, len(got.text))
	limits := make([]int, len(got.text))
	tries, cached := make([]int, len(got.text)), make([]int, len(got.text))
	for i, a := range got.attempts {
		l := a.leg
		prompt := s.prompts[l/max(1, s.req.N)]
		require.Equal(t, append(slices.Clone(prompt), before[l]...), a.request.PromptTokens, "%s: attempt %d", what, i)
		if len(before[l]) == 0 {
			limits[l] = a.request.MaxTokens
		}
		require.Equal(t, limits[l]-len(before[l]), a.request.MaxTokens, what)
		require.Equal(t, max(0, s.req.MinTokens-len(before[l])), a.request.MinTokens, what)
		want := s.req.Sampling
		if want.Seed != nil {
			want.Seed = of(*want.Seed + int64(l%max(1, s.req.N)))
		}
		require.Equal(t, want, a.request.Sampling, what)
		require.Equal(t, s.req.TopLogprobs, a.request.TopLogprobs, what)
		require.Equal(t, s.req.CacheSalt, a.request.CacheSalt, what)
		require.Equal(t, s.req.LoRA, a.request.LoRA, what)
		require.Equal(t, s.req.IgnoreEOS, a.request.IgnoreEOS, what)
		require.Equal(t, got.attempts[0].request.EndTokens, a.request.EndTokens, what)
		tries[l]++
		if len(a.gave) > 0 && cached[l] == 0 {
			cached[l] = min(tries[l], len(a.request.PromptTokens)) // as the teller's engines say
		}
		for _, token := range a.gave {
			before[l] = append(before[l], token.ID)
		}
	}
	for l := range got.text {
		ids := got.ids(l)
		require.LessOrEqual(t, len(ids), len(before[l]), what)
		require.Equal(t, before[l][:len(ids)], ids, what)
		if s.req.TopLogprobs != nil {
			for _, e := range got.entries[l] {
				require.NotNil(t, e.Logprob, what)
			}
		}
	}
	completion, hits := 0, 0
	for l := range got.text {
		completion += len(got.ids(l))
		if l%max(1, s.req.N) == 0 {
			hits += cached[l]
		}
	}
	require.Equal(t, completion, got.usage.CompletionTokens, what)
	require.Equal(t, hits, got.usage.CachedTokens, what)
}

// checkUnbroken: the same IDs without a joint read the same, and end the same way.
func checkUnbroken(t tester, s *story, got *told, what string) {
	for l := range got.text {
		req := s.req
		req.N = 1
		r := newRig(t, DefaultConfig(), &req)
		limit := 0
		for _, a := range got.attempts {
			if a.leg == l {
				limit = a.request.MaxTokens
				if len(a.gave) > 0 {
					break
				}
			}
		}
		r.run(limit, "a")
		var text strings.Builder
		finish := ""
		take := func(f frame) {
			f.at = r.now
			for _, e := range r.m.read(f) {
				switch e := e.(type) {
				case *appendLeg:
					for _, entry := range e.entries {
						text.WriteString(entry.Text)
					}
				case finishLeg:
					text.WriteString(e.finish.Text)
					finish = finishWord(e.finish)
				}
			}
		}
		for _, id := range got.ids(l) {
			take(tokens(1, id))
		}
		if finish == "" { // the engine's own end
			require.Contains(t, got.finishes[l], "length", what)
			continue
		}
		require.Equal(t, finish, got.finishes[l], what)
		require.Equal(t, text.String(), got.text[l], what)
	}
}

// TestKilledAgainAndAgain breaks answers off several times at any tokens.
func TestKilledAgainAndAgain(t *testing.T) {
	hits := map[string]int{}
	names, forms := sorted(kinds()), sorted(shapes())
	for range 20 {
		rapid.Check(t, func(t *rapid.T) {
			k := kinds()[rapid.SampledFrom(names).Draw(t, "sampling")]
			req := shapes()[rapid.SampledFrom(forms).Draw(t, "shape")]
			req.Sampling = k.sampling
			s := story{
				req: req, prompts: [][]uint32{{5, 6, 7}, {8, 9}}[:rapid.IntRange(1, 2).Draw(t, "prompts")],
				source: tongue{rapid.IntRange(0, 30).Draw(t, "ends")}, frame: rapid.IntRange(1, 4).Draw(t, "frame"), room: 90,
			}
			unharmed := s.tell(t)
			s.blows = map[[2]int]blow{}
			for leg := range unharmed.text {
				fruitless := 0
				for nth := range rapid.IntRange(0, 7).Draw(t, "blows") {
					b := blow{after: rapid.IntRange(0, 20).Draw(t, "after"), kind: of(engine.Broken)}
					if b.after > 0 {
						fruitless = 0
					} else if fruitless++; fruitless >= 2 {
						break
					}
					s.blows[[2]int{leg, nth}] = b
				}
			}
			got := s.tell(t)
			if len(got.attempts) > len(unharmed.text) {
				hits["broken"]++
			}
			if len(got.attempts) > 2*len(unharmed.text) {
				hits["broken often"]++
			}
			checkDelivered(t, &s, &got, k.class, &unharmed, "")
		})
	}
	t.Log(hits)
	require.Greater(t, hits["broken often"], 500)
}

func sorted[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestPlantedBugsAreFound: the checks above notice what they are for.
func TestPlantedBugsAreFound(t *testing.T) {
	plants := map[string]func(e effect) effect{
		"a journal one short at a full block": func(e effect) effect {
			if s, ok := e.(startAttempt); ok && len(s.request.PromptTokens)%16 == 0 && len(s.request.PromptTokens) > 3 {
				s.request.PromptTokens = s.request.PromptTokens[:len(s.request.PromptTokens)-1]
				return s
			}
			return e
		},
		"max_tokens off by one": func(e effect) effect {
			if s, ok := e.(startAttempt); ok && len(s.request.PromptTokens) > 3 {
				s.request.MaxTokens++
				return s
			}
			return e
		},
		"min_tokens not reduced": func(e effect) effect {
			if s, ok := e.(startAttempt); ok {
				s.request.MinTokens = 25
				return s
			}
			return e
		},
		"biases forgotten": func(e effect) effect {
			if s, ok := e.(startAttempt); ok && len(s.request.PromptTokens) > 3 {
				s.request.Sampling.LogitBias = map[uint32]float64{'a': 3}
				return s
			}
			return e
		},
		"a token told twice": func(e effect) effect {
			if a, ok := e.(*appendLeg); ok && a.usage.CompletionTokens == 9 {
				return &appendLeg{a.leg, append(slices.Clone(a.entries), a.entries[0]), a.usage}
			}
			return e
		},
		"what was held back lost at the joint": func(e effect) effect {
			if a, ok := e.(*appendLeg); ok && a.entries[0].Text == "é" {
				entries := slices.Clone(a.entries)
				entries[0].Text = ""
				return &appendLeg{a.leg, entries, a.usage}
			}
			return e
		},
	}
	for name, plant := range plants {
		require.True(t, found(plant), "%s: nobody noticed", name)
	}
}

// found says whether a planted bug fails the checks at some token of some request.
func found(plant func(effect) effect) bool {
	for _, req := range shapes() {
		req.Sampling = kinds()["greedy"].sampling
		s := story{req: req, prompts: [][]uint32{{5, 6, 7}}, source: tongue{12}, room: 90}
		quiet := &witness{}
		unharmed := s.tell(quiet)
		s.plant = plant
		for at := range len(unharmed.entries[0]) {
			s.blows = map[[2]int]blow{{0, 0}: {after: at, kind: of(engine.Broken)}}
			if quiet.fails(func() {
				got := s.tell(quiet)
				checkDelivered(quiet, &s, &got, Exact, &unharmed, "")
			}) {
				return true
			}
		}
	}
	return false
}

// witness is a test that may fail.
type witness struct{ failed bool }

type failedWitness struct{}

func (*witness) Helper()                 {}
func (w *witness) Errorf(string, ...any) { w.failed = true }
func (w *witness) FailNow()              { panic(failedWitness{}) }

func (w *witness) fails(check func()) (failed bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(failedWitness); !ok {
				panic(r)
			}
			failed = true
		}
	}()
	check()
	return w.failed
}

// TestWhatTheClientWants says, by class and by what the client wants, what becomes of an answer that breaks off.
func TestWhatTheClientWants(t *testing.T) {
	for _, c := range []struct {
		kind   string
		resume Resume
		whole  bool
		want   string
	}{
		{"greedy", ResumeBest, false, "exact resumed"},
		{"greedy", ResumeExact, false, "exact resumed"},
		{"greedy", ResumeOff, false, "exact declined"},
		{"greedy", ResumeOff, true, "exact restarted"},
		{"greedy", ResumeBest, true, "exact resumed"},
		{"sampled", ResumeBest, false, "same_distribution resumed"},
		{"sampled", ResumeExact, false, "same_distribution resumed"},
		{"sampled", ResumeOff, false, "same_distribution declined"},
		{"seeded", ResumeBest, false, "inexact resumed"},
		{"seeded", ResumeExact, false, "inexact declined"},
		{"seeded", ResumeExact, true, "inexact restarted"},
		{"presence", ResumeBest, true, "inexact resumed"},
		{"presence", ResumeExact, false, "inexact declined"},
	} {
		t.Run(fmt.Sprintf("%s %d %v", c.kind, c.resume, c.whole), func(t *testing.T) {
			req := Request{MaxTokens: of(30), Sampling: kinds()[c.kind].sampling, Resume: c.resume, Whole: c.whole, IgnoreEOS: true}
			s := story{req: req, prompts: [][]uint32{{5, 6, 7}}, source: tongue{}, room: 90}
			unharmed := s.tell(t)
			s.blows = map[[2]int]blow{{0, 0}: {after: 11, kind: of(engine.Broken)}}
			got := s.tell(t)
			require.Len(t, got.observed, 1)
			o := got.observed[0]
			require.Equal(t, c.want, o.class.String()+" "+o.outcome.String())
			switch o.outcome {
			case Resumed:
				require.Equal(t, 11, o.carried)
				require.Nil(t, got.fault)
			case Restarted:
				require.Zero(t, o.carried)
				require.Equal(t, 1, got.restarts)
				require.Equal(t, []uint32{5, 6, 7}, got.attempts[1].request.PromptTokens)
				require.Equal(t, 30, got.attempts[1].request.MaxTokens)
				require.Equal(t, unharmed.text, got.text, "a new run of the same request")
				require.Equal(t, unharmed.usage.CompletionTokens, got.usage.CompletionTokens)
			case Declined:
				require.Len(t, got.attempts, 1)
				require.Equal(t, fault.EngineFailed, got.fault.Kind)
				require.Empty(t, got.finishes[0], "never a clean end")
			case GivenUp, Left, NumOutcomes:
				require.Fail(t, "unexpected")
			}
		})
	}
}
