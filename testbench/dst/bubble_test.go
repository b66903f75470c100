package dst

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor" //nolint:depguard // it is the real actors that are made to panic
	"github.com/stretchr/testify/require"

	"plimsoll/actors"
	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/replica"
	"plimsoll/actors/supervise"
	"plimsoll/tokenizer"
)

// bubble is the second driver: a real node in the virtual time of a synctest bubble, among the engines of a world that has
// neither machines of ours nor faults of its own. To them is done, at its time, what was done in the run of the first driver.
//
//	clients ──▶ actors.System ──▶ served (engine.Engine) ──▶ world: processes, network, clock ◀── deeds of the first run
//
// One goroutine, the pump, lets the world's events happen when they are due. All else that touches the world holds mu.
type bubble struct {
	first *world // the run of the first driver, which is over
	began time.Time

	mu      sync.Mutex
	w       *world
	todo    []func() // what is to be done without the lock
	flights map[*attempt]*flight
	subs    map[*link]*subscription
	clients map[int]*client      // by number of their call
	named   map[*float64]*client // by the address that their requests bear
	bombs   map[string]int       // panics to come, by actor
	harmed  bool                 // something was done that can take a replica out
	drained bool                 // some replica was to leave
	panics  int                  // that went off

	wake    chan struct{} // capacity 1
	quit    chan struct{}
	stopped chan struct{}

	sys    *actors.System
	closed bool
}

// newBubble sets a node up as the first run's fleet was. The test's end ends it.
func newBubble(t *testing.T, first *world, tok *tokenizer.Model) *bubble {
	t.Helper()
	b := &bubble{
		first: first, began: time.Now(), w: newWorld(Config{Seed: first.cfg.Seed}),
		flights: map[*attempt]*flight{}, subs: map[*link]*subscription{}, clients: map[int]*client{}, named: map[*float64]*client{},
		bombs: map[string]int{}, wake: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{}),
	}
	b.w.plan = first.plan
	b.w.outside = b.takes
	model := actors.Model{Tokenizer: tok, Router: first.plan.router}
	for i := range first.plan.replicas {
		model.Replicas = append(model.Replicas, b.join(i))
	}
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)
	go b.run()
	sys, err := actors.Start(actors.Config{
		Models: []actors.Model{model}, Stream: first.plan.stream, Supervise: supervise.DefaultConfig(), TokenizeMax: 2, DrainWait: time.Minute,
	}, actors.Deps{Log: slog.New(slog.DiscardHandler), Meter: m, Seed: first.cfg.Seed, Boot: 1, Middleware: b.middleware})
	require.NoError(t, err)
	b.lock()
	defer b.unlock()
	b.sys = sys
	for i, c := range first.calls {
		if c.omitted() {
			continue
		}
		b.w.at(c.inserted, evCall).n = uint64(i) //nolint:gosec // an index
	}
	for i := range first.deeds {
		b.w.at(first.deeds[i].at, evFault).n = uint64(i) //nolint:gosec // an index
	}
	return b
}

// close ends the node, and then the world, once.
func (b *bubble) close(t *testing.T) {
	t.Helper()
	if b.closed {
		return
	}
	b.closed = true
	require.NoError(t, b.sys.Stop())
	close(b.quit)
	<-b.stopped
	time.Sleep(2 * supervise.DeadLetterInterval) // virtual
}

// join makes the replica that was the first run's i-th.
func (b *bubble) join(i int) actors.Replica {
	w, was := b.w, b.first.hosts[i]
	h := &host{w: w, n: was.n, id: was.id, cfg: was.cfg, armed: none, readyAt: none}
	h.ref = fleet.NewRef(h.id, modelName, engineStub{caps: was.ref.Capabilities}, nil)
	h.memory = replica.NewMemory()
	h.feed = feed{w: w, host: h, cfg: was.feed.cfg}
	h.books.init(h)
	h.books.blinded = true // nobody keeps them here
	h.p = newProcess(w, h, was.p.cfg, was.p.pub.alike())
	h.p.walk(was.p.gait)
	w.hosts = append(w.hosts, h)
	return actors.Replica{Config: h.cfg, Engine: &served{b, h}}
}

