package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/ingress"
	"plimsoll/actors/stream"
	"plimsoll/engine/openai"
	"plimsoll/scoring/queue"
)

// Deps are what the edge shows. All are required.
type Deps struct {
	Replicas func() []*fleet.Ref
	NameOf   func(model string) string // what clients call a model, by its name inside the node
	Metrics  http.Handler
	// Add takes a replica in, written as for --replica; Remove drains one and forgets it. They are called one at a time.
	// Errors are [*fault.Fault].
	Add    func(spec string) error
	Remove func(name string) error
	// Drain empties one and keeps it: it gets nothing new, and what runs after wait is moved to others; nil: after the time that
	// Remove gives. Undrain has it serve again.
	Drain   func(name string, wait *time.Duration) error
	Undrain func(name string) error
	// Decisions returns how the last requests were routed, DecisionsOf how those with an ID were; the newest first.
	Decisions   func(most int) []explain.Record
	DecisionsOf func(request string) []explain.Record
	// Suppose says what would be decided for a request that is not made. Errors are [*fault.Fault].
	Suppose func(ctx context.Context, req *stream.Request) (explain.Record, error)
	// Urgency reads how urgent a request is, from its headers and its body, as it is read of one that is made.
	Urgency func(http.Header, openai.Object) (queue.Class, stream.SLO, *fault.Fault)
	// Authorized says whether a request shows a valid key, or none is needed.
	Authorized func(http.Header) bool
	// Orders says whether Add, Remove, Drain and Undrain are open at all: who may order a replica has the prompts of all clients sent to it,
	// so that a client's key is not enough on a port that others reach.
	Orders bool
	Now    func() time.Time
}

// New returns the operators' edge as a handler.
func New(deps Deps) http.Handler {
	var orders sync.Mutex // held while an order is carried out
	mux := http.NewServeMux()
	there := paths{mux, map[string][]string{}}
	there.handle(http.MethodGet, "/health", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	}))
	there.handle(http.MethodGet, "/metrics", guarded(deps, deps.Metrics))
	there.handle(http.MethodGet, "/admin/replicas", guarded(deps, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string][]Replica{"replicas": report(deps.Now(), deps.Replicas(), deps.NameOf)})
	})))
	there.handle(http.MethodPost, "/admin/replicas", guarded(deps, ordered(deps, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct {
			Replica string `json:"replica"`
		}
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, orderBytes))
		dec.DisallowUnknownFields()
		err := dec.Decode(&order)
		if f := late(err); f != nil {
			writeFault(w, f)
			return
		}
		if err != nil || order.Replica == "" || !errors.Is(dec.Decode(&order), io.EOF) {
			writeFault(w, fault.Invalid("replica", `the body must be {"replica": "KIND=URL,name=NAME,..."}, as for --replica`))
			return
		}
		orders.Lock()
		defer orders.Unlock()
		answer(w, http.StatusCreated, deps.Add(order.Replica))
	}))))
	there.handle(http.MethodDelete, "/admin/replicas/{name...}", guarded(deps, ordered(deps, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders.Lock()
		defer orders.Unlock()
		answer(w, http.StatusAccepted, deps.Remove(r.PathValue("name")))
	}))))
	there.handle(http.MethodPost, "/admin/replicas/{name...}", guarded(deps, ordered(deps, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders.Lock()
		defer orders.Unlock()
		answer(w, http.StatusAccepted, deps.state(r))
	}))))
	there.handle(http.MethodGet, "/debug/decisions", guarded(deps, http.HandlerFunc(deps.recent)))
	there.handle(http.MethodGet, "/debug/decisions/{request...}", guarded(deps, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deps.past(w, r.PathValue("request"))
	})))
	there.handle(http.MethodPost, "/debug/decisions", guarded(deps, http.HandlerFunc(deps.suppose)))
	there.rest()
	return sameOrigin(plain(mux))
}

// paths are what there is.
type paths struct {
	mux     *http.ServeMux
	methods map[string][]string // by pattern of the path
}

