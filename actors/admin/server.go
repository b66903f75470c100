package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"plimsoll/actors/replica"
)

// Deps are what the edge shows. All are required.
type Deps struct {
	Replicas func() []*replica.Ref
	Metrics  http.Handler
	// Authorized says whether a request shows a valid API key, or none is needed.
	Authorized func(http.Header) bool
	Now        func() time.Time
}

// New returns the operators' edge as a handler.
func New(deps Deps) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.Handle("GET /metrics", guarded(deps, deps.Metrics))
	mux.Handle("GET /admin/replicas", guarded(deps, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string][]Replica{"replicas": report(deps.Now(), deps.Replicas())})
	})))
	return mux
}

func guarded(deps Deps, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !deps.Authorized(r.Header) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeJSON(w, http.StatusUnauthorized, map[string]map[string]string{"error": {
				"message": "an API key is needed: send it as 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'",
				"type":    "authentication_error",
			}})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the reader is gone if this fails
}
