package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// saying is a word of a vLLM server's that has names for its model.
func saying(id scoring.ReplicaID, names ...string) fleet.Word {
	w := fleet.Word{ID: id, Kind: "vllm", Status: engine.Status{Names: names}}
	if len(names) > 0 {
		w.Status.Model = names[0]
	}
	return w
}

// accordOf is the accord of replicas in the order of their list.
func accordOf(ids ...scoring.ReplicaID) *fleet.Accord {
	a := fleet.NewAccord(ids[0])
	for _, id := range ids {
		a.Join(id)
	}
	return a
}

func hear(t *testing.T, a *fleet.Accord, w fleet.Word) fleet.Verdict {
	t.Helper()
	return a.Hear(w, func() { t.Errorf("%s was woken and did not wait", w.ID) })
}

// Whoever speaks first, it is the replica listed first that says what the model is.
func TestTheReplicaListedFirstSaysWhatTheModelIs(t *testing.T) {
	a, woken := accordOf("a", "b"), 0
	v := a.Hear(saying("b", "qwen-32b"), func() { woken++ })
	require.Equal(t, fleet.Verdict{Early: true}, v)
	require.Nil(t, a.Spoken())
	v = hear(t, a, saying("a", "llama-8b"))
	require.Equal(t, &fleet.Spoken{Name: "llama-8b", Names: []string{"llama-8b"}, By: "a"}, v.Settled)
	require.Equal(t, 1, woken)
	require.Equal(t, v.Settled, a.Spoken())
	v = hear(t, a, saying("b", "qwen-32b"))
	require.Contains(t, v.Foreign, `"qwen-32b"`)
	require.Contains(t, v.Foreign, `"llama-8b"`)
	require.Contains(t, v.Foreign, "replica a")
	require.Empty(t, hear(t, a, saying("b", "llama-8b")), "another engine is there now")
}

// A replica that is down holds nobody up, and what the first that speaks has said is kept.
func TestUntilTheFirstSpeaksTheFirstThatSpeaksSaysItAndIsKept(t *testing.T) {
	for name, silent := range map[string]func(*fleet.Accord){
		"it does not answer": func(a *fleet.Accord) { a.Silent("a") },
		"it is gone":         func(a *fleet.Accord) { a.Leave("a") },
		"others have waited": func(a *fleet.Accord) { a.Enough() },
		"it has no name to say": func(a *fleet.Accord) {
			require.Empty(t, a.Hear(saying("a"), func() {}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, woken := accordOf("a", "b", "c"), 0
			for _, id := range []scoring.ReplicaID{"b", "c"} {
				require.True(t, a.Hear(saying(id, "m"), func() { woken++ }).Early)
			}
			a.Silent("b")
			require.Zero(t, woken, "only the first is waited for")
			silent(a)
			require.Equal(t, 2, woken)
			require.Equal(t, scoring.ReplicaID("c"), hear(t, a, saying("c", "m")).Settled.By)
			require.Empty(t, hear(t, a, saying("b", "m")))
			a.Join("a")
			require.Contains(t, hear(t, a, saying("a", "other")).Foreign, `"other"`, "it comes too late")
			a.Leave("c")
			require.Equal(t, "m", a.Spoken().Name, "kept")
		})
	}
}

func TestNamesOfOneModel(t *testing.T) {
	asked := func(w fleet.Word, name string) fleet.Word {
		w.Asked = name
		return w
	}
	a := accordOf("a", "b")
	require.Equal(t, "small", hear(t, a, asked(saying("a", "big", "small"), "small")).Settled.Name, "the operator's word goes first")
	require.Empty(t, hear(t, a, saying("b", "other", "big")), "one name in common is enough")
	require.Contains(t, hear(t, a, saying("b", "other")).Foreign, "say model=other at this replica")
	require.Empty(t, hear(t, a, asked(saying("b", "other"), "other")), "he says that they are the same")
	require.Contains(t, hear(t, a, asked(saying("b", "big"), "other")).Foreign, `serves the model "big" and not "other"`)
	require.Empty(t, hear(t, a, saying("b")), "who says no name contradicts none")

	b := accordOf("a")
	require.NotEmpty(t, hear(t, b, asked(saying("a", "x"), "y")).Foreign)
	require.Nil(t, b.Spoken(), "a replica of another model says nothing of this one")
	require.Equal(t, "y", hear(t, b, saying("b", "y")).Settled.Name)
}

func TestLengthAndVocabularyAreThoseOfOneModel(t *testing.T) {
	with := func(id scoring.ReplicaID, kind string, length, vocabulary *int) fleet.Word {
		w := saying(id, "m")
		w.Kind, w.Status.LengthTokens, w.Status.VocabTokens = kind, length, vocabulary
		return w
	}
	a := accordOf("a", "b", "c")
	require.Empty(t, hear(t, a, with("a", "vllm", nil, nil)).Foreign)
	require.Empty(t, hear(t, a, with("b", "vllm", new(8192), nil)), "whoever says a figure first has said it")
	require.Empty(t, hear(t, a, with("a", "vllm", new(8192), new(32000))))
	require.Empty(t, hear(t, a, with("c", "llamacpp", new(131072), new(32000))), "each kind counts what it calls a length")
	require.Equal(t, "its engine tells a length of the model of 4096 tokens, but that of replica b one of 8192: they serve different models",
		hear(t, a, with("a", "vllm", new(4096), nil)).Foreign)
	require.Contains(t, hear(t, a, with("c", "llamacpp", new(131072), new(32001))).Foreign, "a vocabulary of 32001 tokens")
	require.Empty(t, hear(t, a, with("c", "llamacpp", nil, nil)), "what is not said contradicts nothing")
}

// Two names of one engine would have its cache and its seats counted twice: the one that was there first keeps it.
func TestOneEngineIsNoTwoReplicas(t *testing.T) {
	from := func(id scoring.ReplicaID, process string) fleet.Word {
		w := saying(id, "m")
		w.Status.Process = process
		return w
	}
	a := accordOf("a", "b")
	require.NotNil(t, hear(t, a, from("a", "p1")).Settled)
	require.Contains(t, hear(t, a, from("b", "p1")).Foreign, "that of replica a")
	require.Empty(t, hear(t, a, from("a", "p1")))
	require.Empty(t, hear(t, a, from("b", "p2")), "another engine is there now")
	require.Empty(t, hear(t, a, from("b", "p1")).Settled)
	require.NotEmpty(t, hear(t, a, from("b", "p1")).Foreign)
	a.Down("a")
	require.Empty(t, hear(t, a, from("b", "p1")), "its other name leads nowhere any more")
	require.Empty(t, hear(t, a, from("a", "p1")))
	require.NotEmpty(t, hear(t, a, from("b", "p1")).Foreign)
	a.Leave("a")
	require.Empty(t, hear(t, a, from("b", "p1")))
	require.Empty(t, hear(t, a, from("a", "p1")), "it has left")
	a.Join("c")
	require.Empty(t, hear(t, a, from("c", "")), "nothing tells")

	late := accordOf("a", "b")
	require.True(t, late.Hear(from("b", "p"), func() {}).Early)
	require.NotNil(t, hear(t, late, from("a", "p")).Settled, "the one that has joined first, also if it speaks last")
	require.NotEmpty(t, hear(t, late, from("b", "p")).Foreign)
}
