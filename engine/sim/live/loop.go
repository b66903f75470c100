package live

import (
	"errors"
	"fmt"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/scoring/prefix"
)

type workKind uint8

const (
	submit workKind = iota
	abort
	subscribe
	reset
)

// work is what the engine's clients ask for.
type work struct {
	kind    workKind
	call    *call      // submit, abort
	request sim.Submit // submit; of an abort the ID
	feed    *feed      // subscribe
	force   bool       // reset
	reset   chan bool  // reset; takes the answer, or is closed if the engine is down
}

type controlKind uint8

const (
	kill controlKind = iota
	start
	pause
	resume
	slow
)

// control is a fault to inject.
type control struct {
	kind   controlKind
	factor float64 // slow
	done   chan struct{}
}

// loop is the goroutine that owns the machine; everything in it is its alone.
type loop struct {
	e       *Engine
	machine *sim.Machine
	born    time.Time
	boot    uint64 // tells this engine's incarnations from those of others
	life    uint64 // 1 is the first
	name    string // of this incarnation
	calls   map[string]*call
	feeds   map[*feed]struct{}
	resets  []chan bool // asked for and not answered, oldest first
	seq     uint64      // of the last batch of this life
	pass    uint64      // number of the running pass
	timer   *time.Timer
	hung    bool
	factor  float64 // how often longer a pass takes than the configuration says
}

func newLoop(e *Engine) (*loop, error) {
	l := &loop{
		e: e, born: time.Now(), boot: e.deps.Entropy(), factor: 1,
		calls: make(map[string]*call), feeds: make(map[*feed]struct{}),
	}
	if err := l.birth(); err != nil {
		return nil, err
	}
	l.timer = time.NewTimer(time.Hour)
	l.timer.Stop()
	l.publish()
	return l, nil
}

// birth begins a life with a machine of its own: nothing of a former one, crashed or not, lives on.
func (l *loop) birth() error {
	cfg := l.e.cfg.Sim
	cfg.HashSeed += l.boot + l.life<<32
	machine, err := sim.New(cfg, sim.Deps{Source: l.e.deps.Source})
	if err != nil {
		return err
	}
	l.machine, l.seq = machine, 0
	l.life++
	l.name = fmt.Sprintf("sim-%016x-%d", l.boot, l.life)
	return nil
}

func (l *loop) run() {
	defer close(l.e.done)
	for {
		requests, passes := l.e.work, l.timer.C
		if l.hung {
			requests, passes = nil, nil
		}
		select {
		case w := <-requests:
			l.take(w)
		case <-passes:
			l.step(sim.StepDone{Step: l.pass}, nil)
		case c := <-l.e.control:
			l.obey(c)
			close(c.done)
		case <-l.e.closing:
			closed := errors.New("the simulated engine was closed")
			l.die(closed)
			for f := range l.feeds {
				f.fail(broken(closed))
			}
			return
		}
	}
}

func (l *loop) take(w work) {
	switch w.kind {
	case submit:
		l.step(w.request, w.call)
	case abort:
		if l.calls[w.request.ID] == w.call {
			l.step(sim.Abort{ID: w.request.ID}, nil)
		}
	case subscribe:
		l.subscribe(w.feed)
	case reset:
		if !l.alive() {
			close(w.reset)
			return
		}
		l.resets = append(l.resets, w.reset)
		l.step(sim.ResetPrefixCache{Force: w.force}, nil)
	}
}

func (l *loop) obey(c control) {
	switch c.kind {
	case kill:
		l.die(errors.New("the simulated engine was killed"))
	case start:
		if !l.alive() {
			if err := l.birth(); err != nil { // the same configuration has made a machine before
				panic(err)
			}
			l.publish()
			for f := range l.feeds { // followers: the others broke when the life before ended
				f.push(engine.KVBatch{Reset: true})
			}
		}
	case pause:
		l.hung = true
	case resume:
		l.hung = false
	case slow:
		l.factor = c.factor
	}
}

func (l *loop) alive() bool { return l.machine != nil }

