package chaos

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sim"
	"plimsoll/testbench/fakeengine"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/simmodel"
)

func newOracle(t *testing.T) *oracle {
	t.Helper()
	model, err := tokenizer.Load(simmodel.FS(), "embedded", time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, model.Close()) })
	return &oracle{cfg: sim.DefaultConfig(), source: fakeengine.Source(model), model: model}
}

func askOf(class Class, output int) *ask {
	a := newAsk(rand.New(rand.NewPCG(uint64(class), 9)), Traffic{
		PromptTokens: [2]int{300, 300}, OutputTokens: [2]int{output, output}, Mix: map[Class]int{class: 1},
	}, 17)
	return &a
}

// resumed is the answer of engines that went on at the joints.
func (o *oracle) resumed(t *testing.T, a *ask, joints ...int) spoken {
	t.Helper()
	s, err := o.answer(a, nil)
	require.NoError(t, err)
	for _, j := range joints {
		s, err = o.answer(a, s.ids[:j])
		require.NoError(t, err)
	}
	return s
}

func (o *oracle) verdict(t *testing.T, a *ask, legs []told, tokens int, joints ...int) string {
	t.Helper()
	wrong, err := o.check(a, legs, tokens, append(joints, 0))
	require.NoError(t, err)
	return wrong
}

func TestOracleTakesWhatIsRight(t *testing.T) {
	o := newOracle(t)
	for class := range NumClasses {
		t.Run(class.String(), func(t *testing.T) {
			a := askOf(class, 120)
			if class == Stops {
				require.NoError(t, o.chooseStop(a, 0.6))
				require.NotEmpty(t, a.stop)
			}
			for _, joints := range [][]int{{}, {1}, {50}, {3, 77}, {10, 11, 12, 119}} {
				s := o.resumed(t, a, joints...)
				if class.Exact() {
					require.Equal(t, o.resumed(t, a).text, s.text, "a resume changes nothing")
				}
				leg, tokens := told{text: s.text, finish: "length"}, 120
				switch class {
				case Stops:
					at := indexOf(s.text, a.stop)
					leg.text, leg.finish = s.text[:at], "stop"
					for tokens = 1; s.ends[tokens-1] < at+len(a.stop); {
						tokens++
					}
				case Logprobs:
					leg.logprobs = 120
				case Greedy, Whole, Several, Seeded, Unseeded, NumClasses:
				}
				legs := []told{leg}
				if class == Several {
					legs = append(legs, leg)
				}
				require.Empty(t, o.verdict(t, a, legs, tokens*len(legs), joints...), "joints %v", joints)
			}
		})
	}
}

func indexOf(text, part string) int {
	for i := range text {
		if len(text)-i >= len(part) && text[i:i+len(part)] == part {
			return i
		}
	}
	return -1
}

// Whatever is lost, doubled or changed shows, in sampled answers too.
func TestOracleSeesWhatIsWrong(t *testing.T) {
	o := newOracle(t)
	for _, class := range []Class{Greedy, Seeded, Unseeded} {
		a := askOf(class, 120)
		s := o.resumed(t, a, 40)
		good := told{text: s.text, finish: "length"}
		cut := s.ends[39]
		lost, doubled := s.ends[40], s.ends[38]
		for name, c := range map[string]struct {
			leg    told
			tokens int
			joints []int
		}{
			"a token lost at the joint":    {told{text: s.text[:cut] + s.text[lost:], finish: "length"}, 120, []int{40}},
			"a token doubled at the joint": {told{text: s.text[:cut] + s.text[doubled:], finish: "length"}, 120, []int{40}},
			"cut short":                    {told{text: s.text[:cut], finish: "length"}, 120, []int{40}},
			"no finish":                    {told{text: s.text}, 120, []int{40}},
			"usage too low":                {good, 119, []int{40}},
			"another's answer":             {told{text: o.resumed(t, askOf(class, 121)).text[1:], finish: "length"}, 120, []int{40}},
		} {
			t.Run(fmt.Sprint(class, " ", name), func(t *testing.T) {
				require.NotEmpty(t, o.verdict(t, a, []told{c.leg}, c.tokens, c.joints...))
			})
		}
		if class != Greedy {
			require.Contains(t, o.verdict(t, a, []told{good}, 120), "no engine's that went on", "a joint where no attempt began")
		}
		require.Contains(t, o.verdict(t, a, nil, 120), "0 answers")
	}
	a := askOf(Logprobs, 50)
	require.Contains(t, o.verdict(t, a, []told{{text: o.resumed(t, a).text, finish: "length", logprobs: 49}}, 50), "log probabilities")
}
