package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/supervise"
	"plimsoll/engine"
)

// probeGap is the least time between two probes, so that a crowd of failing streams asks once.
const probeGap = 50 * time.Millisecond

// connection watches the engine: it probes at intervals, sooner when told, and with back-off while nobody answers; and it
// sends a canary when told. The probe runs in a goroutine that ends with the actor. So does a canary, unless the engine holds
// it: an engine that hangs may not let go of it before it goes on, dies or is closed.
type connection struct {
	cfg    Config
	engine engine.Engine
	parent *actor.PID
	log    *slog.Logger
	rng    *rand.Rand

	ctx     context.Context //nolint:containedctx // the actor's life: cancelled when it stops
	cancel  context.CancelFunc
	running sync.WaitGroup

	probing bool
	began   time.Time // the running or last probe
	seen    bool      // it has answered one
	hurried bool      // asked for while one was running
	last    time.Time
	retry   time.Duration
	timer   *time.Timer

	endCanary context.CancelFunc // of the last canary; nil: there was none
}

type (
	// due: the interval is over. From the connection's timer.
	due struct{}
	// probeDone: a probe has ended. From its goroutine.
	probeDone struct {
		status engine.Status
		err    error
	}
)

// newConnection returns the connection of an actor. All instances draw from one rng, and no two epochs from the same: engines may
// still hold a canary of the one before, and each must have a name of its own.
func newConnection(cfg Config, e engine.Engine, parent *actor.PID, log *slog.Logger, rng *rand.Rand) *connection {
	p := &connection{
		cfg: cfg, engine: e, parent: parent, log: log, rng: rng, retry: cfg.ProbeFirst,
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Receive implements actor.Actor.
func (p *connection) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		p.probe(c)
	case *actor.Stopping, *actor.Restarting:
		p.stop()
	case due:
		p.probe(c)
	case probeNow:
		p.hurry(c)
	case probeDone:
		p.done(c, m)
	case canary:
		p.canary(c, m)
	case noCanary:
		if p.endCanary != nil {
			p.endCanary()
		}
	}
}

// errNoToken: a canary's stream ended well and brought nothing.
var errNoToken = errors.New("a canary was answered without a token")

// canary asks for one token of a prompt of one, with a salt of its own so that no cache answers. The parent hears of its end.
func (p *connection) canary(c actor.Context, m canary) {
	ctx, cancel := context.WithCancel(p.ctx)
	p.endCanary = cancel
	parent, root := p.parent, c.ActorSystem().Root
	name := fmt.Sprintf("canary-%016x", p.rng.Uint64())
	request := engine.Request{
		ID: name, Model: m.model, PromptTokens: []uint32{p.cfg.CanaryToken}, MaxTokens: 1, IgnoreEOS: true, CacheSalt: name,
	}
	supervise.Go(p.log, "canary", func() {
		heard := false
		err := p.engine.Generate(ctx, request, func(ev engine.Event) error {
			heard = heard || len(ev.Tokens) > 0
			return nil
		})
		if heard {
			err = nil // whatever came after it: the engine has worked
		} else if err == nil {
			err = errNoToken
		}
		root.Send(parent, canaryDone{m.number, err})
	}, func(value any) {
		root.Send(parent, canaryDone{m.number, &supervise.PanicError{Value: value}})
	}, cancel)
}

func (p *connection) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.cancel()
	p.running.Wait()
}

func (p *connection) hurry(c actor.Context) {
	if p.probing {
		p.hurried = true
		return
	}
	p.schedule(c, max(0, probeGap-time.Since(p.last)))
}

func (p *connection) schedule(c actor.Context, wait time.Duration) {
	if p.timer != nil {
		p.timer.Stop()
	}
	self, root := c.Self(), c.ActorSystem().Root
	p.timer = time.AfterFunc(supervise.Soon(wait), func() { root.Send(self, due{}) })
}

func (p *connection) probe(c actor.Context) {
	if p.probing {
		return
	}
	p.probing, p.began = true, time.Now()
	self, root := c.Self(), c.ActorSystem().Root
	p.running.Add(1)
	patience := p.cfg.ProbeTimeout
	if !p.seen { // it has everything to tell yet, and nothing depends on when
		patience = max(patience, p.cfg.ProbePatience)
	}
	supervise.Go(p.log, "probe", func() {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		status, err := p.engine.Probe(ctx)
		root.Send(self, probeDone{status, err})
	}, func(value any) {
		root.Send(self, probeDone{err: fmt.Errorf("probe: %w", &supervise.PanicError{Value: value})})
	}, p.running.Done)
}

func (p *connection) done(c actor.Context, m probeDone) {
	p.probing = false
	p.last = time.Now()
	wait := p.cfg.ProbeInterval
	if m.err != nil {
		f := failureOf(m.err)
		wait, p.retry = p.cfg.ProbePause(p.retry, f)
		wait += time.Duration(p.rng.Float64() * 0.2 * float64(wait))
		c.Send(p.parent, ProbeFailed{f, p.began})
	} else {
		p.retry, p.seen = p.cfg.ProbeFirst, true
		c.Send(p.parent, Probed{Status: m.status, Began: p.began})
	}
	if p.hurried {
		p.hurried, wait = false, probeGap
	}
	p.schedule(c, wait)
}
