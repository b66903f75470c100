package stream

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/tokenizer/chat"
)

// rawRig starts a machine whose prompt the engine renders.
func rawRig(t tester, req *Request) *rig {
	t.Helper()
	req.Input = Input{Chat: &chat.Request{}, ChatBody: json.RawMessage(`{"messages":[1]}`)}
	req.N = max(1, req.N)
	r := newRig(t, DefaultConfig(), req)
	r.do(Encoded{Prompts: []Prompt{{Raw: true, EstimatedTokens: 40}}})
	return r
}

// said is a frame of an answer that the engine reads: a token with its text.
func said(attempt uint64, id uint32, text string) frame {
	return frame{attempt: attempt, event: engine.Event{Tokens: []engine.Token{{ID: id, Text: &text}}}}
}

func (f frame) delta(raw string) frame {
	f.event.ChatDelta = json.RawMessage(raw)
	return f
}

func (f frame) prompt(n int) frame {
	f.event.PromptTokens = &n
	return f
}

// entriesOf are the entries that a step appends.
func entriesOf(effects []effect) []Entry {
	for _, e := range effects {
		if a, ok := e.(*appendLeg); ok {
			return append([]Entry(nil), a.entries...)
		}
	}
	return nil
}

func TestARawPromptGoesToTheEngineAsItCame(t *testing.T) {
	seed := int64(7)
	top := 2
	r := rawRig(t, &Request{
		N: 2, MinTokens: 3, Sampling: engine.Sampling{Seed: &seed}, Stop: []string{"x"}, StopTokenIDs: []uint32{9},
		TopLogprobs: &top, CacheSalt: "salt",
	})
	p := Placed{Number: r.m.asked, Placements: []Placement{r.place(0, "p1", 50), r.place(1, "a", 50)}}
	var requests []engine.Request
	for _, e := range r.m.step(r.now, p) {
		if s, ok := e.(startAttempt); ok {
			requests = append(requests, s.request)
		}
	}
	require.Len(t, requests, 2)
	for i, got := range requests {
		other := seed + int64(i)
		require.Equal(t, engine.Request{
			ID: p.Placements[i].Claim.Ticket.String(), ChatBody: json.RawMessage(`{"messages":[1]}`), MaxTokens: 50, MinTokens: 3,
			Sampling: engine.Sampling{Seed: &other}, TopLogprobs: &top, CacheSalt: "salt",
		}, got)
	}
}

// TestRelayedAnswers says what a client gets of an answer that the engine reads: text, stops and ends are the engine's.
func TestRelayedAnswers(t *testing.T) {
	r := rawRig(t, &Request{Stop: []string{"ll"}, StopTokenIDs: []uint32{idWord}})
	r.run(3, "p1")
	require.Equal(t, 40, r.m.usage().PromptTokens, "the estimate, until the engine says it")

	first := r.m.read(said(1, engine.NoTokenID, "").delta(`{"reasoning":"hm"}`))
	require.Equal(t, []Entry{{ID: engine.NoTokenID, Relayed: true, ChatDelta: json.RawMessage(`{"reasoning":"hm"}`)}}, entriesOf(first))
	got := r.words(first)
	with(t, got, "p1: started 1")
	without(t, got, "first token") // the estimate must teach nobody
	without(t, got, "p1: learned")

	with(t, r.do(said(1, idEOS, "hello")), `leg 0: 1 "hello"`) // neither the stop string nor an end token ends it here
	without(t, r.do(said(1, idWord, "")), "leg 0: stop")

	end := r.do(said(1, idNone, "!").prompt(31).cached(16).finish(engine.FinishToolCalls))
	with(t, end, `leg 0: 1 "!"`, "leg 0: tool calls after 4", "ended well")
	require.Equal(t, Usage{PromptTokens: 31, CompletionTokens: 4, CachedTokens: 16, CachedKnown: true}, r.m.usage())
	got = r.do(attemptEnded{attempt: 1})
	with(t, got, "p1: end 1 finished", "finished 1 on p1 with 4")
	without(t, got, "p1: learned")
	require.True(t, r.m.done())
}

