package ingress

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/cors"

	"plimsoll/actors/fault"
	"plimsoll/actors/meter"
	"plimsoll/scoring/queue"
	"plimsoll/scoring/quota"
)

// Deps is what the edge works with; all are required but Meter.
type Deps struct {
	Front   Front
	Log     *slog.Logger
	Meter   *meter.Ingress // nil: nothing is metered
	Metrics http.Handler   // answers GET /metrics
	Now     func() time.Time
	NewID   func() string // a new ID of letters and digits, unique for all practical purposes
}

// RandomID returns 16 random bytes in hexadecimal digits, for Deps.NewID.
func RandomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// Server is the HTTP edge. It is safe for concurrent use.
type Server struct {
	cfg  Config
	deps Deps
	keys *Keyring
	mux  *http.ServeMux
	http *http.Server
	cors *cors.Cors // nil: what pages of other origins may do is left to browsers, which is nothing

	leaving atomic.Bool // said by Leave

	quotas map[string]*quota.Quota // by tenant

	bodies atomic.Int64 // bytes of request bodies held
}

// New returns a server that does not listen yet.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Front == nil || deps.Log == nil || deps.Metrics == nil || deps.Now == nil || deps.NewID == nil {
		return nil, errors.New("ingress: Front, Log, Metrics, Now and NewID are required")
	}
	s := &Server{cfg: cfg, deps: deps, keys: NewKeyring(cfg.APIKeys), mux: http.NewServeMux(), quotas: map[string]*quota.Quota{}}
	for tenant, limits := range cfg.Quotas {
		s.quotas[tenant] = quota.New(limits)
	}
	for _, r := range s.routes() {
		s.mux.HandleFunc(r.pattern, s.serveRoute(r))
	}
	deps.Meter.Expect(s.expected())
	if len(cfg.Origins) > 0 {
		s.cors = newCORS(cfg.Origins)
	}
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: cfg.ReadHeaderTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.HeaderBytes,
		ErrorLog:          slog.NewLogLogger(deps.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// expected is what can be counted here.
func (s *Server) expected() meter.Expected {
	e := meter.Expected{Work: []string{routeChat, routeCompletions, routeTokenize, routeDetokenize}, Statuses: []int{http.StatusOK, http.StatusNoContent}}
	for _, r := range s.routes() {
		if !isProbe(r.name) {
			e.Routes = append(e.Routes, r.name)
		}
	}
	for _, m := range s.deps.Front.Models() {
		if m.Parent == "" {
			e.Models = append(e.Models, m.Name)
		}
	}
	for c := range queue.NumClasses {
		e.Classes = append(e.Classes, c.String())
	}
	for _, a := range answers {
		e.Statuses = append(e.Statuses, a.status)
	}
	e.Tenants = []string{defaultTenant}
	if names := s.keys.names(); len(names) > 0 {
		e.Tenants = names
	}
	return e
}

// Handler returns the whole edge as one handler.
func (s *Server) Handler() http.Handler { return s }

// Serve accepts connections until Shutdown or Close, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	limited := newLimitedListener(l, s.cfg.ConnectionsMax)
	serve := s.http.Serve
	if s.cfg.TLS != nil {
		s.http.TLSConfig = s.cfg.TLS.Config()
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(limited); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Leave has GET /ready answer 503 from now on, while all else goes on: who balances load sends new requests elsewhere.
func (s *Server) Leave() { s.leaving.Store(true) }

// Shutdown stops accepting and waits until every request has been answered, or for ctx's end. What is to be refused
// meanwhile is told by Front.Health.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close cuts all connections.
func (s *Server) Close() error { return s.http.Close() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{
		s: s, w: w, rc: http.NewResponseController(w), r: r,
		start: s.deps.Now(), id: r.Header.Get("X-Request-Id"), route: routeOther,
		unread: r.ContentLength < 0 || r.ContentLength > serverDrops,
	}
	if !validRequestID(x.id) {
		x.id = s.deps.NewID()
	}
	defer func() { x.finish(recover()) }()

	x.Header().Set("X-Request-Id", x.id)
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// net/http drops a Content-Length beside it before anybody sees that there was one. Whoever forwarded the request may
		// have gone by that, and take what is left of it for another request (RFC 9112, 6.1).
		x.Header().Set("Connection", "close")
	}
	r = CleanPath(r)
	x.r = r
	if s.cors != nil {
		s.cors.ServeHTTP(x, r, s.admit)
		return
	}
	s.admit(x, r)
}

// admit lets a request in that shows a key, or needs none.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) {
	x := w.(*exchange) // ServeHTTP's
	if !isOpen(r) {
		tenant, f := s.keys.tenant(r.Header)
		if f != nil {
			x.fail(f)
			return
		}
		x.tenant = tenant
	}
	if !PlainPath(r) {
		x.notFound()
		return
	}
	s.mux.ServeHTTP(x, r)
}

