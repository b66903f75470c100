package stream

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
)

// TestAnswers says what a client gets of what an engine sends: the deltas of its text, the finish, and whether the engine
// has to be told that it is over.
func TestAnswers(t *testing.T) {
	lost := func(id uint32, n int, text string) engine.Token {
		return engine.Token{ID: id, LostIDs: n, Text: &text}
	}
	bytesOf := func(s string) []uint32 {
		var ids []uint32
		for i := range len(s) {
			ids = append(ids, uint32(s[i]))
		}
		return ids
	}
	for _, c := range []struct {
		name   string
		req    Request
		max    int
		frames []frame
		deltas []string // text of each token
		finish string
		abort  bool
	}{
		{
			name: "the engine's own stop", frames: []frame{text(1, "hi"), tokens(1).finish(engine.FinishStop)},
			deltas: []string{"h", "i"}, finish: "stop after 2",
		},
		{
			name: "the engine's own length, before max_tokens: its context is full", frames: []frame{text(1, "hi").finish(engine.FinishLength)},
			deltas: []string{"h", "i"}, finish: "length after 2",
		},
		{
			name: "an end token counts, ends, and has no text", frames: []frame{tokens(1, 'a', idEOS)},
			deltas: []string{"a", ""}, finish: "stop after 2",
		},
		{
			name: "any of the end tokens", frames: []frame{tokens(1, 'a', idEnd2, 'b')}, deltas: []string{"a", ""}, finish: "stop after 2",
		},
		{
			name: "an end token that the engine says is one", frames: []frame{tokens(1, 'a', idEOS).finish(engine.FinishStop)},
			deltas: []string{"a", ""}, finish: "stop after 2",
		},
		{
			name: "ignore_eos takes end tokens as text", req: Request{IgnoreEOS: true}, max: 3,
			frames: []frame{tokens(1, idEOS, 'a', idEnd2)}, deltas: []string{"<eos>", "a", "<end2>"}, finish: "length after 3",
		},
		{
			name: "ignore_eos without special tokens", req: Request{IgnoreEOS: true, SkipSpecialTokens: true}, max: 3,
			frames: []frame{tokens(1, idEOS, 'a', idEnd2)}, deltas: []string{"", "a", ""}, finish: "length after 3",
		},
		{
			name: "an end token before min_tokens ends nothing and has no text", req: Request{MinTokens: 3},
			frames: []frame{tokens(1, idEOS, 'a', idEOS)}, deltas: []string{"", "a", ""}, finish: "stop after 3",
		},
		{
			name: "a stop token ID", req: Request{StopTokenIDs: []uint32{'x', 'y'}}, frames: []frame{tokens(1, 'a', 'y', 'b')},
			deltas: []string{"a", ""}, finish: "stop after 2 at token 121", abort: true,
		},
		{
			name: "a stop token ID ends in spite of ignore_eos", req: Request{StopTokenIDs: []uint32{idEOS}, IgnoreEOS: true},
			frames: []frame{tokens(1, 'a', idEOS)}, deltas: []string{"a", ""}, finish: "stop after 2 at token 300", abort: true,
		},
		{
			name: "a stop token ID that the engine knows", req: Request{StopTokenIDs: []uint32{'x'}},
			frames: []frame{tokens(1, 'x').finish(engine.FinishStop)}, deltas: []string{""}, finish: "stop after 1 at token 120",
		},
		{
			name: "a stop token ID before min_tokens is text", req: Request{StopTokenIDs: []uint32{'x'}, MinTokens: 2},
			frames: []frame{tokens(1, 'x', 'x')}, deltas: []string{"x", ""}, finish: "stop after 2 at token 120", abort: true,
		},
		{
			name: "a stop string within a token", req: Request{Stop: []string{"wo"}}, frames: []frame{tokens(1, 'a', idWord, 'b')},
			deltas: []string{"a", " "}, finish: `stop after 2 at "wo"`, abort: true,
		},
		{
			name: "a stop string over tokens and frames", req: Request{Stop: []string{"END"}},
			frames: []frame{text(1, "aE"), text(1, "N"), text(1, "Db")},
			deltas: []string{"a", "", "", ""}, finish: `stop after 4 at "END"`, abort: true,
		},
		{
			name: "what only looked like a stop string is given back", req: Request{Stop: []string{"END"}}, max: 5,
			frames: []frame{text(1, "ENaEN")}, deltas: []string{"", "", "ENa", "", ""}, finish: `length after 5 with "EN"`,
		},
		{
			name: "include_stop keeps it and holds nothing back", req: Request{Stop: []string{"END"}, IncludeStop: true},
			frames: []frame{text(1, "aENDb")}, deltas: []string{"a", "E", "N", "D"}, finish: `stop after 4 at "END"`, abort: true,
		},
		{
			name: "the first of several stop strings", req: Request{Stop: []string{"cde", "bc"}},
			frames: []frame{text(1, "abcde")}, deltas: []string{"a", "", ""}, finish: `stop after 3 at "bc"`, abort: true,
		},
		{
			name: "a stop string that begins before min_tokens ends nothing", req: Request{Stop: []string{"ab"}, MinTokens: 2},
			frames: []frame{text(1, "abab")}, deltas: []string{"a", "b", "", ""}, finish: `stop after 4 at "ab"`, abort: true,
		},
		{
			name: "a stop string in the engine's last frame aborts nothing", req: Request{Stop: []string{"b"}},
			frames: []frame{text(1, "ab").finish(engine.FinishLength)}, deltas: []string{"a", ""}, finish: `stop after 2 at "b"`,
		},
		{
			name: "max_tokens", max: 2, frames: []frame{text(1, "abc")}, deltas: []string{"a", "b"}, finish: "length after 2",
		},
		{
			name: "an end token at max_tokens is a stop", max: 2, frames: []frame{tokens(1, 'a', idEOS)},
			deltas: []string{"a", ""}, finish: "stop after 2",
		},
		{
			name: "a stop string at max_tokens is a stop", req: Request{Stop: []string{"b"}}, max: 2, frames: []frame{text(1, "ab")},
			deltas: []string{"a", ""}, finish: `stop after 2 at "b"`, abort: true,
		},
		{
			name: "a character over several tokens", frames: []frame{tokens(1, bytesOf("é!")...), tokens(1).finish(engine.FinishStop)},
			deltas: []string{"", "é", "!"}, finish: "stop after 3",
		},
		{
			name: "a character that is never whole comes with the end", frames: []frame{tokens(1, 'a', 0xc3), tokens(1).finish(engine.FinishStop)},
			deltas: []string{"a", ""}, finish: `stop after 2 with "�"`,
		},
		{
			name: "a broken character that completes a stop string at the end", req: Request{Stop: []string{"a�"}},
			frames: []frame{tokens(1, 'a', 0xc3), tokens(1).finish(engine.FinishLength)},
			deltas: []string{"", ""}, finish: `stop after 2 at "a�"`,
		},
		{
			name: "lost IDs count and their text is the engine's",
			frames: []frame{
				{attempt: 1, event: engine.Event{Tokens: []engine.Token{{ID: 'a'}, lost('z', 2, "日z"), {ID: 'b'}}}},
				tokens(1).finish(engine.FinishStop),
			},
			deltas: []string{"a", "日z", "b"}, finish: "stop after 5",
		},
		{
			name: "what was held before lost IDs comes with their text",
			frames: []frame{
				{attempt: 1, event: engine.Event{Tokens: []engine.Token{{ID: 0xc3}, lost('z', 1, "z")}}},
				tokens(1).finish(engine.FinishStop),
			},
			deltas: []string{"", "�z"}, finish: "stop after 3",
		},
		{
			name: "lost IDs reach max_tokens", max: 3,
			frames: []frame{{attempt: 1, event: engine.Event{Tokens: []engine.Token{{ID: 'a'}, lost('z', 1, "yz")}}}},
			deltas: []string{"a", "yz"}, finish: "length after 3",
		},
		{
			name: "a stop string in the text of lost IDs", req: Request{Stop: []string{"日"}},
			frames: []frame{{attempt: 1, event: engine.Event{Tokens: []engine.Token{lost('z', 1, "a日z")}}}},
			deltas: []string{"a"}, finish: `stop after 2 at "日"`, abort: true,
		},
		{
			name: "an answer of nothing", frames: []frame{tokens(1).finish(engine.FinishStop)}, deltas: []string{}, finish: "stop after 0",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.max == 0 {
				c.max = 100
			}
			r := newRig(t, DefaultConfig(), &c.req)
			r.run(c.max, "a")
			deltas, words := []string{}, []string{}
			for _, f := range c.frames {
				f.at = r.now
				effects := r.m.read(f)
				for _, e := range effects {
					if a, ok := e.(*appendLeg); ok {
						for _, entry := range a.entries {
							deltas = append(deltas, entry.Text)
							require.Equal(t, r.now, entry.Stamp)
						}
					}
				}
				words = append(words, r.words(effects)...)
			}
			require.Equal(t, c.deltas, deltas)
			with(t, words, "leg 0: "+c.finish, "ended well")
			if c.abort {
				with(t, words, "a: linger 1", "abort 1")
				require.True(t, r.m.done(), "nobody waits for an engine that was told to stop")
			} else {
				without(t, words, "abort")
				require.False(t, r.m.done(), "the engine's own end is awaited")
			}
			// Whatever the engine sends behind the end is nobody's.
			require.Empty(t, r.do(text(1, "more").finish(engine.FinishStop)))
			if !c.abort {
				with(t, r.do(attemptEnded{attempt: 1}), "a: end 1 finished")
				require.True(t, r.m.done())
			}
		})
	}
}

