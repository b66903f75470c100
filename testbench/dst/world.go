package dst

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// Config says what to run.
type Config struct {
	Seed  uint64
	Log   io.Writer // hears of everything that happens; nil: nobody does
	Plant *Plant    // a bug to find; nil: none
	// AllIDs: no engine loses IDs. The second driver's tokenizer could not turn what they read back into them.
	AllIDs bool
}

// Result is what a run has come to.
type Result struct {
	Seed      uint64
	Digest    uint64 // of the log
	Events    uint64
	Replicas  int
	Legs      int
	KVBatches uint64
	Attempts  int
	Hedges    int // attempts among them that were begun beside a first one
	HedgesWon int // of these, those that gave the answer
	PutOff    int // drains that waited for another replica to serve
	Twice     int // legs that waited on a second replica that fell silent with them
	Virtual   time.Duration
	Ends      [NumEnds]int // calls, by how they ended
	Coverage  Coverage
	Index     IndexSeen
	Queue     QueueSeen
	Violation *Violation // nil: all held
}

// Worth says whether the run reached the floors of a run that proves anything.
func (r *Result) Worth() bool {
	return r.Replicas >= ReplicasFloor && r.Legs >= LegsFloor && r.Events >= EventsFloor && r.KVBatches > 0
}

// End is how a request ended.
type End uint8

// Ends of a request.
const (
	Finished End = iota
	Refused
	Failed
	Cancelled

	NumEnds
)

// String returns the word used in tables.
func (e End) String() string { return [NumEnds]string{"finished", "refused", "failed", "cancelled"}[e] }

// world is one run.
type world struct {
	clock

	cfg  Config
	plan plan
	rng  *rand.Rand
	log  record
	base time.Time

	events    uint64
	kvBatches uint64
	bad       *Violation
	coverage  Coverage
	refused   map[uint64]refusedCall // by the attempt's ticket
	index     IndexSeen
	held      []prefix.Overlap // scratch

	boxes     int32
	indexes   *replica.Indexes
	router    front
	node      node
	live      *stream.Live
	hosts     []*host // all that were ever there
	hostsMade int
	calls     []*call
	deeds     []deed // what has happened to the fleet and to clients
	byHandle  map[*stream.Call]*call
	tickets   []ticketRecord // by number
	callsMade int
	legs      int
	attempts  int
	canaries  int
	hedges    int // begun
	hedgesWon int
	putOff    int
	queue     QueueSeen
	shares    shares
	robbed    robbed
	prefixes  [][]uint32 // beginnings that prompts share

	healed  time.Duration // none: not yet
	waved   bool
	wavedAt time.Duration
	wall    time.Duration       // what the wall clock shows beside the true time
	outside func(e *event) bool // who else runs the clients of the engines, and has taken an event; nil: nobody does
	panics  int                 // of the router
}

// ticketRecord is what became of a ticket.
type ticketRecord struct {
	host     *host
	call     *call          // for which it was asked
	sub      *stream.Submit // likewise
	blocks   scoring.Blocks // of its claim
	answered bool           // by the replica, as far as the router knows
	reserved time.Duration
	epoch    uint64 // of the router that asked
	grants   int
	releases int // messages that end it
}

func newWorld(cfg Config) *world {
	return &world{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x9e3779b97f4a7c15)), base: dawn(),
		log: record{out: cfg.Log}, indexes: replica.NewIndexes(modelName), byHandle: map[*stream.Call]*call{}, refused: map[uint64]refusedCall{},
		tickets: make([]ticketRecord, 1, 256), healed: none, live: stream.NewLive(),
	}
}

// Run runs one seed.
func Run(cfg Config) Result { return newWorld(cfg).run() }

func (w *world) run() (result Result) {
	defer func() {
		if value := recover(); value != nil {
			w.violate(Sanity, "panic: %v\n%s", value, debug.Stack())
		}
		result = w.result()
	}()
	w.drawPlan()
	w.begins()
	for w.bad == nil && !w.over() {
		e := w.next()
		if e.kind != evFault && e.kind != evWatch { // nothing has happened yet where somebody looks around
			w.events++
		}
		w.dispatch(e)
		w.done(e)
	}
	return result
}

func (w *world) result() Result {
	r := Result{
		Seed: w.cfg.Seed, Digest: w.log.digest, Events: w.events, Replicas: w.plan.replicas, Legs: w.legs, KVBatches: w.kvBatches,
		Attempts: w.attempts, Hedges: w.hedges, HedgesWon: w.hedgesWon, PutOff: w.putOff, Virtual: w.now, Coverage: w.coverage, Index: w.index, Queue: w.queue, Violation: w.bad,
	}
	for _, c := range w.calls {
		r.Twice += c.m.Twice()
		if c.ended {
			r.Ends[c.end()]++
		}
	}
	return r
}

// begins sets the fleet up and draws traffic and faults.
func (w *world) begins() {
	w.router = front{w: w}
	w.router.box = mailbox{w: w, owner: &w.router, id: w.newBox()}
	w.node.open(w)
	w.router.start()
	for range w.plan.replicas {
		w.node.add(w.join())
	}
	w.node.members.Begin(w.node.shell())
	w.drawPrefixes()
	for w.legs < w.plan.legs {
		c := w.newCall(false)
		w.in(time.Duration(w.rng.Int64N(int64(w.plan.safety+2*time.Second))), evCall).call = c
	}
	for range w.plan.faults {
		if f, ok := w.drawFault(); ok {
			w.in(w.between(200*time.Millisecond, w.plan.safety), evFault).fault = f
		}
	}
	w.in(watchEvery, evWatch)
	w.rush()
	w.recall()
	w.relieve()
	w.single()
	w.besiege()
	w.relapse()
	w.echo()
	w.chats()
	w.sluggishEngines()
}

