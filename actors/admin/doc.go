// Package admin is the operators' edge: what every replica is doing, and the metrics, on a port of its own that is not
// meant for clients.
//
//	GET /admin/replicas   state, incarnation, capacity, load, index and last error of every replica
//	GET /metrics          Prometheus
//	GET /health           200 while the process lives
//
// It reads what actors publish and changes nothing. It asks for the same API keys as the clients' edge, except on /health.
package admin
