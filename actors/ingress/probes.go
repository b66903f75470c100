package ingress

import "net/http"

// health answers GET /health: 200 as long as the process can answer at all.
func (s *Server) health(x *exchange) {
	x.json(http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
}

// readiness is the body of GET /ready.
type readiness struct {
	Status string         `json:"status"` // "ready", "not_ready" or "shutting_down"
	States map[string]int `json:"states"` // how many replicas are in each state, of those that some are in
	// Replicas are told only to who may call the API: names of machines are nobody else's business.
	Replicas []replicaReport `json:"replicas,omitempty"`
}

type replicaReport struct {
	Name  string `json:"name"`
	Model string `json:"model"`
	State string `json:"state"`
}

// ready answers GET /ready: 200 if every model has a replica that serves. It needs no key, and without one says how many
// replicas there are, not which.
func (s *Server) ready(x *exchange) {
	h := s.deps.Front.Health()
	body, status := readiness{Status: "ready", States: map[string]int{}}, http.StatusOK
	switch {
	case h.ShuttingDown || s.leaving.Load():
		body.Status, status = "shutting_down", http.StatusServiceUnavailable
	case !h.Ready:
		body.Status, status = "not_ready", http.StatusServiceUnavailable
	}
	known := s.Authorized(x.r.Header)
	for _, r := range h.Replicas {
		body.States[r.State]++
		if known {
			body.Replicas = append(body.Replicas, replicaReport(r))
		}
	}
	x.json(status, body)
}

// metrics answers GET /metrics.
func (s *Server) metrics(x *exchange) { s.deps.Metrics.ServeHTTP(x, x.r) }
