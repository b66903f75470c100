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
	Status   string          `json:"status"` // "ready", "not_ready" or "shutting_down"
	Replicas []replicaReport `json:"replicas"`
}

type replicaReport struct {
	Name  string `json:"name"`
	Model string `json:"model"`
	State string `json:"state"`
}

// ready answers GET /ready: 200 if every model has a replica that serves.
func (s *Server) ready(x *exchange) {
	h := s.deps.Front.Health()
	body, status := readiness{Status: "ready", Replicas: []replicaReport{}}, http.StatusOK
	switch {
	case h.ShuttingDown:
		body.Status, status = "shutting_down", http.StatusServiceUnavailable
	case !h.Ready:
		body.Status, status = "not_ready", http.StatusServiceUnavailable
	}
	for _, r := range h.Replicas {
		body.Replicas = append(body.Replicas, replicaReport(r))
	}
	x.json(status, body)
}

// metrics answers GET /metrics.
func (s *Server) metrics(x *exchange) { s.deps.Metrics.ServeHTTP(x, x.r) }
