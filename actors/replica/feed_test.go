package replica

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// publisher is an engine of which only the cache's events are of interest; the test says what each subscription hears.
type publisher struct {
	engine.Engine

	caps engine.Capabilities

	mu   sync.Mutex
	subs []*listening
}

// listening is one call of Subscribe.
type listening struct {
	told chan func(sink func(engine.KVBatch)) error
}

func (p *publisher) Capabilities() engine.Capabilities { return p.caps }

func (p *publisher) Subscribe(ctx context.Context, sink func(engine.KVBatch)) error {
	l := &listening{told: make(chan func(func(engine.KVBatch)) error)}
	p.mu.Lock()
	p.subs = append(p.subs, l)
	p.mu.Unlock()
	for {
		select {
		case tell := <-l.told:
			if err := tell(sink); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *publisher) subscriptions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.subs)
}

// says has the present subscription hear a batch.
func (p *publisher) says(b engine.KVBatch) {
	p.mu.Lock()
	l := p.subs[len(p.subs)-1]
	p.mu.Unlock()
	l.told <- func(sink func(engine.KVBatch)) error { sink(b); return nil }
	synctest.Wait()
}

// fails breaks it.
func (p *publisher) fails(err error) {
	p.mu.Lock()
	l := p.subs[len(p.subs)-1]
	p.mu.Unlock()
	l.told <- func(func(engine.KVBatch)) error { return err }
	synctest.Wait()
}

// parent is the actor above the feed.
type parent struct {
	feed   func(parent *actor.PID) actor.Actor
	pid    chan *actor.PID
	begins *[]uint64
}

// Receive implements actor.Actor.
func (p *parent) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		p.pid <- c.Spawn(actor.PropsFromProducer(
			func() actor.Actor { return supervise.Final(p.feed(c.Self()), nil) }, actor.WithReceiverMiddleware(blow)))
	case FeedReady:
		*p.begins = append(*p.begins, m.Incarnation)
	}
}

// blast is a message at which the feed's actor panics.
type blast struct{}

func blow(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
		if _, ok := env.Message.(blast); ok {
			panic("blast")
		}
		next(c, env)
	}
}

// brook is a feed's actor over a publisher, in a bubble.
type brook struct {
	t      *testing.T
	p      *publisher
	ref    *fleet.Ref
	system *actor.ActorSystem
	feed   *actor.PID
	begins []uint64 // lives of which the feed has said that it has begun
	meter  *meter.Meter
}

// inBrook runs a test with a feed whose engine is in its first life.
func inBrook(t *testing.T, caps engine.Capabilities, test func(*brook)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &brook{t: t, p: &publisher{caps: caps}}
		log := slog.New(slog.DiscardHandler)
		b.system = supervise.NewSystem(log)
		m, err := meter.New(meter.DefaultConfig())
		require.NoError(t, err)
		b.meter = m
		b.ref = fleet.NewRef("r", "m", b.p, b.system.Root)
		deps := Deps{Ref: b.ref, Memory: NewMemory(), Indexes: NewIndexes("m"), Log: log, Meter: m.Register("r", "m")}
		pid := make(chan *actor.PID, 1)
		above := &parent{pid: pid, begins: &b.begins, feed: func(up *actor.PID) actor.Actor {
			return newFeed(DefaultConfig("r", "m"), deps, up)
		}}
		strategy := supervise.NewStrategy(supervise.DefaultConfig(), 1, func(supervise.Failed) {})
		root := b.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return above }, actor.WithSupervisor(strategy)))
		b.feed = <-pid
		b.tell(lifeOf(1))
		test(b)
		require.NoError(t, b.system.Root.StopFuture(root).Wait())
		require.Nil(t, b.ref.Place())
		require.Equal(t, fleet.IndexNone, b.ref.Feed().State)
		require.Empty(t, deps.Indexes.byBlock)
		strategy.Close()
		b.system.Shutdown()
		time.Sleep(2 * supervise.DeadLetterInterval) // virtual: a goroutine of the library must not outlive the bubble
		synctest.Wait()
	})
}

func (b *brook) tell(message any) {
	b.system.Root.Send(b.feed, message)
	synctest.Wait()
}

func (b *brook) pass(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}

