package stream

import (
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/replica"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }))
}

// node is replica actors over scripted engines and a router that places every leg on the first replica that is not
// excluded, in a synctest bubble.
type node struct {
	t      *testing.T
	system *actor.ActorSystem
	live   *Live
	router *actor.PID
	refs   []*fleet.Ref
	pids   []*actor.PID
	cfg    Config
	deps   Deps

	mu    sync.Mutex
	ended []Summary
}

// bomb is a message at which a replica's actor panics.
type bomb struct{}

func newNode(t *testing.T, engines ...*script) *node {
	t.Helper()
	n := &node{t: t, live: NewLive(), cfg: DefaultConfig()}
	n.system = supervise.NewSystem(quietLog())
	n.router = n.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
		return &fakeRouter{refs: func() []*fleet.Ref { return n.refs }, placing: map[*placing]*Call{}}
	}))
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)
	strategy := supervise.NewStrategy(supervise.DefaultConfig(), 1, func(supervise.Failed) {})
	for i, e := range engines {
		id := scoring.ReplicaID(rune('a' + i))
		block, blocks, seats, sequence := 16, 1000, 8, 10000
		e.status = engine.Status{Incarnation: "1", BlockTokens: &block, KVBlocks: &blocks, Seats: &seats, SequenceTokens: &sequence}
		ref := fleet.NewRef(id, "m", e, n.system.Root)
		n.refs = append(n.refs, ref)
		n.pids = append(n.pids, n.system.Root.Spawn(replica.Props(replica.DefaultConfig(id, "m"), replica.Deps{
			Accord: fleet.NewAccord(""), Settled: func(*fleet.Spoken) {}, Ranks: func([]int) {},
			Ref: ref, Memory: replica.NewMemory(), Indexes: replica.NewIndexes("m"), Log: quietLog(), Meter: m.Register(string(id), "m"), Failed: func(supervise.Failed) {},
			TellRouter: func(message any) { n.system.Root.Send(n.router, message) },
			Announce: func(_ scoring.ReplicaID, epoch uint64) int {
				return n.live.Tell(ReplicaRestarted{Ref: ref, Epoch: epoch})
			},
			Evict: func(leaving fleet.Leaving) {
				n.live.Tell(Leave{Ref: ref, Leaving: leaving})
			},
			Others:     func() []*fleet.Ref { return n.refs },
			Middleware: n.middleware, Supervise: supervise.DefaultConfig(),
		}).Configure(actor.WithGuardian(strategy))))
	}
	n.deps = Deps{
		Live: n.live, Log: quietLog(), Router: func(message any) { n.system.Root.Send(n.router, message) },
		Model: Model{Name: "m", Decoder: letters{}, EndTokens: []uint32{idEOS}},
		Ended: func(s Summary) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.ended = append(n.ended, s)
		},
	}
	time.Sleep(time.Millisecond) // virtual: the first probe
	synctest.Wait()
	for _, ref := range n.refs {
		require.Equal(t, fleet.Ready, ref.Snapshot().State)
	}
	return n
}

// middleware panics at a bomb.
func (n *node) middleware(string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			if _, ok := env.Message.(bomb); ok {
				panic("a bomb in the replica")
			}
			next(c, env)
		}
	}
}

// close ends the bubble's goroutines.
func (n *node) close() {
	require.NoError(n.t, n.live.Wait(n.t.Context()))
	for _, pid := range append(n.pids, n.router) {
		require.NoError(n.t, n.system.Root.StopFuture(pid).Wait())
	}
	n.system.Shutdown()
	// A message that a stopped actor still got is a dead letter, and the library's throttle for these is a goroutine for a while.
	time.Sleep(2 * supervise.DeadLetterInterval) // virtual
	synctest.Wait()
}

func (n *node) submit(req *Request) *Response {
	if req.Input.Tokens == nil {
		req.Input.Tokens = [][]uint32{{1, 2, 3}}
	}
	req.N, req.Arrival = max(1, req.N), time.Now()
	if req.Model == "" {
		req.Model = "m"
	}
	return Start(n.cfg, n.deps, req)
}