// TestATokenThatCannotBeRead has the answer go on behind the last one that can: nothing of it, or of what follows it, counts.
func TestATokenThatCannotBeRead(t *testing.T) {
	unread := []string{"a: linger 1", "abort 1"}
	wordless := frame{attempt: 1, event: engine.Event{Tokens: []engine.Token{{ID: 'a'}, {ID: engine.NoTokenID}}}}
	end, again := "finished 1 on a with 1", "submit 2 again begun, leg 0 with 1 of 10 after engine_failed"
	for name, c := range map[string]struct {
		req  Request
		sent frame
		want []string // behind what the token before it does
	}{
		"in the middle":          {Request{}, tokens(1, 'a', idNone, 'b'), []string{end, again}},
		"at the first place":     {Request{}, tokens(1, idNone, 'b'), []string{"failed 1 on a", "submit 2 again, leg 0 not a/1 after engine_failed"}},
		"with a finish":          {Request{}, tokens(1, 'a', idNone).finish(engine.FinishLength), []string{end, again}},
		"of a whole answer":      {Request{Whole: true}, tokens(1, 'a', idNone), []string{end, again}},
		"without an ID":          {Request{}, wordless, []string{end, again}},
		"of one of two answers":  {Request{N: 2}, tokens(1, 'a', idNone), []string{end, again}},
		"where nobody may go on": {Request{Resume: ResumeOff}, tokens(1, 'a', idNone), []string{end, "same_distribution declined with 0", "ended: engine_failed"}},
		"where it would not be exact": {
			Request{Resume: ResumeExact, Sampling: engine.Sampling{PresencePenalty: of(1.0)}},
			tokens(1, 'a', idNone),
			[]string{end, "inexact declined with 0", "ended: engine_failed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), &c.req)
			r.run(10, slices.Repeat([]string{"a"}, max(1, c.req.N))...)
			got := r.do(c.sent)
			with(t, got, slices.Concat(unread, c.want)...)
			without(t, got, "a: attempt failed") // no strike
			produced := 0
			if c.sent.event.Tokens[0].ID == 'a' {
				with(t, got, `leg 0: 1 "a"`)
				produced = 1
			}
			require.Equal(t, produced, r.m.usage().CompletionTokens)
			require.Equal(t, []string{}, r.do(text(1, "more").finish(engine.FinishStop)), "it is no longer listened to")
			require.Equal(t, []string{"a: end 1 cancelled"}, r.do(attemptEnded{1, errCancelled}))
		})
	}
}