// prompt is a sequence of four blocks and one token.
func prompt() []uint32 { return tokensOf(65) }

func tokensOf(n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(i) //nolint:gosec // small
	}
	return ids
}

// stores is the prompt's first blocks as an engine reports them.
func stores(blocks, blockTokens int) []prefix.Event {
	e := prefix.Event{Kind: prefix.Stored, BlockTokens: blockTokens, Tokens: tokensOf(blocks * blockTokens)}
	for i := range blocks {
		e.Hashes = append(e.Hashes, uint64(i)+100) //nolint:gosec // small
	}
	return []prefix.Event{e}
}

// shows says what others see: the state, and how many blocks of the prompt count.
func (b *brook) shows(state fleet.IndexState, blocks scoring.Blocks) {
	b.t.Helper()
	require.Equal(b.t, state.String(), b.ref.Feed().State.String(), b.ref.Feed().Why)
	require.Equal(b.t, blocks, b.held())
}

func (b *brook) held() scoring.Blocks {
	p := b.ref.Place()
	if p == nil {
		return 0
	}
	keys := prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), prompt(), int(p.BlockTokens))
	return p.Index.Match(time.Now(), keys, nil)[p.Slot].Device
}

// served tells the feed that the engine has computed the prompt, a second after its attempt began.
func (b *brook) served() {
	began := time.Now()
	b.pass(time.Second)
	b.tell(fleet.Learned{Prompt: prompt(), FreshTokens: 65, Began: began})
}

func TestFeedFollowsItsSource(t *testing.T) {
	inBrook(t, withFeed, func(b *brook) {
		b.shows(fleet.IndexVoid, 0)
		require.Empty(t, b.begins)
		b.p.says(engine.KVBatch{Reset: true})
		b.shows(fleet.IndexLive, 0)
		require.Equal(t, []uint64{1}, b.begins)
		b.p.says(engine.KVBatch{Seq: 1, Events: stores(4, 16)})
		b.shows(fleet.IndexLive, 4)
		require.EqualValues(t, 1, b.ref.Place().Incarnation)

		b.p.says(engine.KVBatch{Seq: 2, State: engine.KVReplaying, Gap: true})
		b.shows(fleet.IndexReplaying, 4)
		b.p.says(engine.KVBatch{Seq: 3, Events: []prefix.Event{{Kind: prefix.Removed, Hashes: []uint64{103}}}})
		b.shows(fleet.IndexLive, 3)
		b.p.says(engine.KVBatch{Reset: true, State: engine.KVPartial})
		b.shows(fleet.IndexPartial, 0)
		require.Equal(t, 1, b.p.subscriptions())
	})
}

func TestFeedOfASilentSource(t *testing.T) {
	inBrook(t, withFeed, func(b *brook) {
		b.p.says(engine.KVBatch{Reset: true, Events: stores(4, 16)})
		b.pass(time.Hour)
		b.shows(fleet.IndexLive, 4)
		b.served()
		b.pass(DefaultConfig("r", "m").FeedSilence)
		b.shows(fleet.IndexApproximate, 4) // what was served in silence is known
		b.pass(time.Second)
		require.Equal(t, 2, b.p.subscriptions(), "it is listened to on")
		b.p.says(engine.KVBatch{Reset: true, Events: stores(2, 16)})
		b.shows(fleet.IndexApproximate, 4)
		b.p.says(engine.KVBatch{Seq: 9, Events: []prefix.Event{{Kind: prefix.Removed, Hashes: []uint64{101}}}})
		b.shows(fleet.IndexLive, 1)
	})
}

func TestFeedOfABrokenSource(t *testing.T) {
	inBrook(t, withFeed, func(b *brook) {
		b.p.says(engine.KVBatch{Reset: true, Events: stores(4, 16)})
		b.p.fails(errCut)
		b.shows(fleet.IndexVoid, 0)
		b.pass(time.Second)
		require.Equal(t, 2, b.p.subscriptions())
		b.p.says(engine.KVBatch{Reset: true, Events: stores(3, 16)})
		b.shows(fleet.IndexLive, 3)
	})
}

