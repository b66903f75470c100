package fakeengine

import "net/http"

type modelList struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

// model is a served model; an adapter has a parent and no length of its own.
type model struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	OwnedBy     string       `json:"owned_by"`
	Root        string       `json:"root"`
	Parent      *string      `json:"parent"`
	MaxModelLen *int         `json:"max_model_len"`
	Permission  []permission `json:"permission"`
}

type permission struct {
	ID                 string  `json:"id"`
	Object             string  `json:"object"`
	Created            int64   `json:"created"`
	AllowCreateEngine  bool    `json:"allow_create_engine"`
	AllowSampling      bool    `json:"allow_sampling"`
	AllowLogprobs      bool    `json:"allow_logprobs"`
	AllowSearchIndices bool    `json:"allow_search_indices"`
	AllowView          bool    `json:"allow_view"`
	AllowFineTuning    bool    `json:"allow_fine_tuning"`
	Organization       string  `json:"organization"`
	Group              *string `json:"group"`
	IsBlocking         bool    `json:"is_blocking"`
}

// models answers GET /v1/models: the base model, then its adapters. created is now, as vLLM says it.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	sim, now := s.cfg.Engine.Sim, s.deps.Now().Unix()
	limit := sim.SequenceTokens()
	entry := func(name string) model {
		return model{
			ID: name, Object: "model", Created: now, OwnedBy: "vllm", Root: "/models/" + name,
			Permission: []permission{{
				ID: "modelperm-" + name, Object: "model_permission", Created: now, AllowSampling: true, AllowLogprobs: true,
				AllowView: true, Organization: "*",
			}},
		}
	}
	base := entry(sim.Model)
	base.MaxModelLen = &limit
	list := modelList{Object: "list", Data: []model{base}}
	for _, name := range sim.Adapters {
		adapter := entry(name)
		adapter.Parent = &sim.Model
		list.Data = append(list.Data, adapter)
	}
	s.write(w, http.StatusOK, list)
}

// version answers GET /version.
func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	s.write(w, http.StatusOK, struct {
		Version string `json:"version"`
	}{Version})
}

// load answers GET /load: the requests in flight.
func (s *Server) load(w http.ResponseWriter, _ *http.Request) {
	s.write(w, http.StatusOK, struct {
		ServerLoad int `json:"server_load"`
	}{s.running.running()})
}

// health answers GET /health and /ping. A dead engine is seen at once, a hung one is not.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if !s.engine.Status().Alive {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}
