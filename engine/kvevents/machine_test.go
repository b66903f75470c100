package kvevents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
)

// stage drives a machine by a script and writes down what it says and wants.
type stage struct {
	t   *testing.T
	m   *machine
	now time.Time
	out []string
}

func newStage(t *testing.T, change func(*limits)) *stage {
	t.Helper()
	l := DefaultConfig().limits()
	l.replay = true
	if change != nil {
		change(&l)
	}
	s := &stage{t: t, now: time.Unix(1, 0)}
	s.m = newMachine(l, func() uint64 { return 0 }, func(b engine.KVBatch) {
		says := []string{[...]string{"live", "replaying", "partial"}[b.State]}
		if b.Reset {
			says = append(says, "reset")
		}
		if b.Gap {
			says = append(says, "gap")
		}
		for reason, n := range b.Skipped {
			if n > 0 {
				says = append(says, fmt.Sprintf("%s:%d", [...]string{"frames", "batch", "event", "type", "old"}[reason], n))
			}
		}
		if !b.At.IsZero() {
			says = append(says, fmt.Sprintf("#%d", b.Seq))
		}
		s.out = append(s.out, strings.Join(says, " "))
	})
	return s
}

func (s *stage) step(in input) {
	for _, e := range s.m.Step(s.now, in) {
		switch e.kind {
		case askReplay:
			s.out = append(s.out, fmt.Sprintf("ask %d", e.from))
		case dropReplay:
			s.out = append(s.out, "drop")
		}
	}
}

// play runs a line of a script:
//
//	up, down, junk             the connection
//	pub L/S, bad S             published: batch S of life L; one that is garbled
//	ans L/S, bad-ans S         replayed
//	end, fail                  the end of the replay
//	wait                       until the machine's deadline
func (s *stage) play(line string) {
	s.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	var life int
	var seq uint64
	in := input{attempt: s.m.attempts}
	switch verb {
	case "up":
		in.kind = connected
	case "down":
		in.kind = broken
	case "junk":
		in.kind = junk
	case "pub", "ans":
		_, err := fmt.Sscanf(rest, "%d/%d", &life, &seq)
		require.NoError(s.t, err)
		in.kind, in.seq, in.payload = live, seq, payloadOf(life, seq, []uint64{seq + 1}, nil, false)
	case "clear":
		_, err := fmt.Sscanf(rest, "%d/%d", &life, &seq)
		require.NoError(s.t, err)
		in.kind, in.seq, in.payload = live, seq, payloadOf(life, seq, nil, nil, true)
	case "bad", "bad-ans":
		_, err := fmt.Sscan(rest, &seq)
		require.NoError(s.t, err)
		in.kind, in.seq, in.payload = live, seq, []byte{0xc1}
	case "end":
		in.kind = replayEnded
	case "fail":
		in.kind = replayFailed
	case "wait":
		in.kind = tick
		require.False(s.t, s.m.deadline().IsZero(), "nothing to wait for")
		s.now = s.m.deadline()
	default:
		s.t.Fatalf("verb %q", verb)
	}
	if strings.HasSuffix(verb, "ans") {
		in.kind = replayed
	}
	s.step(in)
}

// openings are how many scripts begin; a line that names one stands for its lines.
var openings = map[string]string{
	"nothing published": `
		up           => replaying reset, ask 0
		end          => live`,
	"first batch heard": `
		up           => replaying reset, ask 0
		end          => live
		pub 1/0      => live #0`,
}

// script returns the lines of a script, those of its opening too.
func script(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if opening, ok := openings[lines[0]]; ok {
		return append(script(opening), lines[1:]...)
	}
	return lines
}

