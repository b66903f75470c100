package kvevents

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
	"plimsoll/testbench/recordings"
	"plimsoll/testbench/shared"
)

// rankSeqs reads the sequence numbers a rank.
func rankSeqs(t *testing.T, raw json.RawMessage) map[string]int64 {
	t.Helper()
	var out map[string]int64
	require.NoError(t, json.Unmarshal(raw, &out))
	return out
}

// recordedFeed is one recorded publisher: its frames go through machine and decoder into a slot of an index.
type recordedFeed struct {
	t        *testing.T
	rank     string // "" where the session has one
	messages []frames
	at       int // messages published so far
	life     int // where the present life begins among them
	broken   bool

	m    *machine
	now  time.Time
	ix   *prefix.Index
	slot prefix.Slot

	last    engine.KVBatch
	skipped int
}

func newRecordedFeed(t *testing.T, path string, replay bool) *recordedFeed {
	t.Helper()
	f := &recordedFeed{t: t, messages: shared.Lines[frames](t, path), now: time.Unix(1, 0)}
	if parts := strings.Split(filepath.Base(path), "."); strings.HasPrefix(parts[1], "rank") {
		f.rank = strings.TrimPrefix(parts[1], "rank")
	}
	l := DefaultConfig().limits()
	l.replay = replay
	f.m = newMachine(l, func() uint64 { return 0 }, f.sink)
	return f
}

func (f *recordedFeed) sink(b engine.KVBatch) {
	f.last = b
	for _, n := range b.Skipped {
		f.skipped += n
	}
	if b.Reset {
		f.ix.Void(f.slot)
	}
	f.ix.Apply(f.slot, b.Events)
}

// blockTokens is the block size that the events tell.
func (f *recordedFeed) blockTokens() int {
	size := 0
	var d Decoder
	for _, m := range f.messages {
		_, payload, _ := parse(m)
		b, err := d.Decode(payload)
		require.NoError(f.t, err)
		for _, e := range b.Events {
			size = max(size, e.BlockTokens)
		}
	}
	return size
}

// step feeds the machine and answers its replays as the engine would: with what its present life has published.
func (f *recordedFeed) step(in input) {
	f.now = f.now.Add(time.Millisecond)
	for _, e := range append([]effect{}, f.m.Step(f.now, in)...) {
		if e.kind != askReplay {
			continue
		}
		for _, m := range f.messages[f.life:f.at] {
			if seq, payload, _ := parse(m); seq >= e.from {
				f.step(input{kind: replayed, attempt: e.attempt, seq: seq, payload: payload})
			}
		}
		f.step(input{kind: replayEnded, attempt: e.attempt})
	}
}

// advance publishes until n messages are.
func (f *recordedFeed) advance(n int) {
	for ; f.at < n; f.at++ {
		seq, payload, ok := parse(f.messages[f.at])
		require.True(f.t, ok)
		if f.at > 0 && !f.broken {
			if before, _, _ := parse(f.messages[f.at-1]); seq <= before {
				f.life = f.at
			}
		}
		f.broken = false
		f.step(input{kind: live, seq: seq, payload: payload})
	}
}

// restart breaks the connection and makes it again, to an engine that has published nothing yet.
func (f *recordedFeed) restart() {
	f.life, f.broken = f.at, true
	f.step(input{kind: broken})
	f.step(input{kind: connected})
}

// predict is what the index says of a request: a hit never covers the last token, and the cache is not read where log
// probabilities of the prompt are asked for.
func (f *recordedFeed) predict(r recordings.Request) int {
	if r.Request.PromptLogprobs != nil {
		return 0
	}
	tokens, err := r.Tokens()
	require.NoError(f.t, err)
	size := f.ix.BlockTokens()
	keys := prefix.AppendKeys(nil, r.Space().Seed(), tokens[:max(1, len(tokens))-1], size)
	return int(f.ix.Match(f.now, keys, nil)[f.slot].Device) * size
}

// TestRecordedSessions feeds the frames of every recorded session of a real engine through the machine, the decoder and
// the index, and compares what is predicted of each request with the cached tokens that the engine reported. Left out
// are requests that failed, those with n > 1 (the engine reports the last choice), and all but the first of requests
// sent together. A restart that no event tells is a connection that breaks.
func TestRecordedSessions(t *testing.T) {
	for _, replay := range []bool{false, true} {
		t.Run(fmt.Sprintf("replay=%v", replay), func(t *testing.T) {
			equal, hits := map[string]int{}, map[string]int{}
			for _, path := range recordings.Glob(t, "*.requests.jsonl*") {
				name := filepath.Base(filepath.Dir(path)) + "/" + strings.Split(filepath.Base(path), ".")[0]
				t.Run(name, func(t *testing.T) {
					e, h := playSession(t, path, replay)
					equal[filepath.Dir(path)] += e
					hits[filepath.Dir(path)] += h
				})
			}
			t.Logf("equal predictions %v, hits %v", equal, hits)
			for _, folder := range recordings.Folders(t) {
				require.Positive(t, hits[folder], "%s", folder)
			}
			require.GreaterOrEqual(t, equal[recordings.Own(t)], 297)
			require.GreaterOrEqual(t, hits[recordings.Own(t)], 190)
		})
	}
}

