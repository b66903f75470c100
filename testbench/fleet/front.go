package fleet

import (
	"math"
	"math/rand/v2"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// front is the router: its machine, and what its actor does for it.
type front struct {
	w     *world
	m     *router.Machine
	fleet []*fleet.Ref   // ordered by ID
	armed *time.Duration // when its timer rings; nil: it does not
}

var _ router.Shell = (*front)(nil)

func (f *front) start(w *world) error {
	f.w = w
	var err error
	f.m, err = router.NewMachine(w.cfg.Router, rand.New(rand.NewPCG(w.cfg.Seed, 1)), w.newTicket)
	return err
}

// receive implements actor. A submission's prompts are known at once.
func (f *front) receive(message any) {
	w := f.w
	if sub, ok := message.(*stream.Submit); ok && sub.Prompts == nil {
		prompts := []stream.Prompt{{IDs: w.byHandle[sub.Call].prompt}}
		w.post(w.byHandle[sub.Call], stream.Encoded{Prompts: prompts})
		full := *sub
		full.Prompts = prompts
		message = &full
	}
	if end, ok := message.(stream.Finished); ok {
		end.Produced = scoring.Tokens(math.Ceil(w.cfg.HeardShare * float64(end.Produced)))
		message = end
	}
	f.m.Message(w.time(), message, f.fleet, f)
	f.arm()
}

func (f *front) tick() {
	if f.armed == nil || f.w.now() < *f.armed {
		return // a timer that an earlier one has taken the place of
	}
	f.armed = nil
	f.m.Tick(f.w.time(), f.fleet, f)
	f.arm()
}

// arm sets a timer unless one rings before it is wanted.
func (f *front) arm() {
	at, ok := f.m.NextTick()
	if !ok {
		return
	}
	when := max(f.w.since(at), f.w.now())
	if f.armed != nil && *f.armed <= when {
		return
	}
	f.armed = &when
	f.w.ring(at, nil, nil)
}

// TellCall implements [router.Shell].
func (f *front) TellCall(call *stream.Call, message any) {
	if c := f.w.byHandle[call]; c != nil {
		f.w.post(c, message)
	}
}

// Reserve implements [router.Shell].
func (f *front) Reserve(ref *fleet.Ref, r *fleet.Reserve) {
	f.w.post(f.w.hostOf(ref), r)
}

// GiveBack implements [router.Shell].
func (f *front) GiveBack(ref *fleet.Ref, ticket scoring.Ticket) {
	f.w.post(f.w.hostOf(ref), fleet.End{Ticket: ticket, Reason: ledger.Refused})
}

// Turned implements [router.Shell].
func (f *front) Turned(fault.Kind, fault.Cause) {}

// Ejected implements [router.Shell].
func (f *front) Ejected(id scoring.ReplicaID, _ float64, _ time.Time) {
	for _, h := range f.w.hosts {
		if h.ref.ID == id {
			h.figures.Ejections++
		}
	}
}

// Reranked implements [router.Shell].
func (*front) Reranked() {}

// Dispatched implements [router.Shell].
func (f *front) Dispatched(time.Duration) {}