func (p paths) handle(method, pattern string, h http.Handler) {
	p.mux.Handle(method+" "+pattern, h)
	p.methods[pattern] = append(p.methods[pattern], method)
}

// rest answers whatever else is asked for. It is called once, after the last handle.
func (p paths) rest() {
	for pattern, methods := range p.methods {
		slices.Sort(methods)
		p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			writeFault(w, fault.New(fault.MethodNotAllowed, "%s takes %s, not %s", r.URL.EscapedPath(), strings.Join(methods, " and "), r.Method))
		})
	}
	p.mux.HandleFunc("/", notFound)
}

// plain takes a slash too many out of a path, and answers those that do not stand as they are, which the mux would send
// elsewhere by a redirect.
func plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = ingress.CleanPath(r)
		if !ingress.PlainPath(r) {
			notFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeFault(w, fault.New(fault.NotFound, "there is no %s %s", r.Method, r.URL.EscapedPath()))
}

// answerTime bounds how long an answer may take, from the last of the request.
const answerTime = time.Minute

// NewServer returns a server for the edge. It waits no longer for a request, for its body, and for the next one of a connection
// than the clients' edge does.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	edge := ingress.DefaultConfig()
	return &http.Server{
		Handler: h, ReadHeaderTimeout: edge.ReadHeaderTimeout, ReadTimeout: edge.BodyTimeout,
		WriteTimeout: edge.BodyTimeout + answerTime, IdleTimeout: edge.IdleTimeout, MaxHeaderBytes: edge.HeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// state carries out an order to a replica: NAME/drain or NAME/undrain. A name may hold slashes.
func (d Deps) state(r *http.Request) error {
	path := r.PathValue("name")
	if name, ok := strings.CutSuffix(path, "/undrain"); ok {
		return d.Undrain(name)
	}
	name, ok := strings.CutSuffix(path, "/drain")
	if !ok {
		return fault.New(fault.NotFound, "there is no %s %s", r.Method, r.URL.EscapedPath())
	}
	text := r.URL.Query().Get("timeout")
	if text == "" {
		return d.Drain(name, nil)
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 {
		return fault.Invalid("timeout", "%q is no time to wait: write a number and a unit, e.g. 30s", text)
	}
	return d.Drain(name, &wait)
}

// sameOrigin refuses the orders that a page of another origin has its reader's browser send.
func sameOrigin(next http.Handler) http.Handler {
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeFault(w, fault.New(fault.Forbidden, "pages of other origins give no orders here"))
	}))
	return guard.Handler(next)
}

// ordered lets orders through where they are open.
func ordered(deps Deps, next http.Handler) http.Handler {
	if deps.Orders {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeFault(w, fault.New(fault.Forbidden,
			"replicas are added, removed and drained only with a key of --admin-key-file, or where --admin-listen is a loopback address"))
	})
}

// late says of a body that it did not arrive, if the error of reading it is that.
func late(err error) *fault.Fault {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault.New(fault.BadInput, "the body did not arrive in time")
	}
	return nil
}

// orderBytes bounds the body of an order.
const orderBytes = 64 << 10

// answer says whether an order was taken.
func answer(w http.ResponseWriter, taken int, err error) {
	if err != nil {
		writeFault(w, fault.Of(err))
		return
	}
	writeJSON(w, taken, map[string]string{"status": "ok"})
}

func writeFault(w http.ResponseWriter, f *fault.Fault) {
	status := http.StatusInternalServerError
	switch f.Kind { //nolint:exhaustive // orders meet these; anything else is a fault of ours
	case fault.BadInput:
		status = http.StatusBadRequest
	case fault.NoReplica, fault.Contended:
		status = http.StatusServiceUnavailable
	case fault.Forbidden:
		status = http.StatusForbidden
	case fault.NotFound, fault.ModelNotFound:
		status = http.StatusNotFound
	case fault.MethodNotAllowed:
		status = http.StatusMethodNotAllowed
	case fault.ShuttingDown:
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, map[string]map[string]string{"error": {"message": f.Message, "type": f.Kind.String()}})
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