func TestFeedOfAnEngineThatPublishesNothing(t *testing.T) {
	inBrook(t, withFeed, func(b *brook) {
		b.p.fails(fmt.Errorf("no: %w", engine.ErrNoKVEvents))
		b.shows(fleet.IndexApproximate, 0)
		require.Equal(t, []uint64{1}, b.begins, "the replica need not wait")
		b.tell(fleet.Learned{Prompt: prompt()[:20], Output: prompt()[20:40]})
		b.shows(fleet.IndexApproximate, 2)
		b.tell(lifeOf(2))
		b.shows(fleet.IndexVoid, 0)
		require.Equal(t, 2, b.p.subscriptions(), "another life may publish")
	})
}

func TestFeedOfANewLife(t *testing.T) {
	inBrook(t, withFeed, func(b *brook) {
		b.pass(time.Second)
		b.served()
		b.tell(void{})
		b.tell(lifeOf(2))
		b.p.fails(engine.ErrNoKVEvents)
		b.shows(fleet.IndexApproximate, 0) // what the old life has computed is not cached in the new one
	})
	inBrook(t, withFeed, func(b *brook) {
		b.p.says(engine.KVBatch{Reset: true, Events: stores(4, 16)})
		b.tell(void{})
		b.shows(fleet.IndexVoid, 0)
		b.tell(lifeOf(2))
		b.shows(fleet.IndexVoid, 0)
		require.EqualValues(t, 2, b.ref.Place().Incarnation)
		b.p.says(engine.KVBatch{Reset: true, Events: stores(1, 16)})
		b.shows(fleet.IndexLive, 1)
		require.Equal(t, []uint64{1, 2}, b.begins)
	})
}

// TestFeedOfOtherBlocks: the size that the events show is the engine's, and the largest where it reports parts of blocks too.
func TestFeedOfOtherBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		batches [][]prefix.Event
		size    scoring.Tokens
		blocks  scoring.Blocks
	}{
		"as told":                    {[][]prefix.Event{stores(4, 16)}, 16, 4},
		"smaller":                    {[][]prefix.Event{stores(4, 8)}, 8, 4},
		"larger":                     {[][]prefix.Event{stores(2, 32)}, 32, 2},
		"parts first":                {[][]prefix.Event{stores(1, 8), stores(2, 32)}, 32, 2},
		"parts later":                {[][]prefix.Event{stores(2, 32), stores(1, 8)}, 32, 2},
		"parts again and again":      {[][]prefix.Event{stores(2, 32), stores(180, 8), stores(1, 32), stores(180, 8)}, 32, 2},
		"another size for good":      {[][]prefix.Event{stores(1, 64), stores(60, 16), stores(50, 16)}, 16, 4},
		"both at once":               {[][]prefix.Event{append(stores(1, 8), stores(2, 32)...)}, 32, 2},
		"offloaded blocks tell none": {[][]prefix.Event{{{Kind: prefix.Stored, Tier: prefix.Host, Hashes: []uint64{1}, Tokens: tokensOf(64), BlockTokens: 64}}}, 16, 0},
		"nor do sliding windows":     {[][]prefix.Event{{{Kind: prefix.Stored, Attention: prefix.SlidingWindow, Hashes: []uint64{1}, Tokens: tokensOf(64), BlockTokens: 64}}}, 16, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBrook(t, withFeed, func(b *brook) {
				b.p.says(engine.KVBatch{Reset: true})
				for i, events := range c.batches {
					b.p.says(engine.KVBatch{Seq: uint64(i) + 1, Events: events}) //nolint:gosec // small
				}
				require.Equal(t, c.size, b.ref.Place().BlockTokens)
				b.shows(fleet.IndexLive, c.blocks)
			})
		})
	}
}

// TestFeedOutlivesItsPanics: its next instance goes on where it was, without anybody telling it.
func TestFeedOutlivesItsPanics(t *testing.T) {
	inBrook(t, withFeed, func(b *brook) {
		b.p.says(engine.KVBatch{Reset: true, Events: stores(4, 16)})
		b.tell(fed{run: 1, state: engine.KVLive}) // nothing new
		b.tell(fleet.Learned{Prompt: nil, Began: time.Now()})
		b.tell(blast{})
		b.pass(time.Minute)
		b.shows(fleet.IndexVoid, 0)
		require.Equal(t, 2, b.p.subscriptions())
		b.p.says(engine.KVBatch{Reset: true, Events: stores(2, 16)})
		b.shows(fleet.IndexLive, 2)
	})
}

