package ingress

import (
	"slices"

	"plimsoll/actors/fault"
	"plimsoll/engine/openai"
)

// owner stands in every model's owned_by.
const owner = "plimsoll"

func wireModel(m Model) openai.Model {
	w := openai.Model{ID: m.Name, Object: "model", Created: m.Created.Unix(), OwnedBy: owner, Root: m.Root}
	if m.Parent != "" {
		w.Parent = &m.Parent
	}
	if m.ContextTokens > 0 {
		w.MaxModelLen = &m.ContextTokens
	}
	return w
}

// models answers GET /v1/models.
func (s *Server) models(x *exchange) {
	list := openai.ModelList{Object: "list", Data: []openai.Model{}}
	for _, m := range s.deps.Front.Models() {
		list.Data = append(list.Data, wireModel(m))
	}
	x.json(200, list)
}

// model answers GET /v1/models/{id}; an ID may hold slashes.
func (s *Server) model(x *exchange) {
	id := x.r.PathValue("id")
	m, f := s.lookUp(&id)
	if f != nil {
		x.fail(f)
		return
	}
	x.json(200, wireModel(m))
}

// lookUp returns a model by its name. Without a name it is the one that is served, if there is only
// one; adapters and other names of it do not count.
func (s *Server) lookUp(name *string) (Model, *fault.Fault) {
	if name == nil {
		served := slices.DeleteFunc(slices.Clone(s.deps.Front.Models()), func(m Model) bool { return m.Parent != "" || m.Alias })
		if len(served) == 1 {
			return served[0], nil
		}
		return Model{}, fault.Invalid("model", "model is required: GET /v1/models lists what is served")
	}
	if m, ok := s.deps.Front.Model(*name); ok {
		return m, nil
	}
	if s.deps.Front.Health().Unnamed {
		return Model{}, fault.New(fault.NoReplica, "no engine has said yet what its model is called; try again later")
	}
	return Model{}, &fault.Fault{
		Kind: fault.ModelNotFound, Param: "model",
		Message: "the model " + quoted(*name) + " does not exist: GET /v1/models lists what is served",
	}
}

// quoted returns a client's word for a message, cut to a bearable length.
func quoted(s string) string { return string(openai.AppendString(nil, cut(s))) }

// cut shortens a client's word to what a message can bear.
func cut(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}