// lock takes the world, as it is now.
func (b *bubble) lock() {
	b.mu.Lock()
	b.advance()
}

func (b *bubble) unlock() {
	b.mu.Unlock()
	b.kick()
}

func (b *bubble) kick() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// advance lets all happen that is due.
func (b *bubble) advance() {
	w := b.w
	now := time.Since(b.began)
	for at, ok := w.due.Peek(); ok && at <= now; at, ok = w.due.Peek() {
		e := w.next()
		w.dispatch(e)
		w.done(e)
	}
	w.now = now
}

// run is the pump.
func (b *bubble) run() {
	defer close(b.stopped)
	var timer *time.Timer
	for {
		b.mu.Lock()
		b.advance()
		todo := b.todo
		b.todo = nil
		next := none
		if at, ok := b.w.due.Peek(); ok {
			next = at
		}
		b.mu.Unlock()
		for _, f := range todo {
			f()
		}
		if timer != nil {
			timer.Stop()
		}
		if next != none {
			timer = time.AfterFunc(supervise.Soon(next-time.Since(b.began)), b.kick)
		}
		select {
		case <-b.wake:
		case <-b.quit:
			if timer != nil {
				timer.Stop()
			}
			return
		}
	}
}

// later has something done without the lock, in the pump's goroutine. It must not block.
func (b *bubble) later(f func()) { b.todo = append(b.todo, f) }

// takes handles the events that the first driver handles by its machines.
func (b *bubble) takes(e *event) bool {
	switch e.kind {
	case evFrame:
		if ev, ok := e.msg.(*engineEvent); ok {
			b.frame(e.attempt, ev)
		}
	case evReturn:
		err, _ := e.msg.(error)
		b.returned(e.attempt, err)
	case evFeed:
		m, ok := e.msg.(*wire)
		if !ok || m.kind != wireSubEnd {
			return false
		}
		b.ends(m)
	case evCall:
		c := b.newClient(b.first.calls[e.n])
		b.later(func() { b.start(c) })
	case evFault:
		d := b.first.deeds[e.n]
		if !b.do(d) && e.looks() {
			again := b.w.in(ambushLook, evFault)
			again.n, again.phase = e.n, e.phase+1
		}
	case evMail, evDirect, evTick, evProbe, evProbed, evArrive, evHangUp, evPass, evRevive, evLeave, evEncoded, evRecover, evOrder, evWatch:
		return false
	}
	return true
}

// looks says whether a deed that finds nobody looks again: for a second.
func (e *event) looks() bool { return e.phase < 250 }

// do does a deed. It returns false if there is nobody yet to do it to.
func (b *bubble) do(d deed) bool {
	w := b.w
	b.harmed = b.harmed || d.harms()
	b.drained = b.drained || d.fault == Drain && !d.keep
	if d.call > 0 && b.clients[d.call] == nil && slices.ContainsFunc(b.first.calls, func(c *call) bool { return c.n == d.call && c.omitted() }) {
		return true
	}
	switch d.fault {
	case Kill, Restart, Stop, HungCore, Slow, ServerError, Shed, Distrust, LongStep, KVLost, KVDoubled, KVReordered, KVGarbled, KVDelayed:
		if h := w.hosts[d.host-1]; !h.gone {
			h.p.suffer(d)
		}
	case ErrorFrame, Cut, MissingFinish:
		return b.spoil(d)
	case PanicReplica:
		b.bombs["replica-"+strconv.Itoa(d.host)]++
	case PanicRouter:
		b.bombs["router-0"]++
	case ClientLeaves:
		if c := b.clients[d.call]; c != nil { // it is here too
			c.leaves = true
			b.later(func() { c.response.Cancel() })
		}
	case SlowClient:
		if c := b.clients[d.call]; c != nil {
			c.leaves = true
			b.later(c.hold)
		}
	case Drain:
		order := fleet.Drain{Keep: d.keep}
		if d.leave != none {
			leave := time.Now().Add(d.leave)
			order.Leave = &leave
		}
		b.later(func() { b.order(d.host, order) })
	case Undrain:
		b.later(func() { b.order(d.host, fleet.Undrain{}) })
	case Add:
		r := b.join(d.host - 1)
		b.later(func() {
			if err := b.sys.Add(modelName, r); err != nil {
				panic(err)
			}
		})
	case ClockJump: // nobody can set the clock of a bubble
	case RefuseOne, ForAnHour, Trailing: // a request brings it along
	case NumFaults:
		w.healed = w.now
		for _, h := range w.hosts {
			if !h.gone {
				h.p.heal()
			}
		}
		for a := range b.flights {
			a.mischief = NumFaults
		}
	}
	return true
}

