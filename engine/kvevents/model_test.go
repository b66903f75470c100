package kvevents

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
	"plimsoll/testbench/kvmodel"
	"plimsoll/testbench/kvpub"
)

// mishaps are the kinds of what goes wrong in TestIndexEqualsEngines. A run in which one did not happen proves less than
// it says, and fails.
var mishaps = []string{
	"eviction", "second copy", "offload", "reset", "restart", "restart unseen",
	"dropped", "doubled", "reordered", "garbled", "delayed", "lost for good", "junk", "cut",
	"replay silent", "replay cut", "replay late", "replay with a hole", "replay garbled", "ring too short",
}

// worldLife keeps lives apart in the times that batches carry.
const worldLife = 1_000_000

// world is several engines, the network between them and one index, and what is known of both ends.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Time
	lib    *kvmodel.Library
	keys   [][]prefix.Key
	index  *prefix.Index
	lanes  []*lane
	counts map[string]int
	calm   bool
	held   []prefix.Overlap
	equal  int // comparisons of a live slot with its engine
	partly int // comparisons of a partial one
}

// message is one batch on its way.
type message struct {
	life    int
	seq     uint64
	payload []byte
}

// lane is one engine, its publisher, its feed and its slot.
type lane struct {
	w        *world
	engine   *kvmodel.Engine
	offloads bool
	encoder  *kvpub.Encoder
	slot     prefix.Slot
	machine  *machine

	life    int
	history []message // of this life
	missing map[uint64]bool
	ring    int
	wire    []message

	up      bool
	unseen  bool // the life began without a break of the connection, and nothing of it has arrived
	asked   uint64
	from    uint64
	served  bool
	late    bool
	answers []message
	broken  bool // the answers end without a mark

	state   engine.KVState
	applied message
}

func newWorld(t *testing.T, seed uint64, counts map[string]int) *world {
	t.Helper()
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 5)), now: time.Unix(1, 0), counts: counts}
	w.lib = kvmodel.NewLibrary(kvmodel.LibraryConfig{
		BlockTokens: 4, Nodes: 50, DepthMax: 10, Branch: 0.2,
		Spaces: []kvmodel.Space{{}, {}, {Salt: "s"}, {LoRA: "l"}, {LoRA: "s"}, {LoRA: "l", Salt: "l"}},
	}, w.rng)
	for n := range w.lib.Len() {
		w.keys = append(w.keys, w.lib.Keys("m", kvmodel.Node(n)))
	}
	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = "m", w.lib.BlockTokens
	w.index = prefix.NewIndex(cfg)
	for i := range 3 {
		w.lanes = append(w.lanes, w.newLane(i))
	}
	return w
}

func (w *world) newLane(i int) *lane {
	l := &lane{w: w, missing: map[uint64]bool{}, ring: 1 << 20, offloads: i == 1}
	shape := kvmodel.Config{DeviceBlocks: 12 + w.rng.IntN(20), RunningMax: 1 + w.rng.IntN(3)}
	if l.offloads {
		shape.HostBlocks = 10
	}
	if i == 2 {
		shape.Copies = prefix.AsSet
	}
	l.engine = kvmodel.New(w.lib, shape, w.rng)
	wire := kvpub.DefaultConfig()
	wire.Form, wire.Hashes = kvpub.Form(w.rng.IntN(int(kvpub.NumForms))), kvpub.HashForm(w.rng.IntN(int(kvpub.NumHashForms)))
	l.encoder = kvpub.NewEncoder(wire)
	l.slot = w.index.Add(prefix.SlotConfig{
		Source: prefix.Events, Copies: shape.Copies, CapacityBlocks: scoring.Blocks(shape.DeviceBlocks),
	})
	cfg := DefaultConfig()
	cfg.ReplayEndpoint = "tcp://127.0.0.1:1"
	cfg.BufferBatchesMax = 3 + w.rng.IntN(40)
	if w.rng.IntN(4) == 0 {
		l.ring = 1 + w.rng.IntN(10)
	}
	l.machine = newMachine(cfg.limits(), w.rng.Uint64, l.sink)
	return l
}

// sink is what the replica's feed does with a batch.
func (l *lane) sink(b engine.KVBatch) {
	if b.Reset {
		l.w.index.Void(l.slot)
		l.applied = message{life: -1}
		l.nothing()
	}
	l.w.index.Apply(l.slot, b.Events)
	l.state = b.State
	if !b.At.IsZero() {
		l.applied = message{life: int(b.At.Unix() / worldLife), seq: uint64(b.At.Unix() % worldLife)}
	}
}

// nothing: a void slot claims nothing, whatever is asked for.
func (l *lane) nothing() {
	for _, keys := range l.w.keys {
		l.w.held = l.w.index.Match(l.w.now, keys, l.w.held)
		require.Zero(l.w.t, l.w.held[l.slot], "a void slot")
	}
}

