package ingress

import (
	_ "embed" // for rootPage
	"net/http"
	"strconv"
)

//go:embed root.html
var rootPage []byte

// root answers GET / with a page that says what this is to whoever comes with a browser. It needs no key and tells nothing of the
// node.
func (s *Server) root(x *exchange) {
	h := x.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(rootPage)))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	x.WriteHeader(http.StatusOK)
	_, _ = x.Write(rootPage)
}
