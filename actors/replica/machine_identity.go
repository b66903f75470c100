package replica

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/engine"
)

// likeness is what an engine has said of its model in one life: nothing of it can change without another one.
type likeness struct {
	model       string
	length      *int
	vocab       *int
	blockTokens *int
}

// strange says why an engine that answers is not to be used as one of the model's; "": nothing speaks against it.
func (m *machine) strange(p *Probed) string {
	if p.Foreign != "" {
		return p.Foreign
	}
	s := &p.Status
	if l := m.life.said; l != nil && s.Incarnation != "" && s.Incarnation == m.life.evidence {
		return l.changed(s)
	}
	return ""
}

// stranger takes an engine out of service that is not one of the model's. What it says of itself is shown, and routes nothing
// here.
func (m *machine) stranger(now time.Time, s engine.Status, why string) {
	m.engineModel, m.engineNames, m.adapters = s.Model, nil, nil
	m.unusable(now, why)
	m.drained(now)
}

// changed says what is another thing than before.
func (l *likeness) changed(s *engine.Status) string {
	switch {
	case l.model != "" && s.Model != "" && s.Model != l.model && !slices.Contains(s.Names, l.model):
		return fmt.Sprintf("its engine calls its model %q now, and called it %q: an engine that lives on has another model. Restart it", s.Model, l.model)
	case differ(l.length, s.LengthTokens):
		return changedFigure("length of the model", *s.LengthTokens, *l.length)
	case differ(l.vocab, s.VocabTokens):
		return changedFigure("vocabulary", *s.VocabTokens, *l.vocab)
	case said(s.BlockTokens) && differ(l.blockTokens, s.BlockTokens):
		return changedFigure("block", *s.BlockTokens, *l.blockTokens)
	}
	return ""
}

func changedFigure(what string, now, before int) string {
	return fmt.Sprintf("its engine tells a %s of %d tokens now, and told one of %d: an engine that lives on has changed. Restart it", what, now, before)
}

// differ says whether two figures that are both told are not the same.
func differ(before, now *int) bool { return before != nil && now != nil && *before != *now }

// resemble notes what the present life has said of its model, each thing when it is first said.
func (l *life) resemble(s engine.Status) {
	if l.said == nil {
		l.said = &likeness{}
	}
	known := l.said
	if known.model == "" {
		known.model = s.Model
	}
	keep := func(known **int, told *int) {
		if *known == nil && told != nil {
			figure := *told
			*known = &figure
		}
	}
	keep(&known.length, s.LengthTokens)
	keep(&known.vocab, s.VocabTokens)
	if said(s.BlockTokens) {
		keep(&known.blockTokens, s.BlockTokens)
	}
}
