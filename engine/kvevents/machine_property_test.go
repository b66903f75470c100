package kvevents

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tinylib/msgp/msgp"
	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// lifeSeconds keeps the lives apart in the times that batches carry: batch s of life l was made at l*lifeSeconds + s.
const lifeSeconds = 1_000_000

// published is one batch of the model's engine.
type published struct {
	life    int
	seq     uint64
	payload []byte
	after   map[uint64]int // copies of each block once it is applied
}

// payloadOf encodes a batch: stores of single blocks, removals, or a clear.
func payloadOf(life int, seq uint64, stored, removed []uint64, cleared bool) []byte {
	b := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), float64(life*lifeSeconds)+float64(seq))
	n := len(stored) + len(removed)
	if cleared {
		n++
	}
	b = msgp.AppendArrayHeader(b, uint32(n))
	if cleared {
		b = msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(b, 1), "type"), "AllBlocksCleared")
	}
	for _, h := range removed {
		b = appendRemoval(b, h)
	}
	for _, h := range stored {
		b = appendStore(b, h, 1)
	}
	return msgp.AppendInt(b, 0)
}

func hashOf(n uint64) uint64 { return n * 0x9e3779b97f4a7c15 }

// damageKinds are what goes wrong. A test in which a kind never occurred would prove less than it says.
var damageKinds = []string{
	"dropped", "doubled", "reordered", "garbled", "lost for good", "cut", "restart", "restart unseen", "cleared",
	"replay silent", "replay cut", "replay with a hole", "replay garbled", "ring too short", "overflow", "junk",
}

// model is an engine, a network that fails, and what a listener was told.
type model struct {
	t      *rapid.T
	m      *machine
	now    time.Time
	counts map[string]int

	// The engine.
	life    int
	batches []published // of this life, all
	lost    map[uint64]bool
	ring    int // how many it keeps
	held    map[uint64]int
	history map[string]published // of all lives, by life and number

	// The network.
	up       bool
	connLife int  // whose process the connection was made to
	unseen   bool // a life has ended since without a break
	wire     []published
	asked    uint64 // attempt of the replay; 0: none
	from     uint64
	answers  []published // what is on its way, if served
	served   bool
	healed   bool

	// The listener.
	claims  map[uint64]int
	state   engine.KVState
	applied *published // the last batch that was applied since the last reset
	told    int
}

func newModel(t *rapid.T, counts map[string]int) *model {
	w := &model{t: t, now: time.Unix(1, 0), counts: counts, ring: 1 << 20, lost: map[uint64]bool{}, held: map[uint64]int{}}
	w.history = map[string]published{}
	if rapid.IntRange(0, 3).Draw(t, "short") == 0 {
		w.ring = rapid.IntRange(1, 8).Draw(t, "ring")
	}
	cfg := DefaultConfig()
	cfg.BufferBatchesMax = rapid.IntRange(2, 8).Draw(t, "buffer")
	l := cfg.limits()
	l.replay = rapid.IntRange(0, 4).Draw(t, "replay") > 0
	w.m = newMachine(l, func() uint64 { return rapid.Uint64().Draw(t, "entropy") }, w.sink)
	return w
}

// sink checks every batch as it is told.
func (w *model) sink(b engine.KVBatch) {
	w.told++
	if w.told == 1 {
		require.True(w.t, b.Reset, "the first batch")
	}
	if b.Reset {
		w.claims, w.applied = map[uint64]int{}, nil
	}
	if !b.At.IsZero() {
		at := b.At.Unix()
		require.Equal(w.t, uint64(at%lifeSeconds), b.Seq)
		w.applied = w.find(int(at/lifeSeconds), b.Seq)
	}
	for _, e := range b.Events {
		switch e.Kind {
		case prefix.Stored:
			w.claims[e.Hashes[0]]++
		case prefix.Removed:
			if w.claims[e.Hashes[0]]--; w.claims[e.Hashes[0]] <= 0 {
				delete(w.claims, e.Hashes[0])
			}
		case prefix.Cleared:
			w.claims = map[uint64]int{}
		case prefix.NumEventKinds:
		}
	}
	w.state = b.State
	switch b.State {
	case engine.KVReplaying:
	case engine.KVLive:
		require.Equal(w.t, w.truth(), w.claims, "live")
	case engine.KVPartial:
		for h, n := range w.claims {
			require.LessOrEqual(w.t, n, w.truth()[h], "claimed copies of a block")
		}
	case engine.NumKVStates:
	}
}

// truth is what the engine held after the batch that was applied last.
func (w *model) truth() map[uint64]int {
	if w.applied == nil {
		return map[uint64]int{}
	}
	return w.applied.after
}

func (w *model) find(life int, seq uint64) *published {
	p, ok := w.history[fmt.Sprint(life, "/", seq)]
	require.True(w.t, ok)
	return &p
}

