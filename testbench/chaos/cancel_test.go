package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPhaseOf(t *testing.T) {
	open := Attempt{Began: 10}
	first := Attempt{Began: 10, First: 20}
	broke := Attempt{Began: 10, First: 20, Ended: 30, End: EndBroken}
	whole := Attempt{Began: 10, First: 20, Ended: 30, End: EndWhole}
	left := Attempt{Began: 10, Ended: 30, End: EndLeft}
	none := NumPhases // over, or in between
	for name, c := range map[string]struct {
		meant    Phase
		attempts []Attempt
		frames   int
		last     time.Duration
		want     Phase
	}{
		"no attempt, meant to be tokenized":     {Tokenizing, nil, 0, 0, Tokenizing},
		"no attempt, meant to be queued":        {Queued, nil, 0, 0, Queued},
		"no attempt, meant for later":           {Prefill, nil, 0, 0, none},
		"tokenized already":                     {Tokenizing, []Attempt{open}, 0, 0, Prefill},
		"nothing came":                          {Prefill, []Attempt{open}, 0, 0, Prefill},
		"a byte came, but no frame":             {Prefill, []Attempt{first}, 0, 0, none},
		"frames came":                           {Prefill, []Attempt{first}, 1, 25, Decode},
		"broke, nothing since":                  {Resume, []Attempt{broke}, 3, 29, Resume},
		"broke, tried again, nothing since":     {Resume, []Attempt{broke, {Began: 31}}, 3, 29, Resume},
		"broke, and more came":                  {Resume, []Attempt{broke, {Began: 31, First: 35}}, 4, 36, none},
		"whole":                                 {Decode, []Attempt{whole}, 4, 29, none},
		"broke, then whole":                     {Resume, []Attempt{broke, whole}, 4, 29, none},
		"given up there":                        {Decode, []Attempt{left}, 4, 29, none},
		"takes nothing of what comes":           {SlowClient, []Attempt{first}, 0, 0, SlowClient},
		"takes nothing, but nothing comes":      {SlowClient, []Attempt{open}, 0, 0, none},
		"takes nothing, and all of it has come": {SlowClient, []Attempt{whole}, 0, 0, none},
	} {
		got, ok := phaseOf(c.meant, c.attempts, c.frames, c.last)
		require.Equal(t, c.want != none, ok, name)
		if ok {
			require.Equal(t, c.want, got, name)
		}
	}
}

func TestClosing(t *testing.T) {
	leaves := []Leave{{Request: 1, At: 100}, {Request: 2, At: 100}, {Request: 3, At: 100}, {Request: 4, At: 100}}
	closing(leaves, []Attempt{
		{Request: 1, Began: 10, Ended: 50, End: EndBroken}, // before it left
		{Request: 1, Began: 60, Ended: 130, End: EndLeft},
		{Request: 2, Began: 105, Ended: 120, End: EndLeft},
		{Request: 3, Began: 50},
		{Request: 9, Began: 50},
	})
	require.Equal(t, []Leave{
		{Request: 1, At: 100, Closed: 30}, {Request: 2, At: 100, Closed: 20, After: 1}, {Request: 3, At: 100, Open: true}, {Request: 4, At: 100},
	}, leaves)
}

func TestJudgeLeaves(t *testing.T) {
	record := func() *Result {
		r := &Result{}
		for p := range NumPhases {
			for i := range 100 {
				r.Leaves = append(r.Leaves, Leave{Request: i, Phase: p, Closed: time.Duration(i) * time.Millisecond})
			}
		}
		return r
	}
	c := Cancel{Each: 100, Total: 600, Clients: 1, Closed: 100 * time.Millisecond}
	bad := func(r *Result) (names []string) {
		judgeLeaves(c, r, func(name string, held bool, _ string, _ ...any) {
			if !held {
				names = append(names, name)
			}
		})
		return names
	}
	require.Empty(t, bad(record()))
	r := record()
	r.Leaves = r.Leaves[1:]
	require.Equal(t, []string{"cancel tokenizing", "cancel"}, bad(r), "one is missing")
	r = record()
	for i := range 3 {
		r.Leaves[i].Closed = time.Second
	}
	require.Equal(t, []string{"cancel tokenizing"}, bad(r), "late in one phase")
	r = record()
	r.Leaves[599].Open = true
	require.Equal(t, []string{"cancel"}, bad(r))
	require.Equal(t, 100, c.quota())
	require.Equal(t, 1667, Cancel{Each: 1500, Total: 10_000}.quota())
}
