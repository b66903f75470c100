package ingress

import (
	"net/http"
	"time"

	"github.com/rs/cors"
)

// preflightTime is how long a browser may go by what it was told of other origins.
const preflightTime = 10 * time.Minute

// newCORS returns what tells browsers that pages of these origins may call and read answers. Keys are what admits a request, not
// cookies: none are taken from a page.
func newCORS(origins []string) *cors.Cors {
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost},
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{"X-Request-Id", "X-Plimsoll-Replica", "Openai-Processing-Ms", "Server-Timing", "Retry-After"},
		MaxAge:         int(preflightTime.Seconds()),
		// The route's own OPTIONS answers, which knows whether there is such a path.
		OptionsPassthrough: true,
	})
}
