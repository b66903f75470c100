package explain

import (
	"slices"
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/policy"
)

// Kind says what of a request is placed.
type Kind uint8

// Kinds of what is placed.
const (
	Fresh   Kind = iota // a request that has just come
	Again               // its first attempt failed before it gave a token
	Resumed             // an answer that broke off and goes on
	Hedge               // a second attempt beside one that is slow
	Asked               // nothing: an operator asks what would be done

	NumKinds
)

// String is the word used in records.
func (k Kind) String() string {
	switch k {
	case Fresh:
		return "request"
	case Again:
		return "again"
	case Resumed:
		return "resume"
	case Hedge:
		return "hedge"
	case Asked:
		return "hypothetical"
	case NumKinds:
	}
	return "unknown"
}

// Subject names a leg of a submission that is decided for.
type Subject struct {
	Entry   uint64 // the submission's number in the router's present instance
	Leg     int
	Request string // the client-visible ID
	Kind    Kind
}

// noteKind says what a note tells.
type noteKind uint8

const (
	laid       noteKind = iota // the fleet as a pass begins
	changed                    // what is booked or kept on one replica has changed
	decided                    // with a table
	held                       // the cause or the replica of a hold has changed
	dispatched                 // the policy was told of what was decided last
	reserving
	denied
	placed
	queued
	rejected
	withdrawn
	firstToken
	finished
	failed
)

// span is a part of one of a batch's slices.
type span struct{ from, to int }

// note is one thing that a machine tells; which fields count depends on its kind.
type note struct {
	kind     noteKind
	at       time.Time
	subject  Subject
	fleet    span // laid: of candidates; changed: one
	index    int  // changed, dispatched: place in the fleet
	queue    policy.Queue
	demand   policy.Demand
	decision policy.Decision
	fits     span
	values   span
	ticket   scoring.Ticket
	replica  scoring.ReplicaID
	why      string
	took     time.Duration // firstToken: since the dispatch
	own      time.Duration // firstToken: the part of it after the replica's first token before
	tokens   scoring.Tokens
	prompt   scoring.Tokens
	cached   *int
	broken   bool
}

// Batch is what one step of a router's machine tells. It is filled by the router and read by the watch, one after the other. Nil
// takes no notes, where nobody reads them; of decisions, which cost the most to note, it must not be told.
type Batch struct {
	// Instance counts the routers of the model: what an earlier one left open is lost.
	Instance uint64

	policyName string
	terms      []string
	notes      []note
	fleets     []policy.Candidate
	fits       []policy.Fit
	values     []float64
	isLaid     bool
}

// Empty says whether there is nothing in it.
func (b *Batch) Empty() bool { return len(b.notes) == 0 }

// clear empties the batch and keeps its memory.
func (b *Batch) clear() {
	clear(b.notes) // they point to others' memory
	b.notes, b.fleets, b.fits, b.values, b.isLaid = b.notes[:0], b.fleets[:0], b.fits[:0], b.values[:0], false
}

// bytes is about what it holds.
func (b *Batch) bytes() int {
	return len(b.notes)*noteBytes + len(b.fleets)*candidateBytes + len(b.fits)*fitBytes + len(b.values)*8
}

func (b *Batch) add(n note) {
	if b != nil {
		b.notes = append(b.notes, n)
	}
}

// Look says that a pass begins, or that the fleet was laid out anew in it.
func (b *Batch) Look() {
	if b != nil {
		b.isLaid = false
	}
}

// lay copies the fleet, once a pass.
func (b *Batch) lay(p policy.Policy, pass *policy.Pass) {
	if b.isLaid {
		return
	}
	b.isLaid = true
	if b.terms == nil {
		b.policyName, b.terms = p.Name(), append([]string{}, p.Terms()...)
	}
	from := len(b.fleets)
	b.fleets = append(b.fleets, pass.Fleet...)
	b.notes = append(b.notes, note{kind: laid, at: pass.Now, fleet: span{from, len(b.fleets)}, queue: pass.Queue})
}

// Changed says that what is booked, or kept, on a candidate has changed.
func (b *Batch) Changed(i int, c *policy.Candidate) {
	if b == nil || !b.isLaid {
		return // the copy that is still to be made shows it
	}
	from := len(b.fleets)
	b.fleets = append(b.fleets, *c)
	b.add(note{kind: changed, index: i, fleet: span{from, from + 1}})
}