func TestKeysOfWhatWasLearned(t *testing.T) {
	all := tokensOf(70)
	want := prefix.AppendKeys(nil, 7, all, 16)
	for cut := range all {
		l := fleet.Learned{Prompt: all[:cut], Output: all[cut:]}
		require.Equal(t, want, keysOf(&l, 7, 16), "cut at %d", cut)
	}
}

// TestFeedOfAnIndexThatRanOver: an engine of which the index is told more than it can hold has lost removals, and is asked for
// all that it holds.
func TestFeedOfAnIndexThatRanOver(t *testing.T) {
	inBrook(t, withFeed, func(b *brook) {
		b.p.says(engine.KVBatch{Reset: true, Events: stores(4, 16)})
		over := stores(int(lifeOf(1).capacity)/16*prefix.DefaultConfig().OverflowFactor+1, 16)
		b.p.says(engine.KVBatch{Seq: 1, Events: over})
		b.pass(2 * reportEvery)
		b.shows(fleet.IndexVoid, 0)
		require.Equal(t, 2, b.p.subscriptions())
		b.p.says(engine.KVBatch{Reset: true, Events: stores(2, 16)})
		b.shows(fleet.IndexLive, 2)
		b.pass(time.Hour)
		require.Equal(t, 2, b.p.subscriptions())
	})
}

// TestFeedOfAMisleadingSource: what the engine keeps disproving is built anew, from a replay or from what is routed from then on;
// predictions of the index before it do not count against the new one.
func TestFeedOfAMisleadingSource(t *testing.T) {
	inBrook(t, withFeed, func(b *brook) {
		b.p.says(engine.KVBatch{Reset: true, Events: stores(4, 16)})
		b.pass(time.Second)
		began := time.Now()
		for range prefix.AuditWindow - 1 {
			b.tell(fleet.Cached{Incarnation: 1, Began: began, PredictedTokens: 64})
		}
		b.tell(fleet.Cached{Incarnation: 2, Began: began, PredictedTokens: 64}) // of another life
		b.shows(fleet.IndexLive, 4)
		b.tell(fleet.Cached{Incarnation: 1, Began: began, PredictedTokens: 64})
		b.shows(fleet.IndexVoid, 0)
		b.pass(time.Second)
		b.p.says(engine.KVBatch{Reset: true, Events: stores(1, 16)})
		b.shows(fleet.IndexLive, 1)
		for range prefix.AuditWindow {
			b.tell(fleet.Cached{Incarnation: 1, Began: began, PredictedTokens: 64})
		}
		b.shows(fleet.IndexLive, 1)
		require.Equal(t, 2, b.p.subscriptions())
		require.EqualValues(t, (2*prefix.AuditWindow+1)*64, b.ref.Feed().PredictedTokens)
	})
	inBrook(t, withFeed, func(b *brook) {
		b.p.says(engine.KVBatch{Reset: true, Events: stores(4, 16)})
		b.pass(time.Second)
		for _, again := range []bool{false, true} { // the source itself begins anew in between
			for range prefix.AuditWindow - 1 {
				b.tell(fleet.Cached{Incarnation: 1, Began: time.Now(), PredictedTokens: 64})
			}
			if !again {
				b.p.says(engine.KVBatch{Seq: 1, Reset: true, Events: stores(4, 16)})
			}
		}
		b.shows(fleet.IndexLive, 4)
		b.tell(fleet.Cached{Incarnation: 1, Began: time.Now(), PredictedTokens: 64})
		b.shows(fleet.IndexVoid, 0)
	})
	inBrook(t, withoutFeed, func(b *brook) {
		b.served()
		b.shows(fleet.IndexApproximate, 4)
		for range prefix.AuditWindow {
			b.tell(fleet.Cached{Incarnation: 1, Began: time.Now(), PredictedTokens: 64})
		}
		b.shows(fleet.IndexApproximate, 0)
		b.served()
		b.shows(fleet.IndexApproximate, 4)
	})
}
