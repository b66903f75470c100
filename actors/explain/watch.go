package explain

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"plimsoll/actors/meter"
	"plimsoll/scoring"
	"plimsoll/scoring/policy"
)

// Deps are what a watch needs from outside.
type Deps struct {
	Log      *slog.Logger
	Meter    *meter.Decisions // nil: nothing is counted
	Panicked func()           // hears of a panic that was survived
}

// Watch takes in what a model's routers tell, in a goroutine of its own. A nil one takes in nothing.
type Watch struct {
	cfg   Config
	model string
	deps  Deps

	in       chan *Batch
	free     chan *Batch
	behind   atomic.Int64 // bytes in the channel
	done     chan struct{}
	ended    chan struct{}
	shadows  []*shadow
	instance uint64 // of the last batch

	// Of the batch that is taken in; the goroutine's own.
	pass  policy.Pass
	last  *note // decided last
	batch *Batch

	mu      sync.Mutex
	records []*Record // the oldest first
	bytes   int
	entries map[uint64][]*Record // that wait or are being reserved
	open    map[scoring.Ticket]*open
	gone    int // records dropped since open was tidied
}

// open is a reservation whose outcome is awaited.
type open struct {
	record  *Record
	replica scoring.ReplicaID
	claim   scoring.Tokens // its prompt
	running
}

// New returns a watch that takes in nothing before Start. Shadows are policies that are tried on what happens.
func New(cfg Config, model string, shadows []policy.Config, seed uint64, deps Deps) (*Watch, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &Watch{
		cfg: cfg, model: model, deps: deps, in: make(chan *Batch, cfg.BatchesMax), free: make(chan *Batch, freeMax),
		done: make(chan struct{}), ended: make(chan struct{}), entries: map[uint64][]*Record{}, open: map[scoring.Ticket]*open{},
	}
	for i, c := range shadows {
		s := &shadow{cfg: c, rng: rand.New(rand.NewPCG(seed, uint64(i)))} //nolint:gosec // ties are no secret
		if err := s.renew(); err != nil {
			return nil, fmt.Errorf("shadow policy: %w", err)
		}
		w.shadows = append(w.shadows, s)
	}
	return w, nil
}

// freeMax and freeBytes bound the memory that is kept for batches to come.
const (
	freeMax   = 16
	freeBytes = 1 << 20
)

// Start lets it take in, until Close.
func (w *Watch) Start() {
	if w != nil {
		go w.run()
	}
}

// Close ends it. Nothing is taken in any more; what is remembered can still be read.
func (w *Watch) Close() {
	if w != nil {
		close(w.done)
		<-w.ended
	}
}

func (w *Watch) run() {
	defer close(w.ended)
	for {
		select {
		case b := <-w.in:
			w.behind.Add(-int64(b.bytes()))
			w.Take(b)
			w.Keep(b)
		case <-w.done:
			return
		}
	}
}

// Batch returns an empty one to be filled, and then given to Tell or to Keep; nil where nobody watches.
func (w *Watch) Batch() *Batch {
	if w == nil {
		return nil
	}
	select {
	case b := <-w.free:
		return b
	default:
		return &Batch{}
	}
}

// Tell takes a batch over. It never waits: what there is no room for is dropped and counted.
func (w *Watch) Tell(b *Batch) {
	bytes := int64(b.bytes())
	if w.behind.Add(bytes) <= int64(w.cfg.BatchBytesMax) {
		select {
		case w.in <- b:
			return
		default:
		}
	}
	w.behind.Add(-bytes)
	decisions := 0
	for i := range b.notes {
		if b.notes[i].kind == decided {
			decisions++
		}
	}
	w.deps.Meter.Dropped(len(b.notes))
	for _, s := range w.shadows {
		w.deps.Meter.Shadow(s.cfg.Name, Dropped.String(), decisions)
	}
	w.Keep(b)
}

// Keep takes an unused batch back.
func (w *Watch) Keep(b *Batch) {
	if b.bytes() > freeBytes {
		return
	}
	b.clear()
	select {
	case w.free <- b:
	default:
	}
}

