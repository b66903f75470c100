package dst

import (
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
)

// node is the node's actor: it owns who is in the fleet, and operators' orders go through it.
type node struct {
	w       *world
	box     mailbox
	members *fleet.Membership
}

// Messages to the node.
type (
	addition struct{ h *host }
	order    struct {
		h    *host
		what any // a Drain or an Undrain
	}
	emptied struct{ h *host } // a replica is drained
	ended   struct{ h *host } // its actor has
)

func (n *node) open(w *world) {
	n.w, n.members = w, fleet.NewMembership(modelName)
	n.box = mailbox{w: w, owner: n, id: w.newBox()}
}

func (n *node) shell() fleet.Shell {
	if plant := n.w.cfg.Plant; plant != nil && plant.node != nil {
		return plant.node(n)
	}
	return n
}

// tell sends the node a message, as an operator or another actor does.
func (n *node) tell(message any) { n.box.post(&n.box, message) }

// receive implements recipient.
func (n *node) receive(message any) {
	switch m := message.(type) {
	case addition:
		n.add(m.h)
	case order:
		if f := n.members.Order(m.h.id, m.what, n.shell()); f == nil {
			m.h.ordered, m.h.orderedAt = m.what, n.w.now
		}
	case emptied:
		n.members.Gone(m.h.ref, n.shell())
	case ended:
		n.members.Ended(m.h.ref, n.shell())
	}
}

func (n *node) add(h *host) {
	if f := n.members.Add(h.ref, n.shell()); f != nil {
		n.w.violate(Orders, "%s could not be added: %s", h.id, f.Message)
	}
}

// Spawn implements fleet.Shell. What an actor is told before it is spawned reaches nobody; then it waits until the actor has begun.
func (n *node) Spawn(ref *fleet.Ref) {
	h := n.w.hostOf(ref)
	h.box.closed = false
	if n.w.now == 0 {
		h.start()
		return
	}
	h.box.suspend()
	n.w.in(n.w.delay(), evRevive).host = h
}

// Tell implements fleet.Shell.
func (n *node) Tell(ref *fleet.Ref, order any) { n.w.hostOf(ref).box.post(&n.box, order) }

// Forget implements fleet.Shell.
func (*node) Forget(*fleet.Ref) {}

// Stop implements fleet.Shell.
func (n *node) Stop(ref *fleet.Ref) {
	h := n.w.hostOf(ref)
	h.close()
	n.tell(ended{h})
}

// Close implements fleet.Shell.
func (n *node) Close(ref *fleet.Ref) { n.w.hostOf(ref).p.kill(false) }

// hasty are operators who add a replica and take it out, or drain it, in the same breath. They have a generator of their own.
func (w *world) hasty(h *host) {
	rng := rand.New(rand.NewPCG(w.cfg.Seed, 0x8ebc6af09c88c6e3+uint64(h.n))) //nolint:gosec // a number
	if rng.Float64() >= 0.4 {
		return
	}
	h.drained = true
	w.did(deed{fault: Drain, host: h.n, leave: none})
	w.node.tell(order{h, fleet.Drain{}})
}

// ordersWithin is how long an order may take to be carried out, from when nothing kept it from that.
const ordersWithin = 2 * time.Second

// checkOrders looks whether every order that was accepted is carried out: a replica that is to leave is gone in the end, one that is
// to be drained takes nothing, and one that was asked back is drained no more. The last one that serves waits for another.
func (w *world) checkOrders(last bool) {
	for _, h := range w.hosts {
		if h.ordered == nil || h.gone {
			continue
		}
		drain, drains := h.ordered.(fleet.Drain)
		if h.box.suspended || h.m == nil || drains && !fleet.OtherServes(w.fleet(), h.ref) {
			h.orderedAt = w.now
		}
		if late := w.now-h.orderedAt > ordersWithin; late && h.draining() != drains || last && drains && !drain.Keep {
			w.violate(Orders, "%s is %s, and was ordered %+v %s ago", h.id, h.ref.Snapshot().State, h.ordered, w.now-h.orderedAt)
		}
	}
}

// fleet are the replicas that the router knows.
func (w *world) fleet() []*fleet.Ref { return w.node.members.Roster(modelName).Refs() }

// tellModel tells every call of the model that runs, by the register that real calls are found in, and looks whether all hear it:
// those whose clients name an adapter, too.
func (w *world) tellModel(from *mailbox, message any) {
	w.live.TellModel(modelName, message)
	for _, c := range w.calls {
		told := c.handle.Take()
		if c.listens() && len(told) != 1 {
			w.violate(Orders, "call %d, which names %q, is not told %T", c.n, c.req.Model, message)
		}
		for _, m := range told {
			c.box.post(from, m)
		}
	}
}

// tellAll tells every call that runs, and returns how many there are.
func (w *world) tellAll(from *mailbox, message any) int {
	n := w.live.Tell(message)
	for _, c := range w.calls {
		for _, m := range c.handle.Take() {
			c.box.post(from, m)
		}
	}
	return n
}

// enter registers a call under the served model's name, whatever its client calls it.
func (c *call) register() *stream.Budget {
	model := streamModel
	model.Name = modelName
	if plant := c.w.cfg.Plant; plant != nil && plant.clientsNames {
		model.Name = c.req.Model
	}
	c.handle = stream.NewCall(c.req, model)
	return c.w.live.Enter(c.handle)
}

// adapterName is the adapter that engines have where a seed has one.
const adapterName = "poet"

// drawAdapter says what part of the requests names an adapter; in two of three seeds none does. It has a generator of its own.
func drawAdapter(seed uint64) float64 {
	rng := rand.New(rand.NewPCG(seed, 0xa0761d6478bd642f))
	if rng.Float64() >= 1.0/3 {
		return 0
	}
	return 0.2 + 0.6*rng.Float64()
}

// adapts has a request name the adapter; none that its engine renders, nor one that engines dislike: what they say of it would be said
// of the adapter.
func (c *call) adapts() {
	rng := rand.New(rand.NewPCG(c.w.cfg.Seed, 0xe7037ed1a0b428db^uint64(c.n))) //nolint:gosec // a number
	odd := &c.w.plan.singles
	disliked := func(head []uint32) bool {
		return head != nil && slices.Equal(c.ids[0][:min(len(head), len(c.ids[0]))], head)
	}
	if rng.Float64() < c.w.plan.adapter && c.raw == 0 && !disliked(odd.disliked) && !disliked(odd.dreaded) {
		c.req.Model, c.req.LoRA = adapterName, adapterName
	}
}