// TestATokenThatNobodyCanRead: a replica that gives one at the same place again is not tried for a third time, and a model that wants
// it everywhere ends its answer soon.
func TestATokenThatNobodyCanRead(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(10, "a")
	with(t, r.do(tokens(1, 'a', idNone)), "submit 2 again begun, leg 0 with 1 of 10 after engine_failed")
	r.run(10, "a")
	with(t, r.do(tokens(2, 'b', idNone)), "submit 3 again begun, leg 0 with 2 of 10 after engine_failed")
	r.run(10, "a")
	with(t, r.do(tokens(3, idNone)), "submit 4 again begun, leg 0 with 2 of 10 not a/1 after engine_failed")
	r.run(10, "b")
	with(t, r.do(tokens(4, idNone)), "ended: engine_failed")
	require.True(t, r.m.done())
}

// TestEngineRequest says what an engine is asked for.
func TestEngineRequest(t *testing.T) {
	seed, temperature, top := int64(7), 0.5, 3
	req := &Request{
		N: 2, Input: Input{Tokens: [][]uint32{{1, 2, 3}, {4, 5}}}, MinTokens: 2, StopTokenIDs: []uint32{9}, CacheSalt: "salt",
		TopLogprobs: &top, Sampling: engine.Sampling{Seed: &seed, Temperature: &temperature},
	}
	asked := func(req *Request) []engine.Request {
		r := newRig(t, DefaultConfig(), req)
		p := Placed{Number: 1}
		for i := range 4 {
			place := r.place(i, "a", 10+i)
			place.EngineModel = "their-name"
			p.Placements = append(p.Placements, place)
		}
		var out []engine.Request
		for _, e := range r.m.step(r.now, p) {
			if s, ok := e.(startAttempt); ok {
				out = append(out, s.request)
			}
		}
		return out
	}
	got := asked(req)
	require.Len(t, got, 4)
	for i, want := range []struct {
		prompt []uint32
		seed   int64
	}{{[]uint32{1, 2, 3}, 7}, {[]uint32{1, 2, 3}, 8}, {[]uint32{4, 5}, 7}, {[]uint32{4, 5}, 8}} {
		g := got[i]
		require.Equal(t, want.prompt, g.PromptTokens, "leg %d", i)
		require.Equal(t, want.seed, *g.Sampling.Seed, "leg %d: the answers to one prompt differ by their seed", i)
		require.Equal(t, 10+i, g.MaxTokens)
		require.Equal(t, []uint32{idEOS, idEnd2, 9}, g.EndTokens)
		require.Equal(t, "their-name", g.Model)
		require.Equal(t, temperature, *g.Sampling.Temperature)
		require.Equal(t, 2, g.MinTokens)
		require.Equal(t, &top, g.TopLogprobs)
		require.Equal(t, "salt", g.CacheSalt)
		for j := range i {
			require.NotEqual(t, got[j].ID, g.ID)
		}
	}
	require.Equal(t, int64(7), seed, "the client's own stays as it was")

	req.IgnoreEOS = true
	require.Equal(t, []uint32{9}, asked(req)[0].EndTokens, "an engine that ignores its EOS must not be given it as a stop token")
	req.Sampling.Seed = nil
	require.Nil(t, asked(req)[1].Sampling.Seed)
}

