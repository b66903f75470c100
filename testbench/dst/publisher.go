package dst

import (
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll/scoring/prefix"
	"plimsoll/testbench/kvpub"
)

// publisher is what an engine's process says of its cache, and what can be asked of it again. Its address outlives the
// process, and a killed process may leave an orphan there, which answers replays until another life begins.
type publisher struct {
	w *world
	p *process

	// What does not change.
	wire     kvpub.Config
	replays  bool          // it answers them
	bound    int           // batches that it keeps for them
	absentBy time.Duration // until then subscriptions are told that nothing is published
	mute     window        // nothing comes through, and no connection tells
	outages  []window      // no connection lasts, and none is made
	proxied  bool          // connections outlive the process: its next life publishes on them

	encoder *kvpub.Encoder
	lives   []*life // by number, from 1
	up      bool    // the last of them runs
	orphan  bool    // or its process has died and left somebody who answers
	orphans bool    // the next kill leaves one

	shaking *link     // a connection that waits for a stopped process to answer
	waiting []request // replays that do
}

// life is one life of an engine, as it was published: the batches that it keeps, and the checkers' account of all of them.
type life struct {
	number    uint64
	kept      [][]byte // the payloads from number kept0 on
	kept0     uint64
	published uint64
	account   account
	over      bool
	ended     time.Duration // when it was
}

// request asks for a replay.
type request struct {
	link    *link
	attempt uint64
	from    uint64
}

// window is from when to when something is so; the heal ends it.
type window struct{ from, to time.Duration }

func (o window) is(w *world) bool { return w.healed == none && w.now >= o.from && w.now < o.to }

// lifeSeconds keeps lives apart in the times that batches carry: a batch says in it which one it is.
const lifeSeconds = 1_000_000

// drawPublisher draws what does not change. A process then has it serve.
func (w *world) drawPublisher() *publisher {
	b := &publisher{replays: !w.chance(0.1), bound: 10_000, absentBy: none}
	if w.chance(0.2) {
		b.bound = 2 + w.rng.IntN(60)
	}
	b.proxied = w.chance(0.15)
	for w.chance(0.3) {
		from := w.between(0, w.plan.safety)
		b.outages = append(b.outages, window{from, from + w.between(10*time.Millisecond, 8*time.Second)})
	}
	b.wire = kvpub.DefaultConfig()
	if w.chance(0.25) {
		b.wire = kvpub.SGLangConfig()
	}
	b.wire.Form = kvpub.Form(w.rng.IntN(int(kvpub.NumForms)))           //nolint:gosec // an enum
	b.wire.Hashes = kvpub.HashForm(w.rng.IntN(int(kvpub.NumHashForms))) //nolint:gosec // an enum
	b.wire.StoredFields = kvpub.Newest - w.rng.IntN(kvpub.Newest-fieldsMin+1)
	if w.plan.adapter > 0 {
		b.wire.Dialect = kvpub.VLLM // SGLang does not tell adapters' names
	}
	if w.chance(0.15) { // a network that lets nothing through, or a publisher that was not yet turned on
		from := w.between(0, w.plan.safety)
		b.mute = window{from, from + w.between(time.Second, 6*time.Second)}
		if w.chance(0.3) {
			b.absentBy = b.mute.to
		}
	}
	return b
}

// alike is a publisher that is drawn as this one was.
func (b *publisher) alike() *publisher {
	return &publisher{
		wire: b.wire, replays: b.replays, bound: b.bound, absentBy: b.absentBy, mute: b.mute, outages: b.outages, proxied: b.proxied,
	}
}

// serves begins the first life of a process's publisher.
func (b *publisher) serves(p *process) {
	b.w, b.p = p.w, p
	for _, o := range b.outages {
		b.w.at(o.from, evFeed).msg = b
	}
	b.begin()
}

// fieldsMin is the oldest array form that tells of salts.
const fieldsMin = 9

func (b *publisher) life() *life { return b.lives[len(b.lives)-1] }

// begin begins a life: its batches are numbered from 0. An orphan goes, as it would hold the ports.
func (b *publisher) begin() {
	if b.orphan {
		b.orphan = false
		b.dropAll(false)
	}
	b.up = true
	b.encoder = kvpub.NewEncoder(b.wire)
	b.lives = append(b.lives, &life{number: uint64(len(b.lives)) + 1, account: newAccount()})
	if l := b.p.host.feed.link; l != nil && l.up && b.proxied {
		l.life, l.heeded, l.missed, l.unseen = b.life(), b.life(), 0, true
	}
	if b.wire.Dialect == kvpub.SGLang {
		b.publish([]prefix.Event{{Kind: prefix.Cleared}})
	}
}