// TestMachine: scripts, a line a step; after => what is said, in order, and then what is wanted.
func TestMachine(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*limits)
		script string
	}{
		"start": {nil, `
			up           => replaying reset, ask 0
			pub 1/2      =>
			ans 1/0      => replaying #0
			ans 1/1      => replaying #1
			end          => replaying #2, live
			pub 1/3      => live #3
		`},
		"replay overtakes what is published": {nil, `
			up           => replaying reset, ask 0
			pub 1/0      =>
			ans 1/0      => replaying #0
			ans 1/1      => replaying #1
			pub 1/1      =>
			end          => live old:2
		`},
		"an engine that has published nothing": {nil, `
			up           => replaying reset, ask 0
			end          => live
			pub 1/0      => live #0
		`},
		"the engine no longer has the beginning": {nil, `
			up           => replaying reset, ask 0
			ans 1/7      => replaying #7
			end          => partial
			pub 1/8      => partial #8
			clear 1/9    => live #9
		`},
		"no replay, from the beginning": {func(l *limits) { l.replay = false }, `
			up           => partial reset
			pub 1/0      => live #0
			pub 1/1      => live #1
			pub 1/3      => partial reset gap, partial #3
			down         => partial reset
			up           =>
			pub 1/0      => live #0
		`},
		"replay breaks off, later one succeeds": {nil, `
			up           => replaying reset, ask 0
			pub 1/2      =>
			ans 1/0      => replaying #0
			fail         => partial reset, partial #2, drop
			pub 1/3      => partial #3
			wait         => ask 0
			pub 1/4      => partial #4
			ans 1/0      => replaying reset, replaying #0
			ans 1/1      => replaying #1
			ans 1/2      => replaying #2
			ans 1/3      => replaying #3
			end          => replaying #4, live
		`},
		"replay is silent": {nil, `
			up           => replaying reset, ask 0
			pub 1/5      =>
			wait         => partial reset, partial #5, drop
			wait         => ask 0
			wait         => drop
			pub 1/6      => partial #6
		`},
		"gap": {nil, `
			first batch heard
			pub 1/3      => replaying gap, ask 0
			pub 1/4      =>
			ans 1/0      =>
			ans 1/1      => replaying #1
			ans 1/2      => replaying #2
			end          => replaying #3, replaying #4, live
		`},
		"gap that the engine no longer has": {nil, `
			first batch heard
			pub 1/9      => replaying gap, ask 0
			ans 1/5      => replaying reset, replaying #5
			ans 1/6      => replaying #6
			ans 1/7      => replaying #7
			ans 1/8      => replaying #8
			end          => replaying #9, partial
		`},
		"gap that is not filled": {nil, `
			first batch heard
			pub 1/2      => replaying gap, ask 0
			ans 1/0      =>
			end          => partial reset gap, partial #2, drop
		`},
		"hole within a replay": {nil, `
			up           => replaying reset, ask 0
			ans 1/0      => replaying #0
			ans 1/2      => replaying reset gap, replaying #2
			end          => partial
		`},
		"garbled, and whole in the replay": {nil, `
			first batch heard
			bad 1        => replaying gap batch:1, ask 0
			pub 1/2      =>
			ans 1/0      =>
			ans 1/1      => replaying #1
			end          => replaying #2, live
		`},
		"garbled in the replay as well": {nil, `
			first batch heard
			bad 1        => replaying gap batch:1, ask 0
			ans 1/0      =>
			bad-ans 1    => replaying reset gap batch:1
			end          => partial
			pub 1/2      => partial #2
		`},
		"twice, and no frames": {nil, `
			first batch heard
			pub 1/0      =>
			junk         =>
			pub 1/1      => live frames:1 old:1 #1
		`},
		"sequence goes back": {nil, `
			first batch heard
			pub 1/1      => live #1
			pub 2/0      => replaying reset, ask 0
			ans 2/0      => replaying #0
			end          => live old:1
		`},
		"sequence goes back while batches are held": {nil, `
			up           => replaying reset, ask 0
			pub 1/8      =>
			pub 1/9      =>
			pub 2/0      => replaying reset old:2, drop, ask 0
			ans 2/0      => replaying #0
			end          => live old:1
		`},
		"many lives at once are asked for slowly": {nil, `
			nothing published
			pub 1/5      => replaying gap, ask 0
			end          => partial reset gap, partial #5, drop
			pub 2/3      => replaying reset, ask 0
			pub 3/3      => partial reset old:1, partial #3, drop
			pub 4/3      => partial reset, partial #3
		`},
		"connection breaks, same engine": {nil, `
			first batch heard
			pub 1/1      => live #1
			down         => replaying
			up           => ask 1
			down         => drop
			up           => ask 1
			pub 1/3      =>
			ans 1/1      =>
			ans 1/2      => replaying #2
			end          => replaying #3, live
		`},
		"connection breaks, another life as far": {nil, `
			first batch heard
			pub 1/1      => live #1
			down         => replaying
			up           => ask 1
			ans 2/1      => replaying reset, drop, ask 0
			ans 2/0      => replaying #0
			ans 2/1      => replaying #1
			end          => live
		`},
		"connection breaks, another life not as far": {nil, `
			first batch heard
			down         => replaying
			up           => ask 0
			end          => replaying reset, drop, ask 0
			end          => live
		`},
		"connection stays broken": {nil, `
			first batch heard
			down         => replaying
			wait         => partial reset
			up           => replaying reset, ask 0
		`},
		"connection breaks, and nobody listens any more": {nil, `
			first batch heard
			down         => replaying
			down         => partial reset
			down         =>
		`},
		"never connected": {nil, `
			down         => partial reset
			down         =>
			up           => replaying reset, ask 0
		`},
		"too much is held": {func(l *limits) { l.bufferBatchesMax = 2 }, `
			up           => replaying reset, ask 0
			pub 1/1      =>
			pub 1/2      =>
			pub 1/3      => partial reset, partial #1, partial #2, partial #3, drop
		`},
		"too much is replayed": {func(l *limits) { l.replayBatchesMax = 1 }, `
			up           => replaying reset, ask 0
			ans 1/0      => replaying #0
			ans 1/1      => partial reset, drop
		`},
		"the last batch before a silence is lost": {nil, `
			first batch heard
			wait         =>
			wait         => ask 0
			ans 1/0      =>
			ans 1/1      => live #1
			end          =>
			pub 1/2      => live #2
		`},
		"a silence, and another life": {nil, `
			up           => replaying reset, ask 0
			ans 1/0      => replaying #0
			end          => live
			wait         => ask 0
			end          => replaying reset, drop, ask 0
		`},
		"a check that nobody answers": {nil, `
			nothing published
			wait         => ask 0
			wait         => drop
			pub 1/0      => live #0
		`},
		"behind a proxy: the replay is of the next life, the batch held of the last": {nil, `
			up           => replaying reset, ask 0
			pub 1/1      =>
			ans 2/0      => replaying #0
			end          => partial reset, partial #1, drop
			pub 2/0      => replaying reset, ask 0
		`},
		"behind a proxy: likewise, and the batch is late": {nil, `
			up           => replaying reset, ask 0
			ans 2/0      => replaying #0
			end          => live
			pub 1/1      => replaying reset, ask 0
		`},
		"behind a proxy: two lives among what is held": {nil, `
			up           => replaying reset, ask 0
			pub 1/2      =>
			ans 2/0      => replaying #0
			pub 2/1      =>
			end          => replaying #1, partial reset, partial #2, drop
		`},
		"behind a proxy: a batch that is held shows it": {nil, `
			up           => replaying reset, ask 0
			pub 1/0      =>
			ans 2/0      => replaying #0
			pub 2/0      => replaying reset old:1, drop, ask 0
		`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, c.change)
			for _, line := range script(c.script) {
				do, want, ok := strings.Cut(line, "=>")
				require.True(t, ok, "%q", line)
				s.out = nil
				s.play(strings.TrimSpace(do))
				require.Equal(t, strings.TrimSpace(want), strings.Join(s.out, ", "), "after %q", strings.TrimSpace(do))
			}
		})
	}
}

// TestReplayWithoutEnd: a replay each of whose answers is in time, but that does not end, is given up in the end, and what
// was published meanwhile counts.
func TestReplayWithoutEnd(t *testing.T) {
	s := newStage(t, nil)
	l := s.m.limits
	s.play("up")
	s.play("pub 1/9999999")
	began := s.now
	for seq := range uint64(1000) {
		s.now = s.now.Add(l.replayTimeout / 2)
		if s.now.Equal(s.m.deadline()) {
			break
		}
		s.play(fmt.Sprintf("ans 1/%d", seq))
	}
	require.Equal(t, l.replayWhole, s.now.Sub(began))
	s.out = nil
	s.step(input{kind: tick})
	require.Equal(t, []string{"partial reset", "partial #9999999", "drop"}, s.out)
}