func TestUsage(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{N: 2, Input: Input{Tokens: [][]uint32{{1, 2, 3}, {4, 5}}}, Stop: []string{"!"}})
	require.Equal(t, Usage{PromptTokens: 5}, r.m.usage(), "each prompt once")
	r.run(100, "a", "a", "b", "b")
	r.do(text(2, "x").cached(3)) // a second answer finds the first one's blocks
	require.Equal(t, Usage{PromptTokens: 5, CompletionTokens: 1}, r.m.usage())
	r.do(tokens(1).cached(2))
	require.Equal(t, Usage{PromptTokens: 5, CompletionTokens: 1}, r.m.usage(), "an attempt may fail before its first token")
	r.do(text(1, "yy"))
	require.Equal(t, Usage{PromptTokens: 5, CompletionTokens: 3, CachedTokens: 2, CachedKnown: true}, r.m.usage())
	r.do(text(1, "y").cached(3))
	require.Equal(t, 2, r.m.usage().CachedTokens, "only the first word on it counts")
	r.do(text(3, "z!zz").cached(1))
	require.Equal(t, Usage{PromptTokens: 5, CompletionTokens: 6, CachedTokens: 3, CachedKnown: true}, r.m.usage(),
		"tokens count through the one that completed the stop string")
}

func TestCachedTokensOfAnAttemptThatGaveNothingDoNotCount(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "a")
	r.do(tokens(1).cached(3))
	r.do(attemptEnded{1, failure(engine.Broken)})
	r.run(100, "b")
	r.do(text(2, "x").cached(0))
	require.Equal(t, Usage{PromptTokens: 3, CompletionTokens: 1, CachedTokens: 0, CachedKnown: true}, r.m.usage())
}

func TestCachedTokensOfAnEmptyAnswerCount(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "a")
	r.do(tokens(1).cached(3).finish(engine.FinishStop))
	require.Equal(t, Usage{PromptTokens: 3, CachedTokens: 3, CachedKnown: true}, r.m.usage())
}