// step takes the machine a step and does what it says. A submitted call is the request's from here on.
func (l *loop) step(event sim.Event, submitted *call) {
	if !l.alive() {
		if submitted != nil {
			submitted.end(down())
		}
		return
	}
	effects, err := l.advance(event)
	if err != nil {
		if submitted != nil {
			submitted.end(broken(err))
		}
		l.die(err)
		return
	}
	l.publish() // before anybody hears of the step: who was told of an end sees its blocks free
	if submitted != nil {
		effects = l.admit(event.(sim.Submit).ID, submitted, effects)
	}
	for _, effect := range effects {
		l.perform(effect)
	}
}

// advance turns a panic of the machine or the token source into an error.
func (l *loop) advance(event sim.Event) (effects []sim.Effect, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the simulated engine crashed: %v", r)
		}
	}()
	now := time.Duration(float64(time.Since(l.born)) * l.e.cfg.Speed)
	return l.machine.Step(now, event), nil
}

// admit books the call of a request that the machine has taken. A refusal goes to the submitted call itself: one
// that was refused because its ID is in use must not end the other.
func (l *loop) admit(id string, submitted *call, effects []sim.Effect) []sim.Effect {
	if len(effects) > 0 {
		if r, refused := effects[0].(sim.Rejected); refused {
			submitted.end(r.Failure)
			return effects[1:]
		}
	}
	l.calls[id] = submitted
	return effects
}

func (l *loop) perform(effect sim.Effect) {
	switch e := effect.(type) {
	case sim.StartStep:
		l.pass = e.Step
		l.timer.Reset(time.Duration(float64(e.Duration) * l.factor / l.e.cfg.Speed))
	case sim.Emit:
		c := l.calls[e.ID]
		c.put(e.Event)
		if e.Event.Finish != nil {
			l.end(e.ID, nil)
		}
	case sim.Aborted:
		l.end(e.ID, nil)
	case sim.KV:
		l.spread(e.Events)
	case sim.ResetDone:
		l.resets[0] <- e.OK
		l.resets = l.resets[1:]
	case sim.Rejected, sim.Lost:
		// A refusal is the submitted call's (admit), a death the shell's (die).
	}
}

func (l *loop) end(id string, err error) {
	l.calls[id].end(err)
	delete(l.calls, id)
}

// die ends the life of the process: every call and feed breaks.
func (l *loop) die(cause error) {
	l.machine, l.hung = nil, false
	l.timer.Stop()
	l.publish() // first, as in step
	for id := range l.calls {
		l.end(id, broken(cause))
	}
	for f := range l.feeds {
		if f.follows {
			f.die()
			continue
		}
		f.fail(broken(cause))
		delete(l.feeds, f)
	}
	for _, r := range l.resets {
		close(r)
	}
	l.resets = nil
}

// subscribe puts a snapshot into the feed, in place of what is in it; batches follow it without a hole. A follower's begins
// empty.
func (l *loop) subscribe(f *feed) {
	for other := range l.feeds {
		if other.gone() {
			delete(l.feeds, other)
		}
	}
	switch {
	case f.follows:
		l.feeds[f] = struct{}{}
		if l.alive() {
			f.push(engine.KVBatch{Reset: true})
		}
		return
	case !l.alive():
		f.fail(down())
		return
	}
	l.step(sim.Flush{}, nil)
	if !l.alive() {
		f.fail(down())
		return
	}
	l.feeds[f] = struct{}{}
	f.push(engine.KVBatch{Seq: l.seq, Reset: true, Events: l.machine.Snapshot()})
}

// spread gives a batch to all feeds.
func (l *loop) spread(events []prefix.Event) {
	l.seq++
	for f := range l.feeds {
		if !f.push(engine.KVBatch{Seq: l.seq, Events: events}) {
			delete(l.feeds, f)
		}
	}
}

// publish shows probes how the engine is.
func (l *loop) publish() {
	p := &published{incarnation: l.name}
	if l.alive() {
		p.status = l.machine.Status()
	}
	l.e.published.Store(p)
}

func broken(cause error) *engine.Failure {
	return &engine.Failure{Kind: engine.Broken, Err: cause}
}
