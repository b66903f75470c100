package chaos

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// good is a record in which all held.
func good() (Plan, *Result) {
	hit, twice, gap := 2, 1, time.Second
	p := Plan{Name: "p", Duration: time.Minute, Fleet: Fleet{Engines: 2}, Bounds: Bounds{Hit: &hit, HitTwice: &twice, KillGap: &gap}}
	ms := time.Millisecond
	return p, &Result{
		Plan: "p", Engines: 2, Took: time.Minute,
		Faults: []Struck{{Kind: Kill, Engine: 0, At: 2 * time.Second, Over: 4 * time.Second, Under: 2}, {Kind: Stop, Engine: 1, At: 6 * time.Second, Over: 9 * time.Second, Under: 2}},
		Streams: []Stream{
			{Request: 0, Class: Greedy, Prompt: 300, Tokens: 100, Ended: 9 * time.Second, Attempts: 2},
			{Request: 1, Class: Seeded, Prompt: 300, Tokens: 100, Ended: 9 * time.Second, Attempts: 3},
		},
		Hits: []Hit{
			{Fault: 0, Stream: 0, Giving: true, Gap: 300 * ms},
			{Fault: 0, Stream: 1, Giving: true, Gap: 400 * ms},
			{Fault: 1, Stream: 1, Giving: true, Gap: 1200 * ms, Bound: 1300 * ms},
			{Fault: 1, Stream: 0},
		},
		Attempts: []Attempt{
			{Request: 0, Engine: 0, Life: 1, Began: 1, Ended: 2 * time.Second, End: EndBroken, Status: 200},
			{Request: 0, Engine: 1, Life: 1, Began: 3 * time.Second, Ended: 9 * time.Second, End: EndWhole, Status: 200},
			{Request: 1, Engine: 0, Life: 1, Began: 1, Ended: 2 * time.Second, End: EndBroken, Status: 200},
			{Request: 1, Engine: 1, Life: 1, Began: 3 * time.Second, Ended: 7 * time.Second, End: EndLeft, Status: 200},
			{Request: 1, Engine: 0, Life: 2, Began: 7 * time.Second, Ended: 9 * time.Second, End: EndWhole, Status: 200},
			{Request: -1, Engine: 1, Life: 1, Began: 7 * time.Second},
		},
		Samples: []Sample{
			{At: time.Second, Open: 2, Tokens: 50, Running: []int{1, 1}, States: []string{"ready", "ready"}},
			{At: 3 * time.Second, Open: 2, Tokens: 70, Running: []int{0, 2}, States: []string{"down", "ready"}},
			{At: 10 * time.Second, Running: []int{0, 0}, States: []string{"ready", "ready"}},
		},
		End: Ending{Zero: 20 * ms, Live: time.Second, States: []string{"ready", "ready"}, Index: []string{"live", "partial"}, Predicted: 100, Reported: 100},
	}
}

func broken(p Plan, r *Result) []string {
	var names []string
	for _, v := range Judge(p, r) {
		if !v.Held {
			names = append(names, v.Name)
		}
	}
	return names
}

func TestJudgeGood(t *testing.T) {
	p, r := good()
	require.Empty(t, broken(p, r))
	r.Verdicts = Judge(p, r)
	require.True(t, r.Held())
	require.Contains(t, Summary(r), "PASS")
	require.Contains(t, Summary(r), "2 live streams hit, 1 of them twice or more (3 times in sum, and 1 before their first token) by 2 faults: 1 kill, 1 stop")
}

// Each thing that is wrong is found by the verdict that bears its name, and by no other.
func TestJudgeBad(t *testing.T) {
	for name, spoil := range map[string]func(p *Plan, r *Result){
		"outcome":   func(_ *Plan, r *Result) { r.Streams[1].Error = "error event" },
		"output":    func(_ *Plan, r *Result) { r.Streams[1].Wrong = "a token is missing" },
		"gap kill":  func(_ *Plan, r *Result) { r.Hits[0].Gap = 1100 * time.Millisecond },
		"detection": func(_ *Plan, r *Result) { r.Hits[2].Gap = 1400 * time.Millisecond },
		"floor":     func(p *Plan, _ *Result) { *p.Bounds.HitTwice = 2 },
		"exclusion": func(_ *Plan, r *Result) { r.Attempts[4].Life = 1 },
		"amplification": func(_ *Plan, r *Result) {
			for range 10 {
				r.Attempts = append(r.Attempts, Attempt{Request: 1, Engine: 1, Life: 2, Began: 8 * time.Second, End: EndWhole, Status: 200})
			}
		},
		"zero":   func(_ *Plan, r *Result) { r.End.Left.Lingering = 1 },
		"live":   func(_ *Plan, r *Result) { r.End.NotServing = []string{"e1 is down"} },
		"index":  func(_ *Plan, r *Result) { r.End.Index[0] = "approximate" },
		"panics": func(_ *Plan, r *Result) { r.End.Panics = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			p, r := good()
			spoil(&p, r)
			require.Equal(t, []string{name}, broken(p, r))
			r.Verdicts = Judge(p, r)
			require.False(t, r.Held())
			require.Contains(t, Summary(r), "FAIL: 1 of")
		})
	}
	p, r := good()
	r.End.Predicted = 5000
	require.Equal(t, []string{"index"}, broken(p, r), "what was predicted is not there")
	r.Streams, r.End.Predicted = nil, 0
	require.Contains(t, broken(p, r), "outcome", "nothing proves nothing")
}

func TestPageNeedsNothingElse(t *testing.T) {
	p, r := good()
	p.About = "<script>alert(1)</script>"
	r.Faults[0].Error = "x"
	r.Verdicts = Judge(p, r)
	page, err := Page(p, r)
	require.NoError(t, err)
	text := string(page)
	for _, want := range []string{"<svg ", ">e1</text>", `class="fault kill"`, "kill of e0, 2.0 s to 4.0 s, 2 answers under way", "request 1, stop of e1: 1200 ms", "held"} {
		require.Contains(t, text, want)
	}
	for _, no := range []string{"<script", "http://", "https://", "src=", "@import", "%!"} {
		require.NotContains(t, text, no)
	}
	require.Equal(t, 1, strings.Count(text, "state down"))
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(raw), `"kind":"kill"`)
}

func TestTicker(t *testing.T) {
	var b strings.Builder
	tick := NewTicker(&b, false)
	for i := range 11 {
		tick.Show(Progress{Phase: "faults", At: time.Duration(i) * time.Second, Open: 3, States: []string{"ready", "suspect", "down", "warming"}, LastFault: "kill e2"})
	}
	tick.End()
	require.Equal(t, 3, strings.Count(b.String(), "\n"), "a line every 5 s")
	require.Contains(t, b.String(), "(kill e2)")
	require.Contains(t, b.String(), "[RS-w]")
	b.Reset()
	tick = NewTicker(&b, true)
	tick.Show(Progress{})
	tick.Show(Progress{Leaves: 4})
	tick.End()
	require.Equal(t, 2, strings.Count(b.String(), "\r"))
	require.Contains(t, b.String(), "4 left\n")
}