// end ends a life. A silent end is one that no connection tells of.
func (b *publisher) end(silent bool) {
	b.up = false
	b.life().over, b.life().ended = true, b.w.now
	b.orphan, b.orphans = b.orphans && !silent, false
	switch {
	case b.orphan:
	case b.proxied:
		if l := b.p.host.feed.link; l != nil {
			l.heeded = nil
		}
	default:
		b.dropAll(silent)
	}
}

// dropAll breaks all connections.
func (b *publisher) dropAll(silent bool) {
	b.shaking = nil
	waiting := b.waiting
	b.waiting = nil
	for _, r := range waiting {
		if !silent {
			r.link.in(b.w.network(), wire{kind: wireFailed, attempt: r.attempt})
		}
	}
	if l := b.p.host.feed.link; l != nil {
		l.lose(silent)
	}
}

// answers says whether somebody is at the address, and can be reached.
func (b *publisher) answers() bool {
	return (b.up || b.orphan) && !slices.ContainsFunc(b.outages, func(o window) bool { return o.is(b.w) })
}

// publish numbers a batch, keeps it and sends it to whoever listens.
func (b *publisher) publish(events []prefix.Event) {
	l := b.life()
	seq := l.published
	wired := make([]kvpub.Event, len(events))
	for i := range events {
		wired[i].Event = events[i]
	}
	at := time.Unix(int64(l.number*lifeSeconds+seq), 0) //nolint:gosec // small
	payload := b.encoder.AppendBatch(nil, at, wired)
	l.published++
	l.account.apply(seq, events)
	l.kept = append(l.kept, payload)
	if len(l.kept) > b.bound {
		l.kept[0] = nil
		l.kept = l.kept[1:]
		l.kept0++
	}
	if o := b.p.host.feed.link; o != nil && o.heeded == l {
		b.w.kvBatches++
		o.send(seq, payload)
	}
}

// silent says that nothing comes through at the moment.
func (b *publisher) silent() bool { return b.mute.is(b.w) }

// ask takes a request for a replay, which a stopped process answers when it goes on.
func (b *publisher) ask(r request) {
	w := b.w
	switch {
	case !b.answers():
		r.link.in(w.network(), wire{kind: wireFailed, attempt: r.attempt})
	case b.p.frozen():
		b.waiting = append(b.waiting, r)
	case !b.silent():
		b.answer(r)
	}
}

// thaw does what has waited for the process.
func (b *publisher) thaw() {
	waiting, shaking := b.waiting, b.shaking
	b.waiting, b.shaking = nil, nil
	if shaking != nil {
		shaking.shakes()
	}
	for _, r := range waiting {
		b.ask(r)
	}
}

// harm is what becomes of an answer.
type harm uint8

const (
	harmSlow    harm = iota // it takes its time, now and then more than is waited for
	harmBreaks              // it breaks off
	harmShort               // its older part is gone
	harmHole                // one batch of it is
	harmGarbled             // one batch of it can't be read

	numHarms
)

// answer sends what is kept from a number on, and the end marker. It may come to harm.
func (b *publisher) answer(r request) {
	w, l := b.w, b.life()
	first := max(r.from, l.kept0)
	var batches []wire
	for seq := first; seq < l.published; seq++ {
		batches = append(batches, wire{kind: wireAnswer, attempt: r.attempt, life: l, seq: seq, payload: l.kept[seq-l.kept0]})
	}
	last := wire{kind: wireEnded, attempt: r.attempt, life: l}
	pause := time.Duration(0)
	if n := len(batches); w.healed == none && w.chance(w.plan.badReplays) {
		switch harm(w.rng.IntN(int(numHarms))) { //nolint:gosec // an enum
		case harmSlow:
			pause = w.between(0, 8*time.Second)
		case harmBreaks:
			batches = batches[:w.rng.IntN(n+1)]
			last.kind = wireFailed
		case harmShort:
			batches = batches[n/2:]
		case harmHole:
			if n > 2 {
				at := w.rng.IntN(n)
				batches = append(batches[:at], batches[at+1:]...)
			}
		case harmGarbled:
			if n > 1 {
				batches[w.rng.IntN(n)].payload = garbled
			}
		case numHarms:
		}
	}
	r.link.answer(pause, append(batches, last))
}

// garbled is no batch: msgpack never uses its byte.
var garbled = []byte{0xc1}

// entropyOf is a source of random bits of a host's own.
func (w *world) entropyOf(h *host, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(w.cfg.Seed^uint64(h.n)<<32, stream)) //nolint:gosec // small
}
