// Package admin is the operators' edge: what every replica is doing, and the metrics, on a port of its own that is not
// meant for clients.
//
//	GET /admin/replicas   state, incarnation, capacity, load, index and last error of every replica
//	POST /admin/replicas  adds one: {"replica": "KIND=URL,name=NAME,..."}, written as for --replica
//	DELETE /admin/replicas/NAME   drains one: it gets nothing new and is forgotten when its last request has ended
//	POST /admin/replicas/NAME/drain    drains one and keeps it; what still runs after ?timeout=TIME is moved to others
//	POST /admin/replicas/NAME/undrain  has it serve again
//	GET /debug/decisions  how the last requests were routed, the newest first; ?limit=N of them
//	GET /debug/decisions/ID   those of the request with that X-Request-Id; also ?request=ID
//	POST /debug/decisions what would be decided for a chat, {"messages": [...]}, {"prompt": "text"} or {"tokens": [...]}, now;
//	                      its service_tier and X-Slo-... headers count as a client's do
//	GET /metrics          Prometheus
//	GET /health           200 while the process lives
//
// Other methods of these paths get 405 with Allow, other paths 404; a path is taken as it stands, or not at all.
//
// It holds no state: it reads what actors publish and hands orders to the system. Orders last for the node's life; the
// configuration is not rewritten. It asks for the operators' keys, or the
// clients' where there are none of their own, except on /health. With clients' keys orders are taken on loopback alone: who
// may order a replica has every client's prompts sent to it.
package admin