func TestARelayedDeltaStandsBesideTheLastToken(t *testing.T) {
	r := rawRig(t, &Request{})
	r.run(9, "a")
	f := said(1, 5, "")
	f.event.Tokens = append(f.event.Tokens, said(1, 6, "x").event.Tokens...)
	entries := entriesOf(r.m.read(f.delta(`{"tool_calls":[]}`)))
	require.Len(t, entries, 2)
	require.Nil(t, entries[0].ChatDelta)
	require.JSONEq(t, `{"tool_calls":[]}`, string(entries[1].ChatDelta))
	require.Equal(t, "x", entries[1].Text)
}

func TestARelayedAttemptIsTriedElsewhereLikeAnyOther(t *testing.T) {
	r := rawRig(t, &Request{})
	r.run(9, "a")
	with(t, r.do(attemptEnded{1, failure(engine.Broken)}), "submit 2 again, leg 0 not a/1 after engine_failed")
	require.True(t, r.m.prompts[0].Raw, "the engine of the next attempt renders it too")
	r = rawRig(t, &Request{})
	r.run(9, "a")
	with(t, r.do(attemptEnded{1, failure(engine.Client)}), "ended: engine_refused")
}

func TestTheFirstAnswerTellsOfThePrompt(t *testing.T) {
	r := rawRig(t, &Request{N: 2})
	r.run(9, "a", "b")
	r.do(said(2, 1, "x").prompt(99).finish(engine.FinishStop))
	require.Equal(t, 40, r.m.usage().PromptTokens)
	r.do(said(1, 1, "x").prompt(31).finish(engine.FinishLength))
	require.Equal(t, 31, r.m.usage().PromptTokens)
}

// TestALengthThatCannotBeIsNotSaid: of a rendered prompt that is longer than what the replica can hold, or has no token, the
// estimate stands.
func TestALengthThatCannotBeIsNotSaid(t *testing.T) {
	for length, want := range map[int]int{0: 40, 1: 1, 1000: 1000, 1001: 40, math.MaxInt: 40} {
		r := rawRig(t, &Request{})
		r.run(9, "a")
		r.do(said(1, 1, "x").prompt(length))
		require.Equal(t, want, r.m.usage().PromptTokens, length)
	}
}

// TestRelayedAnswersAreWhole: however an engine cuts its answer into frames, the client gets every text and delta once and in
// order, and the books count every token.
func TestRelayedAnswersAreWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rawRig(rt, &Request{Stop: []string{"a"}, StopTokenIDs: []uint32{1}, MinTokens: rapid.IntRange(0, 5).Draw(rt, "min")})
		r.run(4, rapid.SampledFrom([]string{"a", "p"}).Draw(rt, "replica"))
		var text, gotText, deltas, gotDeltas []string
		produced := 0
		for i := range rapid.IntRange(0, 12).Draw(rt, "frames") {
			f := frame{attempt: 1}
			for range rapid.IntRange(1, 3).Draw(rt, "tokens") {
				piece := rapid.SampledFrom([]string{"", "a", "€", "\n", "aa"}).Draw(rt, "text")
				id := rapid.SampledFrom([]uint32{1, idEOS, idBomb, idNone, engine.NoTokenID}).Draw(rt, "id")
				f.event.Tokens = append(f.event.Tokens, engine.Token{ID: id, Text: &piece})
				text = append(text, piece)
				produced++
			}
			if rapid.Bool().Draw(rt, "delta") {
				delta := `{"n":` + strconv.Itoa(i) + `}`
				f, deltas = f.delta(delta), append(deltas, delta)
			}
			for _, e := range entriesOf(r.m.read(f)) {
				require.True(rt, e.Relayed)
				gotText = append(gotText, e.Text)
				if e.ChatDelta != nil {
					gotDeltas = append(gotDeltas, string(e.ChatDelta))
				}
			}
			require.False(rt, r.m.ended, "only the engine ends it")
		}
		reason := rapid.SampledFrom([]engine.FinishReason{engine.FinishStop, engine.FinishLength, engine.FinishToolCalls}).Draw(rt, "reason")
		word := map[engine.FinishReason]string{engine.FinishStop: "stop", engine.FinishLength: "length", engine.FinishToolCalls: "tool calls"}[reason]
		with(rt, r.do(frame{attempt: 1}.finish(reason)), fmt.Sprintf("leg 0: %s after %d", word, produced), "ended well")
		r.do(attemptEnded{attempt: 1})
		require.True(rt, r.m.done())
		require.Equal(rt, text, gotText)
		require.Equal(rt, deltas, gotDeltas)
		require.Equal(rt, Usage{PromptTokens: 40, CompletionTokens: produced}, r.m.usage())
	})
}