func playSession(t *testing.T, path string, replay bool) (equal, hits int) {
	t.Helper()
	session, _, _ := strings.Cut(path, ".requests.jsonl")
	paths, err := filepath.Glob(session + ".frames.jsonl*")
	require.NoError(t, err)
	ranks, err := filepath.Glob(session + ".rank*.frames.jsonl*")
	require.NoError(t, err)
	paths = append(paths, ranks...)
	require.NotEmpty(t, paths)
	feeds := make([]*recordedFeed, len(paths))
	size := 0
	for i, path := range paths {
		feeds[i] = newRecordedFeed(t, path, replay)
		size = max(size, feeds[i].blockTokens())
	}
	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = recordings.Model, size
	ix := prefix.NewIndex(cfg)
	for _, f := range feeds {
		f.ix, f.slot = ix, ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 1024})
		f.step(input{kind: connected})
	}
	together := map[any]bool{}
	for _, r := range shared.Lines[recordings.Request](t, path) {
		for _, f := range feeds {
			before := r.EventsBefore
			if f.rank != "" {
				before = f.count(rankSeqs(t, r.SeqBefore)[f.rank])
			}
			f.advance(before)
			if r.Restarted {
				f.restart()
			}
		}
		if r.CachedTokens == nil || r.Request.N != nil && *r.Request.N > 1 || together[r.Concurrent] {
			continue
		}
		together[r.Concurrent] = r.Concurrent != nil
		var said []int
		for _, f := range feeds {
			if f.serves(r) {
				said = append(said, f.predict(r))
			}
		}
		require.Contains(t, said, *r.CachedTokens, "cached tokens of %s", r.Step)
		require.Equal(t, 1, len(said)-repeated(said), "where it is not told who served it all say the same: %s", r.Step)
		equal++
		if said[0] > 0 {
			hits++
		}
	}
	for _, f := range feeds {
		f.advance(len(f.messages))
		require.Zero(t, f.skipped)
		require.Equal(t, engine.KVLive, f.last.State)
		st := ix.Stats(f.slot)
		require.Zero(t, st.UnknownParents+st.Malformed+st.Conflicts+st.Overflows, "%+v", st)
	}
	return equal, hits
}

// repeated counts the values that equal the first, it excepted.
func repeated(values []int) int {
	n := 0
	for _, v := range values[1:] {
		if v == values[0] {
			n++
		}
	}
	return n
}

// count returns how many messages have a number up to seq.
func (f *recordedFeed) count(seq int64) int {
	n := 0
	for n < len(f.messages) {
		if at, _, _ := parse(f.messages[n]); int64(at) > seq {
			break
		}
		n++
	}
	return n
}

// serves says whether this rank may have served a request: the one that the header names, else the one whose sequence
// moved, else any.
func (f *recordedFeed) serves(r recordings.Request) bool {
	if f.rank == "" {
		return true
	}
	if rank, err := strconv.Atoi(r.Headers["X-data-parallel-rank"]); err == nil {
		return strconv.Itoa(rank) == f.rank
	}
	before, after := rankSeqs(f.t, r.SeqBefore), rankSeqs(f.t, r.SeqAfter)
	moved := false
	for rank := range before {
		moved = moved || before[rank] != after[rank]
	}
	return !moved || before[f.rank] != after[f.rank]
}

// TestReplayRecorded: what the replay socket answered is what was published, byte for byte, and the end marker is seen.
func TestReplayRecorded(t *testing.T) {
	for _, path := range recordings.Glob(t, "*.replay-from-*.frames.jsonl*") {
		t.Run(path, func(t *testing.T) {
			session, _, _ := strings.Cut(path, ".replay-from-")
			published := map[uint64][]byte{}
			for _, m := range shared.Lines[frames](t, sibling(t, session+".frames.jsonl", ".frames.jsonl", ".frames.jsonl")) {
				seq, payload, _ := parse(m)
				published[seq] = payload
			}
			answers := shared.Lines[frames](t, path)
			for i, m := range answers {
				seq, payload, ok := parse(m)
				require.True(t, ok)
				if i == len(answers)-1 {
					require.Equal(t, uint64(endMarker), seq)
					break
				}
				require.Equal(t, published[seq], payload)
			}
		})
	}
}

// TestReplayRecordedProves: a connection that broke before the last two batches, and the recorded answers to the question
// that the machine asks then: of the same life, and of another one.
func TestReplayRecordedProves(t *testing.T) {
	live := shared.Lines[frames](t, filepath.Join(recordings.Own(t), "blocks64.frames.jsonl.gz"))
	for name, want := range map[string]struct {
		file   string
		script string // states after the answer
	}{
		"same life":  {"blocks64.replay-from-last-1.frames.jsonl", "live"},
		"other life": {"blocks64.replay-from-future.frames.jsonl", "replaying reset, drop, ask 0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.play("up")
			answers := shared.Lines[frames](t, filepath.Join(recordings.Own(t), want.file))
			first, _, _ := parse(answers[0])
			for _, m := range live {
				seq, payload, _ := parse(m)
				if first != endMarker && seq > first {
					break
				}
				s.step(input{kind: replayed, attempt: s.m.attempts, seq: seq, payload: payload})
			}
			s.play("end")
			last := s.m.next - 1
			s.play("down")
			s.out = nil
			s.play("up")
			require.Equal(t, []string{fmt.Sprintf("ask %d", last)}, s.out)
			for _, m := range answers {
				seq, payload, _ := parse(m)
				if seq == endMarker {
					s.out = nil
					s.play("end")
				} else {
					s.step(input{kind: replayed, attempt: s.m.attempts, seq: seq, payload: payload})
				}
			}
			require.Contains(t, strings.Join(s.out, ", "), want.script)
			if first != endMarker {
				end, _, _ := parse(live[len(live)-1])
				require.Equal(t, end+1, s.m.next)
			}
		})
	}
}