// Take takes a batch in at once, where there is no goroutine that does: in simulations. A panic costs the batch and what the shadows know.
func (w *Watch) Take(b *Batch) {
	defer func() {
		if p := recover(); p != nil {
			w.deps.Log.Error("goroutine panicked",
				slog.String("goroutine", "decisions"), slog.Any("reason", p), slog.String("stack", string(debug.Stack())))
			w.deps.Panicked()
			for _, s := range w.shadows {
				_ = s.renew() // its configuration was good before
			}
		}
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.Instance != w.instance {
		w.reborn(b.Instance)
	}
	w.batch, w.last = b, nil
	for i := range b.notes {
		w.note(&b.notes[i])
	}
	w.batch, w.last = nil, nil
	w.evict()
}

// reborn gives up what waited in an earlier instance of the router: it is submitted anew.
func (w *Watch) reborn(instance uint64) {
	w.instance = instance
	for _, records := range w.entries {
		for _, r := range records {
			r.State = Lost
			w.settle(r)
		}
	}
	clear(w.entries)
}

func (w *Watch) note(n *note) {
	switch n.kind {
	case laid:
		w.pass.Begin(n.at, w.batch.fleets[n.fleet.from:n.fleet.to:n.fleet.to], n.queue)
		for _, s := range w.shadows {
			s.policy.Begin(&w.pass)
		}
	case changed:
		w.pass.Fleet[n.index] = w.batch.fleets[n.fleet.from]
		w.pass.Booked(n.index)
		for _, s := range w.shadows {
			s.policy.Look(n.index)
		}
	case decided:
		w.decided(n)
	case dispatched:
		for _, s := range w.shadows {
			s.policy.OnDispatch(&w.last.demand, w.fits(w.last), n.index)
		}
	case firstToken:
		for _, s := range w.shadows {
			s.policy.OnFirstToken(n.replica)
		}
		w.firstToken(n)
	case finished, failed:
		for _, s := range w.shadows {
			s.policy.OnEnd(n.replica)
		}
		w.over(n)
	case held, queued, reserving, denied, placed, rejected, withdrawn:
		w.moved(n)
	}
}

func (w *Watch) fits(n *note) []policy.Fit { return w.batch.fits[n.fits.from:n.fits.to] }

// decided lays a decision out, and asks the shadows what they would do.
func (w *Watch) decided(n *note) {
	w.last = n
	logs := w.deps.Log.Enabled(context.Background(), slog.LevelDebug)
	var r *Record
	var table policy.Table
	if w.cfg.Records > 0 || logs {
		table = w.table(n)
	}
	if logs {
		w.deps.Log.Debug("decision", slog.String("request", n.subject.Request), slog.Int("leg", n.subject.Leg), slog.String("table", table.String()))
	}
	if w.cfg.Records > 0 {
		r = w.record(n)
		r.Policy, r.OutputTokens = w.batch.policyName, int(n.demand.OutputTokens) // it may have waited before anybody decided
		r.look(n.at, &table)
		r.Shadows = r.Shadows[:min(len(r.Shadows), len(w.shadows))] // those of the first decision stay
	}
	if !n.decision.ByPolicy() {
		if r != nil {
			w.settle(r)
		}
		return // what the router has refused alone says nothing of policies
	}
	for _, s := range w.shadows {
		would, outcome := s.judge(&n.demand, w.fits(n), n.decision)
		w.deps.Meter.Shadow(s.cfg.Name, outcome.String(), 1)
		if r != nil {
			r.Shadows = append(r.Shadows, s.said(r.after(n.at), would, outcome, &table))
		}
	}
	if r != nil {
		w.settle(r)
	}
}

// table lays a decision out.
func (w *Watch) table(n *note) policy.Table {
	b := w.batch
	t := policy.Lay(b.terms, &w.pass, &n.demand, w.fits(n), b.values[n.values.from:n.values.to])
	t.Decided(n.decision)
	return t
}

// record finds a leg's record, or begins it.
func (w *Watch) record(n *note) *Record {
	if r := w.find(n.subject.Entry, n.subject.Leg); r != nil {
		return r
	}
	r := begin(w.model, w.batch.policyName, n, w.pass.Queue.Requests)
	w.keep(r)
	return r
}

// keep remembers a new record.
func (w *Watch) keep(r *Record) {
	w.records = append(w.records, r)
	w.entries[r.entry] = append(w.entries[r.entry], r)
}

// begin returns the record of a first decision.
func begin(model, name string, n *note, waiting int) *Record {
	return &Record{
		Request: cut(n.subject.Request), Model: model, Policy: name, Kind: n.subject.Kind.String(), Leg: n.subject.Leg, At: n.at,
		State: Waiting, PromptTokens: int(n.demand.PromptTokens), OutputTokens: int(n.demand.OutputTokens),
		QueuedRequests: waiting, entry: n.subject.Entry,
	}
}

func (w *Watch) find(entry uint64, leg int) *Record {
	for _, r := range w.entries[entry] {
		if r.Leg == leg {
			return r
		}
	}
	return nil
}

// closed: nothing more is heard of a record by its entry.
func (w *Watch) closed(r *Record) {
	left := slices.DeleteFunc(w.entries[r.entry], func(o *Record) bool { return o == r })
	if len(left) == 0 {
		delete(w.entries, r.entry)
		return
	}
	w.entries[r.entry] = left
}

// settle counts a record as it is now. One that was dropped counts nothing.
func (w *Watch) settle(r *Record) {
	r.summarize()
	if r.bytes >= 0 {
		n := r.size()
		w.bytes += n - r.bytes
		r.bytes = n
	}
}

// evict drops the oldest records while there are too many.
func (w *Watch) evict() {
	n := 0
	for n < len(w.records) && (len(w.records)-n > w.cfg.Records || w.bytes > w.cfg.Bytes) {
		r := w.records[n]
		w.closed(r)
		w.bytes -= r.bytes
		r.bytes, r.Looks, r.Holds, r.Denials, r.Shadows = -1, nil, nil, nil, nil // a prediction may still point to it
		n++
	}
	if n > 0 {
		clear(w.records[:n])
		w.records = w.records[n:]
		w.gone += n
	}
}

// tidyShare of the predictions that may wait for their outcome must have lost their records, as far as is known, for them to be
// looked through.
const tidyShare = 1.0 / 16

// tidy gives up predictions whose records are gone: the outcome of some is lost, with a batch that there was no room for.
func (w *Watch) tidy() {
	if float64(w.gone) < tidyShare*float64(w.cfg.OpenMax) {
		return
	}
	w.gone = 0
	maps.DeleteFunc(w.open, func(_ scoring.Ticket, o *open) bool { return o.record.bytes < 0 })
}

// Recent returns the last records, the newest first.
func (w *Watch) Recent(most int) []Record {
	return w.some(most, func(*Record) bool { return true })
}

// Find returns the records of a request, by its client-visible ID, the newest first.
func (w *Watch) Find(request string) []Record {
	request = cut(request)
	return w.some(w.cfg.Records, func(r *Record) bool { return r.Request == request })
}

func (w *Watch) some(most int, wanted func(*Record) bool) []Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Record
	for i := len(w.records) - 1; i >= 0 && len(out) < most; i-- {
		if wanted(w.records[i]) {
			out = append(out, w.records[i].copied())
		}
	}
	return out
}

// Suppose makes a record of what would be done: the last decision of its batch, none of which was acted on, and why a router would
// turn it away.
func Suppose(model string, b *Batch) Record {
	w := &Watch{batch: b}
	var r *Record
	for i := range b.notes {
		switch n := &b.notes[i]; n.kind { //nolint:exhaustive // no other is in it
		case laid:
			w.pass.Begin(n.at, b.fleets[n.fleet.from:n.fleet.to], n.queue)
		case decided:
			table := w.table(n)
			r = begin(model, b.policyName, n, w.pass.Queue.Requests)
			r.look(n.at, &table)
			r.suppose(&table)
		case rejected:
			r.Summary = "would be refused (" + r.Looks[0].Cause + "): " + n.why
		}
	}
	return r.copied()
}
