package fleet

import (
	"errors"
	"fmt"
	"io"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/testbench/agenda"
	"plimsoll/testbench/trace"
)

// kind says what an event does.
type kind uint8

const (
	evArrive kind = iota // the next request comes
	evPass               // an engine's forward pass is over
	evBatch              // cache events arrive
	evTick               // a machine's timer rings
	evProbe              // a replica is probed
	evSample             // a point of the series is taken
)

// event is one thing that happens at a time. Which fields mean anything depends on its kind.
type event struct {
	kind kind
	host *host // evTick: of it, of the call, or of the router
	call *call
	n    uint64 // evPass: the pass; evProbe: the run of probes
	kv   *batch
}

// actor takes messages, one at a time.
type actor interface{ receive(message any) }

// letter is a message on its way.
type letter struct {
	to      actor
	message any
}

// world is one run.
type world struct {
	cfg     Config
	source  trace.Source
	base    time.Time
	agenda  agenda.Agenda[event]
	mail    []letter // in the order in which they were sent
	read    int      // of mail
	text    trace.Text
	budget  *stream.Budget
	indexes *replica.Indexes

	front    front
	hosts    []*host
	byRef    map[*fleet.Ref]*host
	byHandle map[*stream.Call]*call
	live     []*call // in no order
	coming   *trace.Request
	dry      bool // the source has ended
	tickets  uint64

	samples []Sample
	series  []Point
	events  uint64
	tell    func(Progress)
	err     error
}

// Progress is how far a run is.
type Progress struct {
	Arrived, Ended int
	Virtual        time.Duration
}

// Run replays a trace to its end. tell hears of the progress now and then, on the caller's goroutine; nil: nobody does.
func Run(cfg Config, source trace.Source, tell func(Progress)) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &world{
		cfg: cfg, source: source, base: time.Unix(1_000_000, 0), text: trace.Text{VocabSize: vocabulary},
		budget: stream.NewBudget(), indexes: replica.NewIndexes(Model), byRef: map[*fleet.Ref]*host{},
		byHandle: map[*stream.Call]*call{}, tell: tell,
	}
	if err := w.begin(); err != nil {
		return nil, err
	}
	for w.err == nil && !w.over() {
		e := w.agenda.Next()
		if e == nil {
			return nil, errors.New("fleet: requests are left, and nothing is to happen")
		}
		w.events++
		w.handle(e)
		w.agenda.Done(e)
		w.deliver()
	}
	if w.err != nil {
		return nil, w.err
	}
	if err := w.idle(); err != nil {
		return nil, err
	}
	return w.result(), nil
}

// begin sets the fleet up, and waits until it serves.
func (w *world) begin() error {
	for i := range w.cfg.Engines {
		h, err := newHost(w, i)
		if err != nil {
			return err
		}
		w.hosts = append(w.hosts, h)
		w.byRef[h.ref] = h
		w.front.fleet = append(w.front.fleet, h.ref)
	}
	if err := w.front.start(w); err != nil {
		return err
	}
	for _, h := range w.hosts {
		h.start()
	}
	w.deliver()
	for _, h := range w.hosts {
		if s := h.ref.Snapshot(); s.State != fleet.Ready {
			return fmt.Errorf("fleet: %s is %s, and not ready", h.ref.ID, s.State)
		}
	}
	w.fetch()
	w.at(0, evSample)
	w.deliver()
	return w.err
}

// over says that all requests have come and ended.
func (w *world) over() bool { return w.dry && w.coming == nil && len(w.live) == 0 }

func (w *world) at(at time.Duration, k kind) *event {
	e := w.agenda.At(at)
	e.kind = k
	return e
}

func (w *world) now() time.Duration              { return w.agenda.Now() }
func (w *world) time() time.Time                 { return w.base.Add(w.agenda.Now()) }
func (w *world) since(t time.Time) time.Duration { return t.Sub(w.base) }
func (w *world) post(to actor, message any)      { w.mail = append(w.mail, letter{to, message}) }
func (w *world) hostOf(ref *fleet.Ref) *host     { return w.byRef[ref] }
func (w *world) newTicket() scoring.Ticket {
	w.tickets++
	return scoring.Ticket{Boot: 1, Number: w.tickets}
}

func (w *world) ring(at time.Time, h *host, c *call) {
	e := w.at(w.since(at), evTick)
	e.host, e.call = h, c
}

func (w *world) handle(e *event) {
	switch e.kind {
	case evArrive:
		w.arrive()
	case evPass:
		e.host.pass(e.n)
	case evBatch:
		e.host.heard(e.kv)
	case evTick:
		switch {
		case e.host != nil:
			e.host.tick()
		case e.call != nil:
			e.call.timeout()
		default:
			w.front.tick()
		}
	case evProbe:
		e.host.probe(e.n)
	case evSample:
		w.sample()
	}
}

// deliver handles all messages, and those that follow from them.
func (w *world) deliver() {
	for {
		for w.read < len(w.mail) {
			l := w.mail[w.read]
			w.mail[w.read] = letter{}
			w.read++
			l.to.receive(l.message)
		}
		w.mail, w.read = w.mail[:0], 0
		if w.cfg.Backlog == nil || w.coming == nil || w.front.m.Residue().Queued >= *w.cfg.Backlog {
			return
		}
		w.arrive()
	}
}

// fetch reads the next request, and enters when it comes.
func (w *world) fetch() {
	r, err := w.source.Next()
	switch {
	case errors.Is(err, io.EOF):
		w.dry, w.coming = true, nil
		return
	case err != nil:
		w.err, w.coming = err, nil
		return
	}
	w.coming = &r
	if w.cfg.Backlog == nil {
		w.at(r.At, evArrive)
	}
}

// tellEvery is how many requests come between two words of progress.
const tellEvery = 64

// arrive has the next request come.
func (w *world) arrive() {
	c := w.newCall(*w.coming)
	w.fetch()
	c.start()
	if w.tell != nil && (len(w.samples)%tellEvery == 0 || w.coming == nil) {
		w.tell(Progress{Arrived: len(w.samples), Ended: len(w.samples) - len(w.live), Virtual: w.now()})
	}
}

// idle says what is left of requests when there are none.
func (w *world) idle() error {
	if r := w.front.m.Residue(); r.Queued+r.QueuedCalls+r.Deadlines+r.Asking+r.Tickets+r.Booked > 0 || r.QueuedTokens > 0 {
		return fmt.Errorf("fleet: the router holds what nobody asks for any more: %+v", r)
	}
	for _, h := range w.hosts {
		if !h.m.Empty() {
			return fmt.Errorf("fleet: the ledger of %s is not empty", h.ref.ID)
		}
		if s := h.engine.Status(); s.Running+s.Waiting+s.UsedBlocks > 0 {
			return fmt.Errorf("fleet: the engine of %s is not idle: %+v", h.ref.ID, s)
		}
	}
	return nil
}