// Values notes what a policy's terms come to, for the Decided that follows.
func (b *Batch) Values(p policy.Policy, pass *policy.Pass, d *policy.Demand, fits []policy.Fit) (from int) {
	from = len(b.values)
	b.values = policy.Values(p, pass, d, fits, b.values)
	return from
}

// Decided notes a decision and all that it was made of; values is what Values returned for it.
func (b *Batch) Decided(s Subject, p policy.Policy, pass *policy.Pass, d *policy.Demand, fits []policy.Fit, values int, dec policy.Decision) {
	b.lay(p, pass)
	n := note{
		kind: decided, at: pass.Now, subject: s, demand: *d, decision: dec,
		fits: span{len(b.fits), len(b.fits) + len(fits)}, values: span{values, len(b.values)},
	}
	n.demand.Excluded = slices.Clone(d.Excluded) // the machine uses its memory again
	b.fits = append(b.fits, fits...)
	b.notes = append(b.notes, n)
}

// Held notes that a request that was held goes on to be, for another cause or another replica.
func (b *Batch) Held(s Subject, p policy.Policy, pass *policy.Pass, dec policy.Decision) {
	b.lay(p, pass)
	b.notes = append(b.notes, note{kind: held, at: pass.Now, subject: s, decision: dec})
}

// Dispatched notes that the policy was told of what was decided last: it goes to a candidate.
func (b *Batch) Dispatched(i int) { b.add(note{kind: dispatched, index: i}) }

// Reserving notes that a replica was asked, as was decided for the leg last.
func (b *Batch) Reserving(at time.Time, s Subject, ticket scoring.Ticket, id scoring.ReplicaID, prompt scoring.Tokens) {
	b.add(note{kind: reserving, at: at, subject: s, ticket: ticket, replica: id, prompt: prompt})
}

// Denied notes that nothing came of a reservation.
func (b *Batch) Denied(at time.Time, ticket scoring.Ticket, id scoring.ReplicaID, why string) {
	b.add(note{kind: denied, at: at, ticket: ticket, replica: id, why: why})
}

// Placed notes that a reservation was passed on to its request.
func (b *Batch) Placed(at time.Time, ticket scoring.Ticket) {
	b.add(note{kind: placed, at: at, ticket: ticket})
}

// Queued notes that a leg of so many prompt tokens waits, behind so many submissions, though nobody may have decided for it yet.
func (b *Batch) Queued(at time.Time, s Subject, prompt scoring.Tokens, before int) {
	b.add(note{kind: queued, at: at, subject: s, prompt: prompt, queue: policy.Queue{Requests: before}})
}

// Rejected notes that a submission was turned away, with all its legs. s is the first one, of so many prompt tokens.
func (b *Batch) Rejected(at time.Time, s Subject, prompt scoring.Tokens, why string) {
	b.add(note{kind: rejected, at: at, subject: s, prompt: prompt, why: why})
}

// Withdrawn notes that a submission was taken back.
func (b *Batch) Withdrawn(at time.Time, entry uint64) {
	b.add(note{kind: withdrawn, at: at, subject: Subject{Entry: entry}})
}

// FirstToken notes the end of a prefill that took so long since its dispatch, own of it since the replica's first token before.
func (b *Batch) FirstToken(at time.Time, ticket scoring.Ticket, id scoring.ReplicaID, took, own time.Duration) {
	b.add(note{kind: firstToken, at: at, ticket: ticket, replica: id, took: took, own: own})
}

// Finished notes the end of an attempt that gave tokens: how many the leg has, of them and before them its prompt without
// what it produced on others, how many prompt tokens the engine found in its cache (nil: it has not said), and whether the engine failed.
func (b *Batch) Finished(at time.Time, ticket scoring.Ticket, id scoring.ReplicaID, produced, prompt scoring.Tokens, cached *int, broken bool) {
	b.add(note{kind: finished, at: at, ticket: ticket, replica: id, tokens: produced, prompt: prompt, cached: cached, broken: broken})
}

// Failed notes the end of an attempt that gave no token.
func (b *Batch) Failed(at time.Time, ticket scoring.Ticket, id scoring.ReplicaID) {
	b.add(note{kind: failed, at: at, ticket: ticket, replica: id})
}
