package ingress

import (
	"io"
	"math"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/openai"
)

// spelled is a tokenizer of the other family: blanks are ▁, bytes <0xNN>, and the first word of a text loses its blank.
type spelled struct{ bytesTokenizer }

func (spelled) Token(id uint32) (string, bool) {
	return []string{"▁Hull", "<0xE2>", "<0xZZ>", "�", "tide"}[id], true
}

func (spelled) Decode(ids []uint32, _ bool) (string, error) {
	return []string{"Hull", "\ufffd", "\ufffd", "\ufffd", "tide"}[ids[0]], nil
}

func TestBytesOfVocabularies(t *testing.T) {
	v := &vocabulary{tok: spelled{}, skipSpecial: true, known: map[uint32]word{}}
	for id, want := range []string{" Hull", "\xe2", "\ufffd", "\ufffd", "tide"} {
		require.Equal(t, want, string(v.word(uint32(id)).bytes))
	}
	for b := range 256 {
		raw, ok := rawBytes(letterOf(byte(b)))
		require.True(t, ok)
		require.Equal(t, []byte{byte(b)}, raw)
	}
}

func TestAlternativesHoldTheTokenInItsPlace(t *testing.T) {
	top := []engine.RankedToken{{ID: 1, Logprob: -0.1}, {ID: 2, Logprob: -2}}
	ids := func(p piece, most int) (out []uint32) {
		for _, r := range p.ranked(most) {
			out = append(out, r.ID)
		}
		return out
	}
	own := piece{id: 9, logprob: &engine.Logprob{Logprob: -1, Top: top}}
	require.Equal(t, []uint32{1, 9}, ids(own, 2), "an engine may leave the token itself out")
	require.Equal(t, []uint32{1, 9, 2}, ids(own, 5))
	require.Equal(t, []uint32{1, 2}, ids(piece{id: 2, logprob: &engine.Logprob{Logprob: -2, Top: top}}, 2))
	require.Empty(t, ids(own, 0))
	require.Empty(t, ids(piece{id: 9}, 2))
	require.Equal(t, top, own.logprob.Top, "what the journal holds stays as it is")
}

func TestLogprobsAreFinite(t *testing.T) {
	for given, want := range map[float64]float64{
		math.Inf(-1): openai.LeastLogprob, -1e9: openai.LeastLogprob, -1.5: -1.5, 0: 0, 1e-9: 0, math.Inf(1): 0,
	} {
		require.Equal(t, want, finite(given))
	}
	require.Equal(t, openai.LeastLogprob, finite(math.NaN()))
	require.Equal(t, openai.LeastLogprob, piece{}.own())
}

// TestLostTokens: tokens whose IDs the engine did not send are told with the one that ends them.
func TestLostTokens(t *testing.T) {
	v := newVocabulary(bytesTokenizer{}, &stream.Request{SkipSpecialTokens: true, TopLogprobs: new(int)})
	var a aligner
	done := a.push(&stream.Entry{ID: 'a', Text: "a"}, v)
	done = append(done, a.push(&stream.Entry{ID: 0xac, LostIDs: 2, Text: "€"}, v)...)
	done = append(done, a.end("")...)
	require.Len(t, done, 2)
	require.Equal(t, "€", string(done[1].bytes))
}

// TestBrokenCharactersKeepTheRestInPlace: after a character that is none, tokens have their own text again.
func TestBrokenCharactersKeepTheRestInPlace(t *testing.T) {
	v := newVocabulary(bytesTokenizer{}, &stream.Request{SkipSpecialTokens: true, TopLogprobs: new(int)})
	var a aligner
	var got []string
	take := func(pieces []piece) {
		for _, p := range pieces {
			got = append(got, string(p.bytes))
		}
	}
	for _, e := range []stream.Entry{{ID: 0xe2}, {ID: 0x82}, {ID: 'a', Text: "\ufffda"}, {ID: 'b', Text: "b"}, {ID: idThe, Text: " the"}} {
		take(a.push(&e, v))
	}
	take(a.end(""))
	require.Equal(t, []string{"", "\ufffd", "a", "b", " the"}, got)
}

// TestTextOffsetsAreCharacters of one to four bytes.
func TestTextOffsetsAreCharacters(t *testing.T) {
	var at place
	for i, c := range []string{"a", "é", "€", "🙂"} {
		require.Equal(t, i, at.characters)
		for _, b := range []byte(c) {
			require.Equal(t, i, at.characters)
			at.past([]byte{b})
		}
	}
	require.Equal(t, 4, at.characters)
}

// TestClientThatLeavesInItsBody is gone, not wrong.
func TestClientThatLeavesInItsBody(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *edge, dial func() net.Conn) {
		t.Helper()
		c := dial()
		_, err := io.WriteString(c, "POST "+pathChat+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		synctest.Wait()
		line := logged(t, e.log)[0]
		require.Equal(t, "cancelled", line["outcome"])
		require.EqualValues(t, 499, line["status"])
	})
}

func TestToolChoiceNoneIsServed(t *testing.T) {
	front := newFront(says("x"))
	e := newEdge(t, testConfig(), front)
	require.Equal(t, 200, e.do("POST", pathChat, withMember(pathChat, `"tool_choice":"none"`)).Code)
	require.Equal(t, 200, e.do("POST", pathChat, withMember(pathChat, `"tools":[{}],"tool_choice":"auto"`)).Code)
	require.JSONEq(t, `"auto"`, string(front.submitted()[1].Input.Chat.ToolChoice))
	require.JSONEq(t, `[{}]`, string(front.submitted()[1].Input.Chat.Tools))
}