func (w *world) dispatch(e *event) {
	if w.outside != nil && w.outside(e) {
		return
	}
	switch e.kind {
	case evMail:
		e.box.deliver()
	case evDirect:
		e.box.direct(e.msg)
	case evTick:
		w.ring(e)
	case evProbe:
		if e.n == e.host.connection.run {
			e.host.connection.probe()
		}
	case evProbed:
		if p, ok := e.msg.(probed); ok && e.n == e.host.connection.run {
			e.host.connection.done(p)
		}
	case evArrive, evHangUp:
		e.host.p.take(e)
	case evPass:
		e.host.p.pass(e.n)
	case evFrame:
		w.frame(e)
	case evReturn:
		err, _ := e.msg.(error)
		if e.attempt.call == nil {
			e.attempt.host.canaryDone(e.attempt, err)
		} else {
			e.attempt.call.returned(e.attempt, err)
		}
	case evFeed:
		switch m := e.msg.(type) {
		case *wire:
			m.link.comes(m)
		case *publisher:
			if !m.answers() { // an outage begins
				m.dropAll(false)
			}
		}
	case evRevive:
		if e.host == nil {
			w.router.start()
		} else if !e.host.box.closed {
			e.host.start()
		}
	case evCall:
		e.call.start()
	case evLeave:
		e.call.leave()
	case evEncoded:
		e.box.post(e.box, e.msg)
	case evFault:
		w.fall(e)
	case evRecover:
		w.recovers(e.fault, e.host)
	case evOrder:
		switch {
		case e.host == nil:
			w.relief(e.leave, time.Duration(e.n)*time.Millisecond) //nolint:gosec // some
		case e.fault == Drain, e.fault == Undrain:
			w.order(e.host, e.fault, e.leave)
		default:
			w.relapsed(e.host, e.fault)
		}
	case evWatch:
		w.watch()
	}
}

func (w *world) ring(e *event) {
	switch {
	case e.box != nil:
		if f := &e.host.feed; e.box == f.box && f.armed != none && w.now >= f.armed {
			f.armed = none
			f.tick()
		}
	case e.host != nil:
		if e.n == e.host.epoch && w.now >= e.host.armed && e.host.armed != none {
			e.host.armed = none
			e.host.tick()
		}
	case e.call != nil:
		if e.call.armed != none && w.now >= e.call.armed {
			e.call.armed = none
			e.call.timeout()
		}
	case e.n == w.router.epoch && w.router.armed != none && w.now >= w.router.armed:
		if w.router.box.suspended {
			return
		}
		w.router.armed = none
		w.router.tick()
	}
}

func (w *world) frame(e *event) {
	ev, ok := e.msg.(*engineEvent)
	a := e.attempt
	if !ok || a.returned {
		return
	}
	over := a.over
	if !a.cancelled && !over {
		a.hears(ev.Tokens)
		if ev.CachedTokens != nil {
			a.cached = ev.CachedTokens
		}
		a.over = ev.Finish != nil
	}
	if a.call == nil {
		return // a canary's
	}
	if !over && (len(ev.Tokens) > 0 || ev.Finish != nil) {
		a.beat.Heard(w.time())
		a.host.books.token()
	}
	a.call.frame(a, ev)
}

func (w *world) newBox() int32 {
	w.boxes++
	return w.boxes
}

func (w *world) time() time.Time                    { return skewed(w.base.Add(w.now), w.wall) }
func (w *world) since(t time.Time) time.Duration    { return t.Sub(w.base) }
func (w *world) strict() bool                       { return w.plan.router.Admission == router.Strict }
func (w *world) ticket(number uint64) *ticketRecord { return &w.tickets[number] }

func (w *world) newTicket() scoring.Ticket {
	w.tickets = append(w.tickets, ticketRecord{})
	return scoring.Ticket{Boot: 1, Number: uint64(len(w.tickets) - 1)}
}

func ticketID(number uint64) string { return scoring.Ticket{Boot: 1, Number: number}.String() }

func (w *world) hostOf(ref *fleet.Ref) *host {
	for _, h := range w.hosts {
		if h.ref == ref {
			return h
		}
	}
	panic(fmt.Sprintf("no replica %s", ref.ID))
}

func (w *world) hostByID(id scoring.ReplicaID) *host {
	for _, h := range w.hosts {
		if h.id == id {
			return h
		}
	}
	panic(fmt.Sprintf("no replica %s", id))
}

// join makes a replica that is to join the fleet.
func (w *world) join() *host {
	h := w.newHost()
	w.hosts = append(w.hosts, h)
	return h
}

// present are the replicas of the fleet.
func (w *world) present() []*host {
	out := make([]*host, 0, len(w.hosts))
	for _, h := range w.hosts {
		if !h.gone && h.m != nil {
			out = append(out, h)
		}
	}
	return out
}