func (w *model) step(in input) {
	w.now = w.now.Add(time.Millisecond)
	effects := slices.Clone(w.m.Step(w.now, in))
	for _, e := range effects {
		switch e.kind {
		case askReplay:
			w.asked, w.from, w.served, w.answers = e.attempt, e.from, false, nil
		case dropReplay:
			if e.attempt == w.asked {
				w.asked = 0
			}
		}
	}
	require.LessOrEqual(w.t, len(w.m.held.batches), w.m.held.batchesMax)
	if w.state != engine.KVReplaying && len(w.claims) > 0 && !w.unseen {
		require.True(w.t, w.up, "claims without a connection")
		require.Equal(w.t, w.connLife, w.applied.life, "claims of another life")
	}
}

// publish makes a batch and puts it on the wire.
func (w *model) publish() {
	seq := uint64(len(w.batches))
	var stored, removed []uint64
	cleared := !w.healed && rapid.IntRange(0, 30).Draw(w.t, "clear") == 30
	if cleared {
		w.held = map[uint64]int{}
		w.counts["cleared"]++
	}
	for range rapid.IntRange(0, 3).Draw(w.t, "removed") {
		if keys := slices.Sorted(maps.Keys(w.held)); len(keys) > 0 {
			h := rapid.SampledFrom(keys).Draw(w.t, "gone")
			removed = append(removed, h)
			if w.held[h]--; w.held[h] == 0 {
				delete(w.held, h)
			}
		}
	}
	for range rapid.IntRange(0, 3).Draw(w.t, "stored") {
		h := rapid.Uint64Range(1, 12).Draw(w.t, "new")
		stored = append(stored, h)
		w.held[h]++
	}
	after := map[uint64]int{}
	for h, n := range w.held {
		after[hashOf(h)] = n
	}
	p := published{life: w.life, seq: seq, payload: payloadOf(w.life, seq, stored, removed, cleared), after: after}
	w.history[fmt.Sprint(p.life, "/", p.seq)] = p
	w.batches = append(w.batches, p)
	w.send(p)
}

// send puts a batch on the wire, or what becomes of it there.
func (w *model) send(p published) {
	if !w.up || w.healed {
		if w.up {
			w.wire = append(w.wire, p)
		}
		return
	}
	must := w.unseen && p.seq == 0 // else nothing could ever tell that it is another life
	switch kind := rapid.SampledFrom([]string{"", "", "", "", "dropped", "doubled", "reordered", "garbled", "lost for good", "junk"}).Draw(w.t, "fate"); {
	case kind == "" || must:
		w.wire = append(w.wire, p)
	case kind == "dropped":
		w.counts[kind]++
	case kind == "doubled":
		w.counts[kind]++
		w.wire = append(w.wire, p, p)
	case kind == "reordered" && len(w.wire) > 0 && w.wire[len(w.wire)-1].seq > 0:
		w.counts[kind]++
		w.wire = slices.Insert(w.wire, len(w.wire)-1, p)
	case kind == "garbled":
		w.counts[kind]++
		p.payload = []byte{0xc1}
		w.wire = append(w.wire, p)
	case kind == "lost for good":
		w.counts[kind]++
		w.lost[p.seq] = true
	case kind == "junk":
		w.counts[kind]++
		w.step(input{kind: junk})
		w.wire = append(w.wire, p)
	default:
		w.wire = append(w.wire, p)
	}
}

func (w *model) deliver() {
	if len(w.wire) == 0 {
		return
	}
	p := w.wire[0]
	w.wire = w.wire[1:]
	before := len(w.m.held.batches)
	w.step(input{kind: live, seq: p.seq, payload: p.payload})
	if before == w.m.held.batchesMax {
		w.counts["overflow"]++
	}
}

func (w *model) connect() {
	if !w.up {
		w.up, w.connLife, w.unseen = true, w.life, false
		w.step(input{kind: connected})
	}
}

func (w *model) cut() {
	if w.up {
		w.up, w.wire = false, nil
		w.counts["cut"]++
		w.step(input{kind: broken})
	}
}

// restart begins a new life. Unless it is unseen the connection breaks first.
func (w *model) restart(unseen bool) {
	if unseen && (!w.up || len(w.batches) == 0) {
		return
	}
	if unseen {
		w.counts["restart unseen"]++
		w.unseen = true
	} else {
		w.cut()
		w.counts["restart"]++
	}
	w.life++
	w.batches, w.held, w.lost = nil, map[uint64]int{}, map[uint64]bool{}
	if unseen {
		w.publish() // its first batch is what shows it
	}
}