func (n *node) load(i int) ledger.Load { return n.refs[i].Snapshot().Load }

// quiet checks that nothing of any request is left.
func (n *node) quiet() {
	n.t.Helper()
	synctest.Wait()
	require.Zero(n.t, n.live.Len())
	require.Zero(n.t, n.live.Strays())
	for i, ref := range n.refs {
		l := n.load(i)
		require.Zero(n.t, l.BookedBlocks, ref.ID)
		require.Zero(n.t, l.Reserved+l.Running+l.Lingering, ref.ID)
	}
}

// fakeRouter is a router without a queue.
type fakeRouter struct {
	refs    func() []*fleet.Ref
	tickets uint64
	placing map[*placing]*Call
}

type placing struct {
	sub    *Submit
	open   map[scoring.Ticket]Placement
	placed Placed

	refused, gone bool
}

// Receive implements actor.Actor.
func (f *fakeRouter) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *Submit:
		f.submit(c, m)
	case *fleet.Granted:
		f.answered(m.Ticket, m)
	case *fleet.Refused:
		f.answered(m.Ticket, nil)
	case Withdraw:
		for p, call := range f.placing {
			if call == m.Call && (m.Number == 0 || m.Number == p.sub.Number) {
				p.gone = true
				call.Tell(Withdrawn{Number: p.sub.Number})
			}
		}
	}
}

func (f *fakeRouter) submit(c actor.Context, m *Submit) {
	prompts := m.Prompts
	if prompts == nil {
		for _, ids := range m.Call.Request.Input.Tokens {
			prompts = append(prompts, Prompt{IDs: ids})
		}
		m.Call.Tell(Encoded{Prompts: prompts})
	}
	p := &placing{sub: m, open: map[scoring.Ticket]Placement{}, placed: Placed{Number: m.Number}}
	refs := make([]*fleet.Ref, len(m.Legs))
	for i, a := range m.Legs {
		at := slices.IndexFunc(f.refs(), func(r *fleet.Ref) bool {
			return !slices.ContainsFunc(a.Excluded, func(x Exclusion) bool { return x.Replica == r.ID })
		})
		if at < 0 {
			m.Call.Tell(Rejected{Number: m.Number, Fault: a.LastFault})
			return
		}
		refs[i] = f.refs()[at]
	}
	for i, a := range m.Legs {
		ref := refs[i]
		f.tickets++
		plan := ledger.Plan{PromptTokens: scoring.Tokens(len(prompts[a.Prompt].IDs)), MaxOutputTokens: 5000, OutputTokens: 16}
		claim := plan.Claim(ref.Snapshot().Load.Limits)
		claim.Ticket = scoring.Ticket{Boot: 1, Number: f.tickets}
		p.open[claim.Ticket] = Placement{
			Leg: a.Leg, Claim: claim, Ref: ref, Incarnation: ref.Snapshot().Incarnation, BlockTokens: 16, LongestTokens: 10_000, MaxTokens: 5000,
		}
		ref.Tell(&fleet.Reserve{Claim: claim, Incarnation: ref.Snapshot().Incarnation, From: c.Self()})
	}
	f.placing[p] = m.Call
}

// answered takes a replica's answer; granted is nil if it refused. All legs are placed or none.
func (f *fakeRouter) answered(t scoring.Ticket, granted *fleet.Granted) {
	for p, call := range f.placing {
		place, ok := p.open[t]
		if !ok {
			continue
		}
		delete(p.open, t)
		p.refused = p.refused || granted == nil
		if granted != nil {
			place.Epoch = granted.Snapshot.Epoch
			p.placed.Placements = append(p.placed.Placements, place)
		}
		if len(p.open) > 0 {
			return
		}
		delete(f.placing, p)
		if !p.refused && !p.gone {
			call.Tell(p.placed)
			return
		}
		for _, place := range p.placed.Placements {
			place.Ref.Tell(fleet.End{Ticket: place.Claim.Ticket, Reason: ledger.Refused})
		}
		if !p.gone {
			call.Tell(Rejected{Number: p.sub.Number, Fault: fault.New(fault.Contended, "no room")})
		}
		return
	}
}
