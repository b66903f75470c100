package dst

import (
	"maps"
	"slices"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// Plant is a bug to find: it alters what a machine is told or what it asks for. The machines know nothing of it.
type Plant struct {
	Name    string
	Catches Checker // who must find it

	replica   func(h *host) replica.Shell
	stream    func(c *call) stream.Shell
	router    func(f *front) router.Shell
	toReplica func(h *host, message any) any // nil: the message is lost
	toRouter  func(f *front, message any) any
	batch     func(l *link, b engine.KVBatch, take func(engine.KVBatch)) // what a feed is told
	toFeed    func(f *feed, message any) any                             // nil: the message is lost
	published func(l *link, seq uint64) uint64                           // the number of a batch that comes
	node      func(n *node) fleet.Shell
	// clientsNames: calls are found by the names that their clients use.
	clientsNames bool
	// ownBudgets: each request has a retry budget of its own.
	ownBudgets bool
	// weightless: the router is told no tenant's weight.
	weightless bool
}

// Plants are bugs that an implementation may well have.
func Plants() []Plant {
	return slices.Concat(releasePlants(), claimPlants(), answerPlants(), routePlants(), feedPlants(), hedgePlants(), orderPlants(), nodePlants())
}

// fewer says whether a bug shows at this ticket: not at all of them.
func fewer(t scoring.Ticket) bool { return t.Number%7 == 3 }

// told alters the messages of streams to replicas.
type told struct {
	*call

	tell func(c *call, ref *fleet.Ref, message any)
}

// ToReplica implements stream.Shell.
func (t told) ToReplica(ref *fleet.Ref, message any) { t.tell(t.call, ref, message) }

func telling(tell func(c *call, ref *fleet.Ref, message any)) func(c *call) stream.Shell {
	return func(c *call) stream.Shell { return told{c, tell} }
}

func releasePlants() []Plant {
	return []Plant{
		{Name: "skip a release", Catches: Zero, stream: telling(func(c *call, ref *fleet.Ref, message any) {
			if end, ok := message.(fleet.End); ok && fewer(end.Ticket) {
				return
			}
			c.ToReplica(ref, message)
		})},
		{Name: "double release", Catches: Once, stream: telling(func(c *call, ref *fleet.Ref, message any) {
			c.ToReplica(ref, message)
			if end, ok := message.(fleet.End); ok && fewer(end.Ticket) {
				c.ToReplica(ref, message)
			}
		})},
		{Name: "linger skipped", Catches: Cover, stream: telling(func(c *call, ref *fleet.Ref, message any) {
			if l, ok := message.(fleet.Linger); ok && c.stepping == nil {
				message = fleet.End{Ticket: l.Claim.Ticket, Reason: ledger.Cancelled}
			}
			c.ToReplica(ref, message)
		})},
		{Name: "linger skipped when the client leaves", Catches: Cancel, stream: telling(func(c *call, ref *fleet.Ref, message any) {
			if l, ok := message.(fleet.Linger); ok {
				message = fleet.End{Ticket: l.Claim.Ticket, Reason: ledger.Cancelled}
			}
			c.ToReplica(ref, message)
		})},
		{Name: "growth not told", Catches: Cover, stream: telling(func(c *call, ref *fleet.Ref, message any) {
			if _, ok := message.(fleet.Progress); !ok {
				c.ToReplica(ref, message)
			}
		})},
		{Name: "release into a new incarnation", Catches: Grant, toReplica: func(h *host, message any) any {
			// Whoever has the place now that a ticket of the life before had.
			heir := func(t scoring.Ticket) scoring.Ticket {
				if h.p.lives == 1 || h.books.live[t.Number] != nil || len(h.books.live) == 0 {
					return t
				}
				return scoring.Ticket{Boot: t.Boot, Number: slices.Min(slices.Collect(maps.Keys(h.books.live)))}
			}
			switch m := message.(type) {
			case fleet.AttemptFailed:
				m.Claim.Ticket = heir(m.Claim.Ticket)
				return m
			case fleet.End:
				m.Ticket = heir(m.Ticket)
				return m
			}
			return message
		}},
	}
}

// granting grants whatever was refused for want of room.
type granting struct{ *host }

// Refuse implements replica.Shell.
func (g granting) Refuse(t scoring.Ticket, why ledger.Reason) {
	if why == ledger.NoBlocks || why == ledger.NoSeats {
		g.Grant(t)
		return
	}
	g.host.Refuse(t, why)
}

// riding leaves out of a claim what somebody else has pinned.
type riding struct{ *front }

// Reserve implements router.Shell.
func (r riding) Reserve(ref *fleet.Ref, m *fleet.Reserve) {
	pins := r.w.hostOf(ref).books.pins
	n := 0
	for n < len(m.Claim.SharedKeys) && pins[m.Claim.SharedKeys[n]] > 0 {
		n++
	}
	m.Claim.SharedKeys = m.Claim.SharedKeys[n:]
	r.front.Reserve(ref, m)
}

func claimPlants() []Plant {
	return []Plant{
		{Name: "ignore incarnation", Catches: Grant, toReplica: func(h *host, message any) any {
			if r, ok := message.(*fleet.Reserve); ok {
				altered := *r
				altered.Incarnation = h.ref.Snapshot().Incarnation
				return &altered
			}
			return message
		}},
		{Name: "admit over capacity", Catches: Grant, replica: func(h *host) replica.Shell { return granting{h} }},
		{Name: "shared prefix charged to the first holder", Catches: Cover, router: func(f *front) router.Shell { return riding{f} }},
		{Name: "ledger that hears of half the ends", Catches: Grant, toReplica: func(_ *host, message any) any {
			if end, ok := message.(fleet.End); ok && fewer(end.Ticket) {
				return nil
			}
			return message
		}},
	}
}

// answering alters what a stream asks of engines and gives to its client.
type answering struct {
	*call

	start func(c *call, place stream.Placement, request *engine.Request)
	texts func(c *call, leg int, entries []stream.Entry)
}

// StartAttempt implements stream.Shell.
func (a answering) StartAttempt(id uint64, place stream.Placement, request engine.Request) {
	if a.start != nil {
		a.start(a.call, place, &request)
	}
	a.call.StartAttempt(id, place, request)
}

// Append implements stream.Shell.
func (a answering) Append(leg int, entries []stream.Entry, u stream.Usage) {
	if a.texts != nil {
		entries = slices.Clone(entries)
		a.texts(a.call, leg, entries)
	}
	a.call.Append(leg, entries, u)
}

// ending ends a response twice.
type ending struct{ *call }

// End implements stream.Shell.
func (e ending) End(f *fault.Fault) {
	e.call.End(f)
	e.call.End(f)
}

func answerPlants() []Plant {
	starting := func(start func(c *call, place stream.Placement, request *engine.Request)) func(c *call) stream.Shell {
		return func(c *call) stream.Shell { return answering{call: c, start: start} }
	}
	resumed := func(c *call, place stream.Placement) bool { return len(c.legs[place.Leg].got) > 0 }
	short := func(request *engine.Request) {
		request.PromptTokens = request.PromptTokens[:len(request.PromptTokens)-1]
	}
	return []Plant{
		{Name: "resume off by one", Catches: Output, stream: starting(func(c *call, place stream.Placement, request *engine.Request) {
			if resumed(c, place) {
				short(request)
			}
		})},
		{Name: "journal one short at a full block", Catches: Output, stream: starting(func(c *call, place stream.Placement, request *engine.Request) {
			if resumed(c, place) && len(request.PromptTokens)%blockTokens == 0 {
				short(request)
			}
		})},
		{Name: "max_tokens begins anew", Catches: Output, stream: starting(func(c *call, place stream.Placement, request *engine.Request) {
			if resumed(c, place) {
				request.MaxTokens += len(c.legs[place.Leg].got)
			}
		})},
		{Name: "hold-back lost at the joint", Catches: Output, stream: func(c *call) stream.Shell {
			return answering{call: c, texts: func(c *call, leg int, entries []stream.Entry) {
				l := c.legs[leg]
				if a := l.tries[len(l.tries)-1]; a.nth > 1 && len(a.got) == len(entries) && len(c.req.Stop) > 0 {
					entries[0].Text = entries[0].Text[:len(entries[0].Text)/2]
				}
			}}
		}},
		{Name: "response ended twice", Catches: Outcome, stream: func(c *call) stream.Shell { return ending{c} }},
		{Name: "forget exclusion", Catches: Exclusion, toRouter: func(_ *front, message any) any {
			sub, ok := message.(*stream.Submit)
			if !ok {
				return message
			}
			altered := *sub
			altered.Legs = slices.Clone(sub.Legs)
			for i := range altered.Legs {
				altered.Legs[i].Excluded = nil
			}
			return &altered
		}},
	}
}

func routePlants() []Plant {
	return []Plant{
		{Name: "grant after cancel", Catches: Cancel, toRouter: func(f *front, message any) any {
			if w, ok := message.(stream.Withdraw); ok {
				f.TellCall(w.Call, stream.Withdrawn{Number: w.Number})
				return nil
			}
			return message
		}},
		{Name: "speculation kept after a failure", Catches: Index, toRouter: func(_ *front, message any) any {
			if _, ok := message.(stream.Failed); ok {
				return nil
			}
			return message
		}},
		{Name: "everybody waits for the same one", Catches: Hold, toRouter: func(f *front, message any) any {
			sub, ok := message.(*stream.Submit)
			if !ok {
				return message
			}
			altered := *sub
			altered.Legs = slices.Clone(sub.Legs)
			for i := range altered.Legs {
				for _, h := range f.w.present() {
					if h.n != 1 {
						altered.Legs[i].Excluded = append(altered.Legs[i].Excluded, stream.Exclusion{Replica: h.id, Incarnation: h.ref.Snapshot().Incarnation})
					}
				}
			}
			return &altered
		}},
		{Name: "refusals of one kind of request taken for many", Catches: OneRequest, toReplica: func(_ *host, message any) any {
			failed, ok := message.(fleet.AttemptFailed)
			if ok {
				failed.Of.Head = failed.Claim.Ticket.Number
				return failed
			}
			return message
		}},
		{Name: "a replica that stays out", Catches: Live, toReplica: func(h *host, message any) any {
			if _, ok := message.(replica.Probed); ok && h.n == 2 && h.p.lives > 1 {
				return nil
			}
			return message
		}},
	}
}

// Find runs seeds from first on, most of them at most, until the checker that is meant for the plant finds it. It returns that
// run and how many others violated something else before; the run has no violation if the plant is not found.
func (p *Plant) Find(first, most uint64) (found Result, others int) {
	for seed := first; seed < first+most; seed++ {
		r := Run(Config{Seed: seed, Plant: p})
		switch {
		case r.Violation == nil:
		case r.Violation.Checker == p.Catches:
			return r, others
		default:
			others++
		}
	}
	return Result{}, others
}