// serve answers the replay that is asked for, in one of the ways that it can go wrong.
func (w *model) serve() {
	if w.asked == 0 || w.served {
		return
	}
	w.served = true
	for _, p := range w.batches {
		if p.seq >= w.from && !w.lost[p.seq] && int(p.seq) >= len(w.batches)-w.ring {
			w.answers = append(w.answers, p)
		}
	}
	if len(w.batches) > w.ring && int(w.from) < len(w.batches)-w.ring {
		w.counts["ring too short"]++
	}
	end := published{life: -1}
	if w.healed {
		w.answers = append(w.answers, end)
		return
	}
	at := 0
	if n := len(w.answers); n > 1 {
		at = rapid.IntRange(0, n-1).Draw(w.t, "at")
	}
	switch kind := rapid.SampledFrom([]string{"", "", "", "replay silent", "replay cut", "replay with a hole", "replay garbled"}).Draw(w.t, "answer"); {
	case kind == "replay silent":
		w.counts[kind]++
		w.answers = nil
		return
	case kind == "replay cut" && len(w.answers) > 0:
		w.counts[kind]++
		w.answers = append(w.answers[:at], published{life: -2})
		return
	case kind == "replay with a hole" && at > 0: // queues that are full refuse what comes later
		w.counts[kind]++
		w.answers = slices.Delete(w.answers, at, at+1)
	case kind == "replay garbled" && len(w.answers) > 1:
		w.counts[kind]++
		w.answers[at].payload = []byte{0xc1}
	}
	w.answers = append(w.answers, end)
}

func (w *model) answer() {
	if w.asked == 0 || len(w.answers) == 0 {
		return
	}
	p := w.answers[0]
	w.answers = w.answers[1:]
	switch p.life {
	case -1:
		attempt := w.asked
		w.asked = 0
		w.step(input{kind: replayEnded, attempt: attempt})
	case -2:
		attempt := w.asked
		w.asked = 0
		w.step(input{kind: replayFailed, attempt: attempt})
	default:
		w.step(input{kind: replayed, attempt: w.asked, seq: p.seq, payload: p.payload})
	}
}

// wait lets time pass up to the machine's deadline.
func (w *model) wait() {
	if at := w.m.deadline(); !at.IsZero() {
		if at.After(w.now) {
			w.now = at
		}
		w.step(input{kind: tick})
	}
}

// heal ends all faults and lets everything arrive.
func (w *model) heal() {
	w.healed = true
	w.connect()
	for range 60 {
		w.publish()
		for len(w.wire) > 0 {
			w.deliver()
		}
		w.serve()
		for w.asked != 0 && len(w.answers) > 0 {
			w.answer()
		}
		w.wait()
	}
}

// TestMachineProperties: whatever engine and network do, a live feed claims exactly what the engine held at the batch
// applied last, a partial one nothing that it did not hold; claims are of the life that the connection is to. After the
// faults have ended the feed is live if the engine still has all its batches.
func TestMachineProperties(t *testing.T) {
	counts := map[string]int{}
	live, partial := 0, 0
	run := func(t *rapid.T) {
		w := newModel(t, counts)
		for range rapid.IntRange(0, 6).Draw(t, "published before") {
			w.publish()
		}
		w.connect()
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(*rapid.T) { w.publish() },
			"deliver": func(*rapid.T) { w.deliver() },
			"drain": func(*rapid.T) {
				for range 8 {
					w.deliver()
				}
			},
			"connect": func(*rapid.T) { w.connect() },
			"fail to connect": func(*rapid.T) {
				if !w.up {
					w.step(input{kind: broken})
				}
			},
			"break": func(t *rapid.T) {
				switch rapid.IntRange(0, 5).Draw(t, "how") {
				case 0, 1:
					w.cut()
				case 2:
					w.restart(false)
				case 3:
					w.restart(true)
				}
			},
			"flood": func(*rapid.T) {
				for range 10 {
					w.publish()
					w.deliver()
				}
			},
			"another life that is as far": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "rarely") < 3 {
					return
				}
				n := len(w.batches) + rapid.IntRange(0, 2).Draw(t, "further")
				w.restart(false)
				for range n {
					w.publish()
				}
				w.connect()
			},
			"serve":  func(*rapid.T) { w.serve() },
			"answer": func(*rapid.T) { w.answer() },
			"answers": func(*rapid.T) {
				for range 20 {
					w.answer()
				}
			},
			"wait": func(*rapid.T) { w.wait() },
		})
		w.heal()
		intact := len(w.lost) == 0 && len(w.batches) <= w.ring && w.m.limits.replay
		if intact {
			require.Equal(t, engine.KVLive, w.state, "an engine that has everything")
		}
		require.NotEqual(t, engine.KVReplaying, w.state)
		require.NotNil(t, w.applied)
		require.Equal(t, w.life, w.applied.life)
		require.Equal(t, uint64(len(w.batches)-1), w.applied.seq)
		if w.state == engine.KVLive {
			live++
		} else {
			partial++
		}
	}
	for range 15 {
		rapid.Check(t, run)
	}
	t.Logf("live %d, partial %d; %v", live, partial, counts)
	for _, kind := range damageKinds {
		require.Positive(t, counts[kind], "%s never occurred", kind)
	}
}