// check compares slot and engine where the feed has told all that the engine did.
func (l *lane) check() {
	last := len(l.history) - 1
	if last < 0 || l.applied.life != l.life || l.applied.seq != l.history[last].seq || l.state == engine.KVReplaying {
		return
	}
	for n, keys := range l.w.keys {
		l.w.held = l.w.index.Match(l.w.now, keys, l.w.held)
		claim, truth := l.w.held[l.slot], l.engine.Overlap(kvmodel.Node(n))
		if l.state == engine.KVLive {
			require.Equal(l.w.t, truth, claim, "text %d", n)
			continue
		}
		require.LessOrEqual(l.w.t, claim.Device, truth.Device, "text %d", n)
		require.LessOrEqual(l.w.t, claim.Device+claim.Host, truth.Device+truth.Host, "text %d", n)
	}
	if l.state == engine.KVLive {
		l.w.equal++
	} else {
		l.w.partly++
	}
}

func (l *lane) step(in input) {
	l.w.now = l.w.now.Add(time.Millisecond)
	for _, e := range slices.Clone(l.machine.Step(l.w.now, in)) {
		switch e.kind {
		case askReplay:
			l.asked, l.from, l.served, l.late, l.answers, l.broken = e.attempt, e.from, false, false, nil, false
		case dropReplay:
			if e.attempt == l.asked {
				l.asked = 0
			}
		}
	}
	l.check()
}

// work lets the engine do something and publish it.
func (l *lane) work() {
	events := l.engine.Step()
	if l.w.rng.IntN(60) == 0 {
		if cleared := l.engine.Reset(); cleared != nil {
			l.w.counts["reset"]++
			events = append(events, cleared...)
		}
	}
	l.count(events)
	l.publish(events)
}

func (l *lane) count(events []prefix.Event) {
	for _, e := range events {
		switch {
		case e.Kind == prefix.Removed:
			l.w.counts["eviction"]++
		case e.Kind == prefix.Stored && e.Tier == prefix.Host:
			l.w.counts["offload"]++
		}
	}
	if l.engine.Copies() > l.engine.Blocks() {
		l.w.counts["second copy"]++
	}
}

func (l *lane) publish(events []prefix.Event) {
	if len(events) == 0 {
		return
	}
	seq := uint64(len(l.history))
	at := time.Unix(int64(l.life)*worldLife+int64(seq), 0)
	wired := make([]kvpub.Event, len(events))
	for i, e := range events {
		wired[i].Event = e
	}
	m := message{life: l.life, seq: seq, payload: l.encoder.AppendBatch(nil, at, wired)}
	l.history = append(l.history, m)
	if l.up {
		l.send(m)
	}
}

// send puts a batch on the wire, or what becomes of it there.
func (l *lane) send(m message) {
	fate := ""
	if !l.w.calm && (!l.unseen || m.seq > 0) { // without its first batch nothing could tell of an unseen life
		fate = []string{"dropped", "doubled", "reordered", "garbled", "lost for good", "junk", "", "", "", "", "", ""}[l.w.rng.IntN(12)]
	}
	switch {
	case fate == "dropped":
	case fate == "doubled":
		l.wire = append(l.wire, m, m)
	case fate == "reordered" && len(l.wire) > 0 && l.wire[len(l.wire)-1].seq > 0:
		l.wire = slices.Insert(l.wire, len(l.wire)-1, m)
	case fate == "garbled":
		m.payload = m.payload[:l.w.rng.IntN(len(m.payload))]
		l.wire = append(l.wire, m)
	case fate == "lost for good":
		l.missing[m.seq] = true
	case fate == "junk":
		l.step(input{kind: junk})
		l.wire = append(l.wire, m)
	default:
		fate = ""
		l.wire = append(l.wire, m)
	}
	if fate != "" {
		l.w.counts[fate]++
	}
}

func (l *lane) deliver() {
	if len(l.wire) == 0 {
		return
	}
	if !l.w.calm && l.w.rng.IntN(8) == 0 {
		l.w.counts["delayed"]++ // others go on, and time does
		return
	}
	m := l.wire[0]
	l.wire = l.wire[1:]
	if m.life == l.life {
		l.unseen = false
	}
	l.step(input{kind: live, seq: m.seq, payload: m.payload})
}

func (l *lane) connect() {
	if !l.up {
		l.up, l.unseen = true, false
		l.step(input{kind: connected})
	}
}

func (l *lane) cut() {
	if l.up {
		l.up, l.wire = false, nil
		l.w.counts["cut"]++
		l.step(input{kind: broken})
	}
}

// restart begins a new life of the engine, whose hashes are those of the old one. Unless it is unseen the connection
// breaks first.
func (l *lane) restart(unseen bool) {
	if unseen {
		if !l.up || len(l.history) == 0 {
			return
		}
		l.unseen = true
		l.w.counts["restart unseen"]++
	} else {
		l.cut()
		l.w.counts["restart"]++
	}
	l.life++
	l.history, l.missing = nil, map[uint64]bool{}
	l.engine.Restart()
}