// CleanPath returns the request with one slash where its path has several, and none at its end: what comes of joining a base
// URL and a route. The mux would answer such a path with a redirect, which clients of an API do not follow with their body. It
// is called once, before the route and whether it needs a key are looked up.
func CleanPath(r *http.Request) *http.Request {
	given := r.URL.EscapedPath() // a slash that is escaped is part of a name
	clean := oneSlash(given)
	if r.Method == http.MethodConnect || clean == given {
		return r
	}
	plain, err := url.PathUnescape(clean)
	if err != nil {
		return r
	}
	out := r.WithContext(r.Context())
	u := *r.URL
	u.Path, u.RawPath = plain, clean
	out.URL = &u
	return out
}

func oneSlash(path string) string {
	if !strings.HasPrefix(path, "/") {
		return path
	}
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if path != "/" {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}

// PlainPath says whether a request's path stands as it is. What does not (/v1/../metrics, *, CONNECT) names no route: the mux
// would answer it by itself, with a redirect.
func PlainPath(r *http.Request) bool {
	given := r.URL.EscapedPath()
	if r.Method == http.MethodConnect || !strings.HasPrefix(given, "/") {
		return false
	}
	return given == path.Clean(given)
}

// requestIDBytes bounds a client's X-Request-Id.
const requestIDBytes = 128

// validRequestID takes what can stand in headers and logs without quoting.
func validRequestID(id string) bool {
	return id != "" && len(id) <= requestIDBytes && !strings.ContainsFunc(id, func(r rune) bool {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return false
		default:
			return !strings.ContainsRune("-_.:/+=@", r)
		}
	})
}

// Names of the routes in logs and metrics.
const (
	routeChat        = "chat"
	routeCompletions = "completions"
	routeModels      = "models"
	routeModel       = "model"
	routeTokenize    = "tokenize"
	routeDetokenize  = "detokenize"
	routeHealth      = "health"
	routeReady       = "ready"
	routeMetrics     = "metrics"
	routeRoot        = "root"
	routeOther       = "other"
)

const (
	pathRoot   = "/"
	pathHealth = "/health"
	pathReady  = "/ready"
)

// isOpen says which requests need no key: those of probes, of people who look what this is, and what a browser asks, without one,
// before it sends a page's request.
func isOpen(r *http.Request) bool {
	switch r.URL.Path {
	case pathRoot, pathHealth, pathReady:
		return true
	}
	return r.Method == http.MethodOptions
}

// isProbe says which routes are called by machines all the time: their log lines are for debugging.
func isProbe(route string) bool {
	return route == routeHealth || route == routeReady || route == routeMetrics
}

// route is one line of the route table.
type route struct {
	name    string
	pattern string
	method  string // the one method it takes; GET includes HEAD
	work    bool   // refused while the node goes down
	handle  func(*exchange)
}

func (s *Server) routes() []route {
	return []route{
		{routeChat, "/v1/chat/completions", http.MethodPost, true, s.chat},
		{routeCompletions, "/v1/completions", http.MethodPost, true, s.completions},
		{routeModels, "/v1/models", http.MethodGet, false, s.models},
		{routeModel, "/v1/models/{id...}", http.MethodGet, false, s.model},
		{routeTokenize, "/tokenize", http.MethodPost, true, s.tokenize},
		{routeDetokenize, "/detokenize", http.MethodPost, true, s.detokenize},
		{routeHealth, pathHealth, http.MethodGet, false, s.health},
		{routeReady, pathReady, http.MethodGet, false, s.ready},
		{routeMetrics, "/metrics", http.MethodGet, false, s.metrics},
		{routeRoot, "/{$}", http.MethodGet, false, s.root},
		{routeOther, "/", "", false, nil},
	}
}

func (s *Server) serveRoute(r route) http.HandlerFunc {
	allow := []string{http.MethodOptions, r.method}
	if r.method == http.MethodGet {
		allow = append(allow, http.MethodHead)
	}
	slices.Sort(allow)
	allowed := strings.Join(allow, ", ")
	return func(w http.ResponseWriter, req *http.Request) {
		x := w.(*exchange) // ServeHTTP is the mux's only caller
		x.route = r.name
		if r.work {
			x.open()
		}
		switch {
		case r.handle == nil:
			x.notFound()
		case req.Method == http.MethodOptions:
			x.Header().Set("Allow", allowed)
			x.WriteHeader(http.StatusNoContent)
		case !slices.Contains(allow, req.Method):
			x.Header().Set("Allow", allowed)
			x.fail(fault.New(fault.MethodNotAllowed, "%s takes %s, not %s", req.URL.Path, r.method, req.Method))
		case r.work && s.deps.Front.Health().ShuttingDown:
			x.fail(fault.New(fault.ShuttingDown, "this node is shutting down, try another or try again later"))
		default:
			r.handle(x)
		}
	}
}