// harms says whether a deed can make a replica take nothing for a while.
func (d *deed) harms() bool {
	switch d.fault {
	case PanicRouter, ClockJump, ClientLeaves, SlowClient, Add, Undrain, KVLost, KVDoubled, KVReordered, KVGarbled, KVDelayed, Trailing, NumFaults:
		return false
	case Kill, Restart, Stop, HungCore, Slow, ServerError, Shed, Distrust, ErrorFrame, Cut, MissingFinish, PanicReplica, Drain, RefuseOne, ForAnHour, LongStep:
	}
	return true
}

// order tells a replica's actor.
func (b *bubble) order(number int, what any) {
	for _, ref := range b.sys.Replicas() {
		if ref.ID == b.first.hosts[number-1].id {
			ref.Tell(what)
		}
	}
}

// spoil does a deed to the stream of a leg: false if no engine has it.
func (b *bubble) spoil(d deed) bool {
	c := b.clients[d.call]
	if c == nil {
		return false
	}
	if c.ended {
		return true
	}
	for _, a := range c.open(d.leg) {
		if a.life != 0 && a.failure == nil && !a.cancelled && !a.returned {
			b.w.spoilt(a, d)
			return true
		}
	}
	return false
}

// middleware makes actors panic whose bomb is armed, at their next message.
func (b *bubble) middleware(kind string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		if kind != "replica" && kind != "router" {
			return next
		}
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			switch env.Message.(type) {
			case *actor.Started, *actor.Restarting, *actor.Stopping, *actor.Stopped, *actor.Terminated:
			default:
				if b.blows(c.Self().GetId()) {
					panic("a planted panic")
				}
			}
			next(c, env)
		}
	}
}

func (b *bubble) blows(pid string) bool {
	name := pid[strings.LastIndexByte(pid, '/')+1:]
	name, _, _ = strings.Cut(name, "$")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bombs[name] == 0 {
		return false
	}
	b.bombs[name]--
	b.panics++
	return true
}

// omitted says whether a request is left out here: the node has no template that it could leave to an engine, and no name of an adapter
// that none has told of.
func (c *call) omitted() bool { return c.raw > 0 || c.req.LoRA != "" && c.inserted < time.Second }

// waiting names a request that has not ended; "" if all have.
func (b *bubble) waiting() string {
	b.lock()
	defer b.unlock()
	for _, was := range b.first.calls {
		if c := b.clients[was.n]; !was.omitted() && (c == nil || !c.ended) {
			return "call " + strconv.Itoa(was.n)
		}
	}
	return ""
}

// unready names a replica that should serve and does not; "" if all do.
func (b *bubble) unready() string {
	for _, s := range b.sys.Snapshots() {
		if s.State != fleet.Ready && s.State != fleet.Draining || s.Recovering {
			return fmt.Sprintf("%s is %s: %s", s.ID, s.State, s.LastError)
		}
	}
	return ""
}

// quiet says what is left of any request; "" if nothing is.
func (b *bubble) quiet() string {
	if b.sys.Live() > 0 || b.sys.Queue() != (actors.Queue{}) {
		return "requests"
	}
	for _, s := range b.sys.Snapshots() {
		l := s.Load
		if l.BookedBlocks != 0 || l.SeatsBooked != 0 || l.Reserved+l.Running+l.Lingering != 0 {
			return "tickets of " + string(s.ID)
		}
	}
	b.lock()
	defer b.unlock()
	for _, h := range b.w.hosts {
		if s := h.p.m.Status(); s.Running+s.Waiting+s.UsedBlocks > 0 {
			return "sequences on the engine of " + string(h.id)
		}
	}
	for a := range b.flights {
		if a.call != nil {
			return "attempts"
		}
	}
	return ""
}
