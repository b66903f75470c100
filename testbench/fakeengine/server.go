package fakeengine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"plimsoll/engine/openai"
	"plimsoll/engine/sim/live"
)

// fingerprint stands in the last frame of a stream and in whole answers.
const fingerprint = "vllm-0.32.0-plimsoll"

// keepAlive is how long a server of uvicorn keeps an idle connection open.
const keepAlive = 5 * time.Second

// Server is a simulated vLLM. It is safe for concurrent use.
type Server struct {
	cfg    Config
	deps   Deps
	engine *live.Engine
	http   *http.Server
	routes map[string]route
	began  time.Time
	kv     *kvFeed      // nil if cache events are not published
	stop   func() error // ends the engine, once

	running  *registry
	faults   *injector
	counters *counters
	legs     atomic.Uint64 // numbers them, so that no two of the engine's requests share a name
	unnamed  atomic.Uint64 // numbers requests without a name of their own
}

// route is what one path does, by method.
type route struct {
	method string
	handle http.HandlerFunc
}

// New starts the engine. The server serves after [Server.Serve], or as an [http.Handler]; [Server.Close] ends both.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	faults := newInjector(deps.Now)
	deps.Now = faults.clock
	engine, err := live.New(cfg.Engine, live.Deps{Source: deps.Source, Entropy: deps.Entropy})
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, deps: deps, engine: engine, began: deps.Now(), running: newRegistry(), faults: faults, counters: &counters{},
	}
	if cfg.KVEvents != nil {
		if s.kv, err = startKV(*cfg.KVEvents, engine, deps); err != nil {
			return nil, errors.Join(err, engine.Close())
		}
	}
	s.stop = sync.OnceValue(s.end)
	s.routes = map[string]route{
		"/v1/completions": {"POST", s.faulty(s.completions)}, "/v1/chat/completions": {"POST", s.faulty(s.chat)},
		"/inference/v1/generate": {"POST", s.scaleOut(s.faulty(s.generate))}, "/inference/v1/abort_requests": {"POST", s.scaleOut(s.abort)},
		"/tokenize": {"POST", s.tokenize}, "/detokenize": {"POST", s.detokenize},
		"/v1/models": {"GET", s.models}, "/version": {"GET", s.version}, "/load": {"GET", s.load},
		"/health": {"GET", s.health}, "/ping": {"GET", s.health}, "/metrics": {"GET", s.metrics},
		"/kv_event_sources": {"GET", s.kvSources}, "/reset_prefix_cache": {"POST", s.resetPrefixCache},
	}
	if cfg.Faults {
		s.routes["/faults"] = route{"PUT", s.setFaults}
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: keepAlive, MaxHeaderBytes: 64 << 10}
	return s, nil
}

// Engine is the simulated engine: faults are injected there.
func (s *Server) Engine() *live.Engine { return s.engine }

// end ends the engine, and then what published its events.
func (s *Server) end() error {
	err := s.engine.Close()
	if s.kv != nil {
		err = errors.Join(err, s.kv.stop())
	}
	return err
}

// Serve answers on a listener until Shutdown or Close; then it returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("fakeengine: %w", err)
	}
	return nil
}

// Shutdown stops listening, lets running requests end until ctx does, and ends the engine: what still runs then gets an
// error frame.
func (s *Server) Shutdown(ctx context.Context) error {
	waited := s.http.Shutdown(ctx)
	err := s.stop()
	if waited == nil {
		return err
	}
	// The handlers have nothing to wait for any more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		err = errors.Join(err, s.http.Close())
	}
	return errors.Join(waited, err)
}

// Close ends everything at once: connections break. It may follow Shutdown.
func (s *Server) Close() error { return errors.Join(s.http.Close(), s.stop()) }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, ok := s.routes[r.URL.Path]
	switch {
	case !ok:
		s.write(w, http.StatusNotFound, detail{"Not Found"})
	case r.Method != at.method && (at.method != http.MethodGet || r.Method != http.MethodHead):
		w.Header().Set("Allow", at.method)
		s.write(w, http.StatusMethodNotAllowed, detail{"Method Not Allowed"})
	default:
		at.handle(w, r)
	}
}

// scaleOut guards the routes that vLLM serves with --enable-scale-out only.
func (s *Server) scaleOut(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.cfg.Generate {
			s.fail(w, generateOff())
			return
		}
		h(w, r)
	}
}

// body reads a request's JSON object; nil: the answer is written.
func (s *Server) body(w http.ResponseWriter, r *http.Request) *params {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		s.fail(w, &fault{
			Message: "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
			Type:    "Bad Request", Code: http.StatusBadRequest,
		})
		return nil
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.BodyBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		s.write(w, http.StatusRequestEntityTooLarge, detail{"Request Entity Too Large"})
		return nil
	case err != nil:
		return nil // the client has gone
	case !utf8.Valid(raw):
		s.write(w, http.StatusBadRequest, detail{"There was an error parsing the body"})
		return nil
	}
	o, err := openai.ParseObject(raw)
	if err == nil {
		return &params{o: o, place: "body"}
	}
	var wrong *openai.BodyError
	place := "body"
	if errors.As(err, &wrong) && len(raw) > 0 && !json.Valid(raw) {
		place += "." + strconv.FormatInt(wrong.Offset, 10)
	}
	s.fail(w, schemaFault(place, err.Error()))
	return nil
}

// name is the name of an answer: the header's, else the body's, else one of ours.
func (s *Server) name(prefix string, r *http.Request, p *params) string {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return prefix + id
	}
	if id := p.text("request_id"); id != nil && *id != "" {
		return prefix + *id
	}
	return fmt.Sprintf("%s%016x", prefix, s.deps.Entropy()^s.unnamed.Add(1))
}

// rank checks the data-parallel rank that a request is pinned to: there is one. What is no number is ignored.
func (s *Server) rank(r *http.Request) *fault {
	rank, err := strconv.Atoi(r.Header.Get("X-data-parallel-rank"))
	if err == nil && rank != 0 {
		return valueFault("", "data_parallel_rank %d is out of range [0, 1).", rank)
	}
	return nil
}

func (s *Server) fail(w http.ResponseWriter, f *fault) { s.write(w, f.Code, wireFault{f}) }

// failInStream answers 200 with an error frame and nothing else.
func (s *Server) failInStream(w http.ResponseWriter, f *fault) {
	data, err := openai.Marshal(wireFault{f})
	if err != nil {
		panic(err) // three strings and a number
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", data) // a client that has gone misses nothing
}

func (s *Server) write(w http.ResponseWriter, status int, v any) {
	data, err := openai.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"detail":"Internal Server Error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that has gone misses nothing
}
