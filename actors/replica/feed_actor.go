package replica

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// feedActor is the actor around a [Feed]. Subscriptions run in goroutines that end with it.
type feedActor struct {
	deps   Deps
	parent *actor.PID
	source engine.KVSource // nil: the engine reports nothing
	feed   *Feed
	meter  *meter.Feed
	alarm  supervise.Alarm
	log    *slog.Logger // names the replica
	states stateLog

	listening *subscribed // nil while no subscription runs
}

// subscribed is a subscription's goroutine.
type subscribed struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when it has ended
}

func newFeed(cfg Config, deps Deps, parent *actor.PID) *feedActor {
	f := &feedActor{
		deps: deps, parent: parent, meter: deps.Meter.Feed(),
		log: deps.Log.With(slog.String("replica", string(deps.Ref.ID))),
	}
	if deps.Ref.Capabilities.KVEvents {
		f.source, _ = deps.Ref.Engine.(engine.KVSource)
	}
	f.feed = NewFeed(cfg, deps.Ref, deps.Memory, deps.Indexes, f.source != nil, rand.New(rand.NewPCG(deps.Seed, 2)))
	return f
}

// Receive implements actor.Actor.
func (f *feedActor) Receive(c actor.Context) {
	to := feedShell{f, c}
	switch m := c.Message().(type) {
	case *actor.Started:
		f.feed.Start(time.Now(), to)
	case *actor.Stopping, *actor.Restarting:
		f.alarm.Stop()
		f.feed.Stop(to)
		return
	case tune:
		f.feed.Tune(time.Now(), m.blockTokens, m.capacity, m.incarnation, to)
	case void:
		f.feed.Void(time.Now(), to)
	case fleet.Cached:
		f.meter.Cached(int(m.PredictedTokens), int(m.ReportedTokens))
		f.feed.Message(time.Now(), m, to)
	case fleet.Learned, fed, feedEnded:
		f.feed.Message(time.Now(), m, to)
	case tick:
		f.alarm.Rung()
		f.feed.Tick(time.Now(), to)
	default:
		return
	}
	self, root := c.Self(), c.ActorSystem().Root
	f.alarm.Set(f.feed.NextTick(), true, func() { root.Send(self, tick{}) })
}

// feedShell does what the feed asks for while its actor handles a message.
type feedShell struct {
	*feedActor

	c actor.Context
}

// Subscribe implements FeedShell.
func (f feedShell) Subscribe(s *Subscription) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &subscribed{cancel: cancel, ended: make(chan struct{})}
	f.listening = l
	self, root := f.c.Self(), f.c.ActorSystem().Root
	tell := func(news any) {
		if news != nil {
			root.Send(self, news)
		}
	}
	source, meter := f.source, f.meter
	supervise.Go(f.deps.Log, "cache feed", func() {
		tell(s.End(source.Subscribe(ctx, func(b engine.KVBatch) {
			now := time.Now()
			news := s.Take(now, b)
			meter.Batch(now, b)
			tell(news)
		})))
	}, func(value any) {
		tell(s.End(&supervise.PanicError{Value: value}))
	}, func() { close(l.ended) })
}

// Unsubscribe implements FeedShell.
func (f feedShell) Unsubscribe() {
	f.listening.cancel()
	<-f.listening.ended // the source promises to return when its context ends
	f.listening = nil
}

// Ready implements FeedShell.
func (f feedShell) Ready(incarnation uint64) { f.c.Send(f.parent, FeedReady{incarnation}) }

// Became implements FeedShell.
func (f feedShell) Became(state fleet.IndexState, why string) {
	f.meter.State(state.String(), fleet.IndexStates())
	if why != "" {
		f.states.now(time.Now(), f.log, nowIndex{state, why})
	}
}

// Distrusted implements FeedShell.
func (f feedShell) Distrusted(why string) {
	f.meter.Distrusted()
	f.log.Warn("replica index built anew", slog.String("why", why))
}

// Report implements FeedShell.
func (f feedShell) Report(stats prefix.Stats) {
	f.states.catchUp(time.Now(), f.log)
	f.meter.Index(stats)
}

var _ FeedShell = feedShell{}
