package stream

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
)

// FuzzFrames cuts an answer into frames in any way: what the client gets does not depend on it.
func FuzzFrames(f *testing.F) {
	f.Add("hello END there", "END", uint64(0b1010), uint8(40), uint8(0), true)
	f.Add("日本\xe6語", "本", uint64(0b11), uint8(9), uint8(2), false)
	f.Add("aabab\xff\xfe", "ab", ^uint64(0), uint8(3), uint8(3), false)
	f.Add("", "", uint64(0), uint8(1), uint8(0), false)
	f.Fuzz(func(t *testing.T, answer, stop string, cuts uint64, most, least uint8, include bool) {
		if len(answer) > 200 || len(stop) > 20 {
			t.Skip("long enough")
		}
		req := Request{Stop: []string{stop}, MinTokens: int(least % 8), IncludeStop: include, StopTokenIDs: []uint32{'z'}}
		run := func(cut func(i int) bool) (entries []Entry, words []string, u Usage) {
			one := req
			r := newRig(t, DefaultConfig(), &one)
			r.run(1+int(most), "a")
			fr := frame{attempt: 1, at: r.now}
			read := func() {
				for _, e := range r.m.read(fr) {
					switch e := e.(type) {
					case *appendLeg:
						entries = append(entries, e.entries...)
					case finishLeg, endResponse, abortAttempt:
						words = append(words, word(e))
					}
				}
				fr.event = engine.Event{}
			}
			for i := range len(answer) {
				fr.event.Tokens = append(fr.event.Tokens, engine.Token{ID: uint32(answer[i])})
				if cut(i) {
					read()
				}
			}
			read()
			fr.event.Finish = &engine.Finish{Reason: engine.FinishStop}
			read()
			return entries, words, r.m.usage()
		}
		entries, words, usage := run(func(i int) bool { return cuts>>(i%64)&1 == 1 })
		singly, wantWords, wantUsage := run(func(int) bool { return true })
		require.Equal(t, singly, entries)
		require.Equal(t, wantWords, words)
		require.Equal(t, wantUsage, usage)
		require.Equal(t, len(entries), usage.CompletionTokens)
		require.LessOrEqual(t, usage.CompletionTokens, 1+int(most))
		require.NotEmpty(t, words, "an answer has one end")
	})
}
