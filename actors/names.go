package actors

import (
	"log/slog"
	"slices"

	"plimsoll/actors/fleet"
	"plimsoll/actors/ingress"
)

// Names of a model. [router.Config].Model is the one inside the node: it never changes. Clients' names are another matter: they
// are the engines' own, once one of them has said them, unless the operator has chosen one ([Model.Named]). Before that the
// inner name stands for them, and it is understood for ever: a client may have read it from a list in the first second.

// name is what clients call the model.
func (m *model) name() string {
	if spoken := m.accord.Spoken(); spoken != nil && !m.Named {
		return spoken.Name
	}
	return m.Router.Model
}

// settled hears what the engines of a model call it.
func (s *System) settled(m *model, spoken *fleet.Spoken) {
	s.deps.Log.Info("the engines have said what their model is", slog.String("model", m.name()), slog.String("engine_model", spoken.Name),
		slog.Any("names", spoken.Names), slog.String("replica", string(spoken.By)))
	if !m.Named {
		s.deps.Meter.Shown(m.Router.Model, spoken.Name)
	}
}

// engineNames lists by what other names clients may ask for the model: all that its engines have for it, the one who says what
// it is first. A name that the operator has chosen and that no engine has stands in the place of theirs.
func (m *model) engineNames() []string {
	spoken := m.accord.Spoken()
	if spoken == nil {
		return nil
	}
	names := slices.Clone(spoken.Names)
	for _, ref := range m.fleet.Refs() {
		for _, name := range ref.Snapshot().EngineNames {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	own := slices.Index(names, m.name())
	if own < 0 {
		return nil
	}
	return slices.Delete(names, own, own+1)
}

// goesBy says whether clients may ask for the model by a name.
func (m *model) goesBy(name string) bool {
	return name == m.name() || slices.Contains(m.engineNames(), name)
}

// NameOf is what clients call a model, by its name inside the node.
func (s *System) NameOf(model string) string {
	if m := s.model(model); m != nil {
		return m.name()
	}
	return model
}

// unnamed says whether some model's name is still to be said by its engines.
func (s *System) unnamed() bool {
	return slices.ContainsFunc(s.models, func(m *model) bool { return !m.Named && m.accord.Spoken() == nil })
}

// resolve finds a served model by one of its names, or by that of a LoRA adapter that one of its engines has. A request does not
// pay for how many adapters there are.
func (s *System) resolve(name string) (m *model, lora string) {
	if name == "" {
		return nil, ""
	}
	for _, m := range s.models {
		if m.goesBy(name) {
			return m, ""
		}
	}
	for _, m := range s.models {
		for _, ref := range m.fleet.Refs() {
			if ref.Snapshot().Has(name) {
				return m, name
			}
		}
	}
	return s.model(name), ""
}

// adapters lists the LoRA adapters that engines of the model have, sorted.
func (m *model) adapters() []string {
	var names []string
	for _, ref := range m.fleet.Refs() {
		names = append(names, ref.Snapshot().Adapters...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// listed is a served model as the edge knows it.
func (s *System) listed(m *model) ingress.Model {
	im := ingress.Model{Name: m.name(), Created: s.started, Tokenizer: m.Tokenizer, EngineRenders: m.Render == RenderEngine}
	im.Root = im.Name
	if spoken := m.accord.Spoken(); spoken != nil {
		im.Root = spoken.Name
	}
	for _, ref := range m.fleet.Refs() {
		if snap := ref.Snapshot(); snap.Told {
			im.ContextTokens = max(im.ContextTokens, int(snap.Load.Limits.SequenceTokens))
		}
		im.Logprobs = im.Logprobs || ref.Capabilities.Logprobs
		im.LogitBias = im.LogitBias || ref.Capabilities.LogitBias
		im.MinTokens = im.MinTokens || ref.Capabilities.MinTokens
	}
	return im
}

// Models implements ingress.Front.
func (s *System) Models() []ingress.Model {
	var out []ingress.Model
	taken := make(map[string]bool, len(s.models)) // a name is the first one's that has it, as in resolve
	list := func(of ingress.Model) {
		if !taken[of.Name] {
			taken[of.Name] = true
			out = append(out, of)
		}
	}
	for _, m := range s.models {
		list(s.listed(m))
	}
	bases := slices.Clone(out)
	for i, m := range s.models {
		for _, name := range m.engineNames() {
			list(aliasOf(bases[i], name))
		}
	}
	for i, m := range s.models {
		for _, adapter := range m.adapters() {
			list(adapterOf(bases[i], adapter))
		}
	}
	return out
}

// Model implements ingress.Front.
func (s *System) Model(name string) (ingress.Model, bool) {
	m, lora := s.resolve(name)
	switch {
	case m == nil:
		return ingress.Model{}, false
	case lora != "":
		return adapterOf(s.listed(m), lora), true
	}
	return aliasOf(s.listed(m), name), true
}

// aliasOf is a model by another of its names.
func aliasOf(of ingress.Model, name string) ingress.Model {
	of.Alias, of.Name = name != of.Name, name
	return of
}

// adapterOf is the model that an adapter makes of another.
func adapterOf(of ingress.Model, adapter string) ingress.Model {
	of.Name, of.Parent = adapter, of.Name
	return of
}
