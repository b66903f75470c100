package stream

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/tokenizer/chat"
)

// TestWhatEnginesRefuseAsIfTheyRefusedUsIsTriedOnceMore: it may be one of them that is wrong. Two are right.
func TestWhatEnginesRefuseAsIfTheyRefusedUsIsTriedOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		lora    string
		failure engine.Failure
		fault   string
	}{
		"unauthorized":            {"", engine.Failure{Status: 401}, "engine_failed"},
		"a redirect":              {"", engine.Failure{Status: 307}, "engine_failed"},
		"no such model":           {"", engine.Failure{Status: 404, Missing: true}, "engine_failed"},
		"no such adapter":         {"lora-a", engine.Failure{Status: 404, Missing: true}, "model_not_found"},
		"nothing for an adapter":  {"lora-a", engine.Failure{Status: 404}, "model_not_found"},
		"forbidden to an adapter": {"lora-a", engine.Failure{Status: 403}, "engine_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), &Request{LoRA: c.lora})
			f := c.failure
			f.Kind, f.FromEngine, f.Message = engine.Operator, true, "no"
			r.run(100, "a")
			with(t, r.do(attemptEnded{1, &f}), "a: attempt failed 1 operator", "submit 2 again, leg 0 not a/1 after "+c.fault+" of one that lives")
			r.run(100, "b")
			with(t, r.do(attemptEnded{2, &f}), "b: attempt failed 2 operator", "ended: "+c.fault)
			require.True(t, r.m.done())
		})
	}
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "a")
	r.do(attemptEnded{1, failure(engine.Operator)})
	r.run(100, "b")
	with(t, r.do(attemptEnded{2, failure(engine.Broken)}), "submit 3 again, leg 0 not a/1 not b/1 after engine_failed")
	r.run(100, "c")
	with(t, r.do(text(3, "ab").finish(engine.FinishStop)), "ended well")
}

// TestAnUnfinishedAnswerGoesOnWhereSomebodyServes: its engine lives on as it was, so that nobody waits for another life of it.
func TestAnUnfinishedAnswerGoesOnWhereSomebodyServes(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "p")
	r.do(text(1, "ab"))
	f := &engine.Failure{Kind: engine.Broken, Unfinished: true}
	with(t, r.do(attemptEnded{1, f}), "submit 2 again begun, leg 0 with 2 of 100 not p/1 after engine_failed of one that lives")
	r.run(98, "a")
	with(t, r.do(attemptEnded{2, failure(engine.Broken)}), "submit 3 again begun, leg 0 with 2 of 100 not p/1 not a/1 after engine_failed")
}

// TestLikeness: what fails is told with what it has in common with others: a block of the prompt, or all of it.
func TestLikeness(t *testing.T) {
	of := func(req *Request, prompt Prompt) fleet.Likeness {
		r := newRig(t, DefaultConfig(), req)
		r.m.prompts[0] = prompt
		r.run(100, "a")
		for _, e := range r.m.step(r.now, attemptEnded{1, failure(engine.Operator)}) {
			if e, ok := e.(toReplica); ok {
				if e, ok := e.message.(fleet.AttemptFailed); ok {
					return e.Of
				}
			}
		}
		return fleet.Likeness{}
	}
	ids := func(n int, tail ...uint32) Prompt {
		p := Prompt{}
		for i := range n {
			p.IDs = append(p.IDs, uint32(i)) //nolint:gosec // a small number
		}
		p.IDs = append(p.IDs, tail...)
		return p
	}
	plain := of(&Request{Tenant: "t", LoRA: "x"}, ids(16, 1))
	require.Equal(t, "t", plain.Tenant)
	require.Equal(t, "x", plain.LoRA)
	other := of(&Request{}, ids(16, 2))
	require.Equal(t, plain.Head, other.Head, "the first 16 tokens are a block")
	require.NotEqual(t, plain.Whole, other.Whole)
	require.NotEqual(t, plain.Head, of(&Request{}, ids(15, 99)).Head)
	require.Equal(t, plain.Whole, of(&Request{Tenant: "u"}, ids(16, 1)).Whole)
	require.NotEqual(t, of(&Request{}, ids(0, 7)).Head, of(&Request{}, ids(0, 8)).Head, "prompts shorter than a block")

	raw := func(first, then string) fleet.Likeness {
		messages := `[{"role":"system","content":"` + first + `"},{"role":"user","content":"` + then + `"}]`
		return of(&Request{Input: Input{
			Chat: &chat.Request{Messages: []byte(messages)}, ChatBody: []byte(`{"messages":` + messages + `}`), Tokens: [][]uint32{{1}},
		}}, Prompt{Raw: true, EstimatedTokens: 9})
	}
	long := strings.Repeat("a", headBytes)
	require.Equal(t, raw(long, "x").Head, raw(long, "y").Head)
	require.NotEqual(t, raw(long, "x").Whole, raw(long, "y").Whole)
	require.NotEqual(t, raw("b", "x").Head, raw("c", "x").Head)
}

// TestAMissingAdapterIsNamedAsTheClientNamesIt, without a word of which engine said so.
func TestAMissingAdapterIsNamedAsTheClientNamesIt(t *testing.T) {
	f := faultOf(&engine.Failure{Kind: engine.Operator, Status: 404, Missing: true, Message: "at http://10.0.0.1"}, "lora-a")
	require.Equal(t, fault.ModelNotFound, f.Kind)
	require.Equal(t, "model", f.Param)
	require.Contains(t, f.Message, `"lora-a"`)
	require.NotContains(t, f.Message, "10.0.0.1")
}
