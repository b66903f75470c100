package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"plimsoll/engine"
	"plimsoll/scoring"
)

// Accord is what the engines of one model have to agree on: the engines' own names of it, its length, its vocabulary; and that
// no engine is there twice. Replicas' actors bring it each answer of their engines. It is safe for concurrent use.
//
// The engine of the replica that was listed first says what the model is. The others wait until that has answered, or has
// failed to once, or has let them wait for the time of a probe; then the first that speaks says it. What was said is kept for the node's life: a client's request must not
// be answered by another model because an engine was restarted with one.
type Accord struct {
	spoken atomic.Pointer[Spoken] // nil until an engine has said a name

	mu      sync.Mutex
	first   scoring.ReplicaID               // guarded by mu; "" once its turn is over, or if there is none
	waiting []func()                        // guarded by mu; called once when that is so
	lengths map[string]claim                // guarded by mu; by kind of engine: each counts what it calls a length
	vocab   *claim                          // guarded by mu
	parties map[scoring.ReplicaID]*partaker // guarded by mu
	joined  int                             // guarded by mu; replicas, ever
}

// Spoken is how the engines call their model. It is immutable.
type Spoken struct {
	Name  string   // by which the engine that has said it is asked
	Names []string // all that this engine has for it
	By    scoring.ReplicaID
}

// claim is a figure, and who said it first.
type claim struct {
	figure int
	by     scoring.ReplicaID
}

// partaker is a replica.
type partaker struct {
	order   int
	process string // that answered last; "" while it is not known
}

// Word is an answer of a replica's engine.
type Word struct {
	ID     scoring.ReplicaID
	Kind   string
	Asked  string // the engine's name of the model as its operator says it; "": he does not
	Status engine.Status
}

// Verdict is what the accord makes of a word.
type Verdict struct {
	// Early: it is the turn of the replica that was listed first. Who waits is woken.
	Early bool
	// Foreign is why the engine cannot serve the model; "": it can.
	Foreign string
	// Settled is what the engines call the model from now on, where this word has settled it.
	Settled *Spoken
}

// NewAccord returns the accord of a model. first is the replica that was listed first, "" if there is none.
func NewAccord(first scoring.ReplicaID) *Accord {
	return &Accord{first: first, lengths: map[string]claim{}, parties: map[scoring.ReplicaID]*partaker{}}
}

// Spoken is how the engines call their model; nil while none has said it.
func (a *Accord) Spoken() *Spoken { return a.spoken.Load() }

// Join makes a replica take part. Of two that turn out to be the same engine the one stays that has joined first.
func (a *Accord) Join(id scoring.ReplicaID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.joined++
	a.parties[id] = &partaker{order: a.joined}
}

// Leave is for a replica that is gone.
func (a *Accord) Leave(id scoring.ReplicaID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.parties, id)
	a.over(id)
}

// Silent says that a replica's engine does not answer: nobody waits for it any more.
func (a *Accord) Silent(id scoring.ReplicaID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over(id)
}

// Down says that nothing is known of a replica's engine any more, which process it is included.
func (a *Accord) Down(id scoring.ReplicaID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.parties[id]; p != nil {
		p.process = ""
	}
}

// Enough says that the replica that was listed first was waited for long enough.
func (a *Accord) Enough() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over(a.first)
}

// over ends the turn of the replica that was listed first, if it is that.
func (a *Accord) over(id scoring.ReplicaID) {
	if id != a.first || id == "" {
		return
	}
	a.first = ""
	for _, wake := range a.waiting {
		wake()
	}
	a.waiting = nil
}

// Hear takes an answer of an engine. wake is called at most once, maybe before Hear returns and from any goroutine, when a word
// that came early is to be said again. It must not block.
func (a *Accord) Hear(w Word, wake func()) Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	if other, twice := a.twice(w); twice {
		return Verdict{Foreign: fmt.Sprintf("its engine is that of replica %s: the same process answers both. Remove one of them", other)}
	}
	if a.first != "" && a.first != w.ID && a.spoken.Load() == nil {
		a.waiting = append(a.waiting, wake)
		return Verdict{Early: true}
	}
	if foreign := a.foreign(w); foreign != "" {
		a.over(w.ID)
		return Verdict{Foreign: foreign}
	}
	v := Verdict{Settled: a.settle(w)}
	a.over(w.ID)
	return v
}

// twice finds the replica that has joined before and whose engine is the same process.
func (a *Accord) twice(w Word) (other scoring.ReplicaID, twice bool) {
	p := a.parties[w.ID]
	if p == nil {
		return "", false // it has just left
	}
	p.process = w.Status.Process
	if p.process == "" {
		return "", false
	}
	for id, o := range a.parties {
		if o.process == p.process && o.order < p.order {
			return id, true
		}
	}
	return "", false
}

// foreign says how a word contradicts what was said before.
func (a *Accord) foreign(w Word) string {
	names, spoken := w.Status.Names, a.spoken.Load()
	switch {
	case len(names) == 0:
	case w.Asked != "":
		if !slices.Contains(names, w.Asked) {
			return fmt.Sprintf("its engine serves the model %s and not %q, as model= says", quoted(names), w.Asked)
		}
	case spoken != nil && !share(names, spoken.Names):
		return fmt.Sprintf("its engine serves the model %s, but this one is %s, as replica %s has said: one name is not for two models. "+
			"If they are the same, say model=%s at this replica", quoted(names), quoted(spoken.Names), spoken.By, names[0])
	}
	if said, known := a.lengths[w.Kind]; known {
		if n := w.Status.LengthTokens; n != nil && *n != said.figure {
			return contradiction("length of the model", *n, said)
		}
	}
	if n := w.Status.VocabTokens; n != nil && a.vocab != nil && *n != a.vocab.figure {
		return contradiction("vocabulary", *n, *a.vocab)
	}
	return ""
}

func contradiction(what string, figure int, said claim) string {
	return fmt.Sprintf("its engine tells a %s of %d tokens, but that of replica %s one of %d: they serve different models",
		what, figure, said.by, said.figure)
}

// settle keeps what nobody has said before.
func (a *Accord) settle(w Word) *Spoken {
	if n := w.Status.LengthTokens; n != nil {
		if _, known := a.lengths[w.Kind]; !known {
			a.lengths[w.Kind] = claim{*n, w.ID}
		}
	}
	if n := w.Status.VocabTokens; n != nil && a.vocab == nil {
		a.vocab = &claim{*n, w.ID}
	}
	if len(w.Status.Names) == 0 || a.spoken.Load() != nil {
		return nil
	}
	s := &Spoken{Name: w.Status.Model, Names: slices.Clone(w.Status.Names), By: w.ID}
	if w.Asked != "" {
		s.Name = w.Asked
	}
	a.spoken.Store(s)
	return s
}

func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
}

// quoted lists names for the log; a few are enough to know them by.
func quoted(names []string) string {
	const most = 4
	words := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		words = append(words, strconv.Quote(name))
	}
	if len(names) > most {
		words = append(words, "...")
	}
	return strings.Join(words, ", ")
}