// serve answers the replay that was asked for, in one of the ways in which it can go wrong.
func (l *lane) serve() {
	if l.asked == 0 || l.served {
		return
	}
	fate := ""
	if !l.w.calm {
		fate = []string{"replay silent", "replay cut", "replay late", "replay with a hole", "replay garbled", "", "", "", "", ""}[l.w.rng.IntN(10)]
	}
	if fate == "replay late" && !l.late {
		l.late = true
		l.w.counts[fate]++
		return
	}
	l.served = true
	oldest := uint64(max(0, len(l.history)-l.ring))
	if l.from < oldest {
		l.w.counts["ring too short"]++
	}
	for _, m := range l.history {
		if m.seq >= max(l.from, oldest) && !l.missing[m.seq] {
			l.answers = append(l.answers, m)
		}
	}
	n := len(l.answers)
	switch {
	case fate == "replay silent":
		l.answers, l.broken = nil, true
	case fate == "replay cut" && n > 0:
		l.answers, l.broken = l.answers[:l.w.rng.IntN(n)], true
	case fate == "replay with a hole" && n > 2:
		at := l.w.rng.IntN(n)
		l.answers = slices.Delete(l.answers, at, at+1)
	case fate == "replay garbled" && n > 1:
		l.answers[l.w.rng.IntN(n)].payload = []byte{0x93}
	default:
		return
	}
	l.w.counts[fate]++
}

// answer hands on the next of the replay's answers, at last its end.
func (l *lane) answer() {
	switch {
	case l.asked == 0 || !l.served:
	case len(l.answers) > 0:
		m := l.answers[0]
		l.answers = l.answers[1:]
		l.step(input{kind: replayed, attempt: l.asked, seq: m.seq, payload: m.payload})
	case !l.broken:
		l.step(input{kind: replayEnded, attempt: l.asked})
	}
}

// wait lets time pass up to the machine's deadline.
func (l *lane) wait() {
	if at := l.machine.deadline(); !at.IsZero() {
		if at.After(l.w.now) {
			l.w.now = at
		}
		l.step(input{kind: tick})
	}
}

// act lets one of many things happen.
func (l *lane) act() {
	switch n := l.w.rng.IntN(100); {
	case n < 30:
		l.work()
	case n < 60:
		l.deliver()
	case n < 70:
		l.serve()
	case n < 88:
		for range 1 + l.w.rng.IntN(6) {
			l.answer()
		}
	case n < 92:
		l.connect()
	case n < 97:
		l.wait()
	case n < 98:
		l.cut()
	case n < 99:
		l.restart(false)
	default:
		l.restart(true)
	}
}

// heal lets everything arrive, and then a last word of the engine.
func (l *lane) heal() {
	l.connect()
	for range 40 {
		l.publish(l.engine.Step())
		for len(l.wire) > 0 {
			l.deliver()
		}
		for l.asked != 0 {
			l.serve()
			l.answer()
			if l.broken && len(l.answers) == 0 {
				break
			}
			if l.served && len(l.answers) == 0 {
				l.answer()
				l.asked = 0
			}
		}
		l.wait()
	}
}

// TestIndexEqualsEngines: random engines that evict, offload, keep copies, reset and restart publish over a network that
// drops, doubles, reorders, garbles and delays, and answers replays badly. Whenever a live feed has told all that its engine
// did, the index holds exactly what the engine does; a partial one holds nothing more; a void one nothing. After the faults
// have ended every feed recovers: it is live again, or partial where what happened is nowhere to be had, and the next reset
// of the cache makes it whole.
func TestIndexEqualsEngines(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 30
	}
	counts := map[string]int{}
	equal, partly, live, partial := 0, 0, 0, 0
	for seed := range seeds {
		w := newWorld(t, seed, counts)
		for range 600 {
			w.lanes[w.rng.IntN(len(w.lanes))].act()
		}
		w.calm = true
		for _, l := range w.lanes {
			l.heal()
			require.NotEqual(t, engine.KVReplaying, l.state, "seed %d: healed", seed)
			if l.state == engine.KVLive {
				live++
			} else {
				partial++
				l.emptied()
			}
			before := w.equal
			l.check()
			require.Equal(t, before+1, w.equal, "seed %d: a healed feed has told all", seed)
		}
		equal, partly = equal+w.equal, partly+w.partly
	}
	t.Logf("%d comparisons live, %d partial; healed: %d live, %d partial", equal, partly, live, partial)
	require.Greater(t, live, partial)
	require.Positive(t, partly)
	for _, kind := range mishaps {
		t.Logf("%6d %s", counts[kind], kind)
		require.Positive(t, counts[kind], kind)
	}
}

// emptied has the engine drop its cache, and tell.
func (l *lane) emptied() {
	for l.engine.Running() > 0 {
		l.publish(l.engine.Step())
	}
	l.publish(l.engine.Reset())
	for len(l.wire) > 0 {
		l.deliver()
	}
	require.Equal(l.w.t, engine.KVLive, l.state, "after a reset")
}
