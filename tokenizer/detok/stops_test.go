package detok_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/tokenizer/detok"
)

// stopOracle finds the stop string that is complete first in a whole text, the longest of several.
func stopOracle(text string, stops []string, include bool) (out, matched string, hit bool) {
	end := len(text) + 1
	for _, stop := range stops {
		if at := strings.Index(text, stop); stop != "" && at >= 0 {
			if to := at + len(stop); to < end || to == end && len(stop) > len(matched) {
				end, matched, hit = to, stop, true
			}
		}
	}
	switch {
	case !hit:
		return text, "", false
	case include:
		return text[:end], matched, true
	default:
		return text[:end-len(matched)], matched, true
	}
}

// feed gives pieces to the search as a caller does.
func feed(s *detok.Stops, pieces ...string) (text, matched string, hit bool) {
	var out strings.Builder
	for _, piece := range pieces {
		part, stop, ended := s.Push(piece)
		out.WriteString(part)
		if ended {
			return out.String(), stop, true
		}
	}
	return out.String() + s.Flush(), "", false
}

func TestStops(t *testing.T) {
	for _, test := range []struct {
		name    string
		stops   []string
		include bool
		pieces  []string
		want    []string // what each piece lets out
		matched string
	}{
		{name: "no stop strings", pieces: []string{"a", "b"}, want: []string{"a", "b"}},
		{name: "an empty one is none", stops: []string{""}, pieces: []string{"ab"}, want: []string{"ab"}},
		{name: "held while it may come", stops: []string{"END"}, pieces: []string{"say E", "N", "ough"}, want: []string{"say ", "", "ENough"}},
		{name: "over three pieces", stops: []string{"END"}, pieces: []string{"say E", "N", "D."}, want: []string{"say ", "", ""}, matched: "END"},
		{name: "kept in the text", stops: []string{"END"}, include: true, pieces: []string{"say E", "N", "D."}, want: []string{"say E", "N", "D"}, matched: "END"},
		{name: "complete first counts", stops: []string{"abcd", "bc"}, pieces: []string{"xabcd"}, want: []string{"xa"}, matched: "bc"},
		{name: "longest at the same end", stops: []string{"c", "abc"}, pieces: []string{"xab", "c"}, want: []string{"x", ""}, matched: "abc"},
		{name: "a beginning inside a beginning", stops: []string{"aab"}, pieces: []string{"a", "a", "a", "b"}, want: []string{"", "", "a", ""}, matched: "aab"},
		{name: "characters stay whole", stops: []string{"é"}, pieces: []string{"è", "é"}, want: []string{"è", ""}, matched: "é"},
		{name: "nothing after", stops: []string{"."}, pieces: []string{"a.b", "c."}, want: []string{"a", ""}, matched: "."},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := detok.NewStops(test.stops, test.include)
			matched, hit := "", false
			for i, piece := range test.pieces {
				var out string
				out, matched, hit = s.Push(piece)
				require.Equal(t, test.want[i], out, "piece %d", i)
			}
			require.Equal(t, test.matched, matched)
			require.Equal(t, test.matched != "", hit)
		})
	}
}

func TestStopsDoNotDependOnThePieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]string{"ab", "aé日b", "a\x00👩"}).Draw(t, "alphabet")
		word := rapid.StringOfN(rapid.RuneFrom([]rune(alphabet)), 0, 5, -1)
		stops := rapid.SliceOfN(word, 0, 5).Draw(t, "stops")
		text := rapid.StringOfN(rapid.RuneFrom([]rune(alphabet)), 0, 30, -1).Draw(t, "text")
		include := rapid.Bool().Draw(t, "include")
		wantText, wantStop, wantHit := stopOracle(text, stops, include)

		pieces := cutAtRunes(text, rapid.SliceOfN(rapid.IntRange(1, 4), 31, 31).Draw(t, "lengths"))
		gotText, gotStop, gotHit := feed(detok.NewStops(stops, include), pieces...)
		require.Equal(t, wantText, gotText)
		require.Equal(t, wantStop, gotStop)
		require.Equal(t, wantHit, gotHit)
	})
}

// After each piece nothing is held but what a stop string may begin with, and no more of it than that.
func TestStopsHoldTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 4, -1)
		stops := rapid.SliceOfN(word, 1, 4).Draw(t, "stops")
		s := detok.NewStops(stops, false)
		text, given := "", ""
		for _, piece := range rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 3, -1), 0, 12).Draw(t, "pieces") {
			out, _, hit := s.Push(piece)
			require.True(t, utf8.ValidString(out))
			if hit {
				return
			}
			text += piece
			given += out
			hold := 0
			for _, stop := range stops {
				for n := range len(stop) {
					if strings.HasSuffix(text, stop[:n]) {
						hold = max(hold, n)
					}
				}
			}
			require.Equal(t, text[:len(text)-hold], given)
		}
	})
}

func cutAtRunes(text string, lengths []int) []string {
	var pieces []string
	runes := []rune(text)
	for i := 0; len(runes) > 0; i++ {
		n := min(lengths[i%len(lengths)], len(runes))
		pieces = append(pieces, string(runes[:n]))
		runes = runes[n:]
	}
	return pieces
}

// FuzzStops cuts a text at every place in turn.
func FuzzStops(f *testing.F) {
	f.Add("say END.", "END", "ND", false)
	f.Add("aaab", "aab", "ab", true)
	f.Add("abcx", "abcd", "bc", false)
	f.Add("日本語", "本", "\xe6", false)
	f.Fuzz(func(t *testing.T, text, one, two string, include bool) {
		if len(text) > 200 {
			return
		}
		stops := []string{one, two}
		wantText, wantStop, wantHit := stopOracle(text, stops, include)
		for cut := range len(text) + 1 {
			gotText, gotStop, gotHit := feed(detok.NewStops(stops, include), text[:cut], text[cut:])
			require.Equal(t, wantText, gotText)
			require.Equal(t, wantStop, gotStop)
			require.Equal(t, wantHit, gotHit)
		}
	})
}

func BenchmarkStopsPush(b *testing.B) {
	s := detok.NewStops([]string{"\n\nUser:", "<|end|>", "###"}, false)
	pieces := []string{"The", " crew", " loads", " the", " ship", ".", "\n", " <", "b"}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, _, hit := s.Push(pieces[i%len(pieces)]); hit {
			b.Fatal("no stop string is there")
		}
	}
}
