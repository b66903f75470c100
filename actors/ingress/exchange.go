package ingress

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
	"plimsoll/engine/openai"
	"plimsoll/engine/sse"
)

// exchange is one HTTP request and what is being answered to it. It is the http.ResponseWriter that handlers write to, so
// that every write has the client's deadline and the status is known at the end. One goroutine, the request's, owns it.
type exchange struct {
	s  *Server
	w  http.ResponseWriter
	rc *http.ResponseController
	r  *http.Request

	start  time.Time
	id     string // X-Request-Id, the client's or ours
	route  string
	tenant string

	status   int       // what was sent, 0 before
	writeErr error     // the first failed write: the client is out of reach
	stalled  bool      // because it took nothing for Config.ClientStall
	streams  bool      // an event stream has begun
	writeBy  time.Time // when the client counts as stalled
	held     int64     // bytes of the body counted against Config.BodiesBytes
	opened   bool      // counted among the open requests
	unread   bool      // the client may still be sending its body

	entry entry
}

// entry is what the log line and the metrics say beyond the exchange itself.
type entry struct {
	answer     string // the answer's ID
	model      string
	class      string // "" before the request was read
	stream     bool
	n          int
	fault      *fault.Fault
	firstToken *time.Duration
	usage      openai.Usage
	replicas   []string
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.w.Header() }

// Unwrap lets http.ResponseController find the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
		x.arm()
		x.w.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	x.arm()
	n, err := x.w.Write(p)
	x.note(err)
	return n, err
}

// flush sends what was written. Its error says that the client is out of reach.
func (x *exchange) flush() error {
	x.arm()
	err := x.rc.Flush()
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	x.note(err)
	return err
}

// arm gives the client Config.ClientStall from now on to take what is written.
func (x *exchange) arm() {
	x.writeBy = time.Now().Add(x.s.cfg.ClientStall)
	_ = x.rc.SetWriteDeadline(x.writeBy)
}

func (x *exchange) note(err error) {
	if err == nil || x.writeErr != nil {
		return
	}
	x.writeErr = err
	// HTTP/2 resets the stream at the deadline and gives no reason.
	if x.stalled = errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(x.writeBy); x.stalled {
		x.s.deps.Meter.Stalled()
	}
}

// open counts the exchange among the open requests, until its end.
func (x *exchange) open() {
	x.opened = true
	x.s.deps.Meter.Opened()
}

// notFound answers that there is no such route.
func (x *exchange) notFound() {
	x.fail(fault.New(fault.NotFound, "there is no %s %s", x.r.Method, cut(x.r.URL.EscapedPath())))
}

// json answers with a whole body.
func (x *exchange) json(status int, v any) {
	body, err := openai.Marshal(v)
	if err != nil {
		x.fail(&fault.Fault{Kind: fault.Internal, Message: "internal error", Err: err})
		return
	}
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	_, _ = x.Write(body)
}

// fail answers with an error, if nothing was sent yet, and notes it for the log. To a client that is gone nothing is
// written.
func (x *exchange) fail(f *fault.Fault) {
	x.entry.fault = f
	if x.status != 0 || f.Kind == fault.ClientGone {
		return
	}
	a := answerOf(f)
	h := x.Header()
	if a.retry > 0 {
		h.Set("Retry-After", a.retryAfter())
	}
	if f.Kind == fault.Unauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="plimsoll"`)
	}
	if x.unread {
		_ = x.rc.EnableFullDuplex() // the answer goes out while the body still comes in: see linger
		if x.r.ProtoMajor == 1 {
			h.Set("Connection", "close")
		}
	}
	x.json(a.status, a.body(f))
}

// tookFirstToken notes when the answer's first token was at hand.
func (x *exchange) tookFirstToken() {
	if x.entry.firstToken == nil {
		d := x.s.deps.Now().Sub(x.start)
		x.entry.firstToken = &d
	}
}

// answerHeaders are set when the first token is there or an answer begins without one.
func (x *exchange) answerHeaders(resp *stream.Response) {
	h := x.Header()
	total := x.s.deps.Now().Sub(x.start)
	h.Set("Openai-Processing-Ms", strconv.FormatInt(total.Milliseconds(), 10))
	if names := distinct(resp.Replicas()); len(names) > 0 {
		h.Set("X-Plimsoll-Replica", strings.Join(names, ","))
	}
	h.Set("Server-Timing", x.timing(resp, total))
}

// timing says where an answer's time went, as far as it has come.
func (x *exchange) timing(resp *stream.Response, total time.Duration) string {
	w := resp.Way()
	timing := make([]string, 0, 7)
	add := func(name string, d time.Duration) {
		timing = append(timing, name+";dur="+strconv.FormatFloat(max(0, d.Seconds()*1000), 'f', 3, 64))
	}
	since := x.start
	for _, part := range []struct {
		name string
		ends *time.Time
	}{{"tokenize", w.EncodedAt}, {"queue", w.PlacedAt}, {"prefill", w.FirstTokenAt}} {
		if part.ends != nil {
			add(part.name, part.ends.Sub(since))
			since = *part.ends
		}
	}
	if x.entry.firstToken != nil {
		add("ttft", *x.entry.firstToken)
	}
	add("total", total)
	if names := distinct(resp.Replicas()); len(names) > 0 {
		timing = append(timing, fmt.Sprintf("replica;desc=%q", strings.Join(names, " ")), fmt.Sprintf("attempts;desc=%q", strconv.Itoa(w.Attempts)))
	}
	return strings.Join(timing, ", ")
}

// distinct returns the names in order of their first appearance, without empty ones.
func distinct(names []string) []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

// finish ends the exchange: a panic becomes an error answer, the log line is written, metrics are counted. It panics with
// http.ErrAbortHandler where the connection must be cut for the client to see that its answer is not whole.
func (x *exchange) finish(panicked any) {
	cut := false
	if panicked != nil {
		cut = x.status != 0
		if err, ok := panicked.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			x.s.deps.Meter.Panicked()
			x.s.deps.Log.LogAttrs(x.r.Context(), slog.LevelError, "handler panicked",
				slog.String("request", x.id), slog.String("route", x.route),
				slog.Any("reason", panicked), slog.String("stack", string(debug.Stack())))
		}
		f := &fault.Fault{Kind: fault.Internal, Message: "internal error", Err: fmt.Errorf("panic: %v", panicked)}
		x.fail(f)
		x.lastWord(f)
	}
	if x.stalled && x.entry.fault == nil {
		x.entry.fault = x.unwritten()
	}
	if x.held > 0 {
		x.s.deps.Meter.BodyBytes(x.s.bodies.Add(-x.held))
	}
	x.report()
	x.linger()
	if cut || x.status == 0 {
		panic(http.ErrAbortHandler)
	}
}

// lastWord tells the client of a stream why it ends. What was written before it is whole events.
func (x *exchange) lastWord(f *fault.Fault) {
	if !x.streams || x.writeErr != nil {
		return
	}
	event, err := sse.AppendEvent(nil, "", encodedFault(f))
	if err != nil {
		panic(err) // JSON without a line break
	}
	_, _ = x.Write(event)
	_ = x.flush()
}

// outcome says how the exchange ended.
func (x *exchange) outcome() meter.Outcome {
	f := x.entry.fault
	switch {
	case f == nil && x.writeErr == nil:
		return meter.Finished
	case f == nil || f.Kind == fault.ClientGone || f.Kind == fault.SlowReader:
		return meter.Cancelled
	case x.entry.firstToken != nil:
		return meter.Failed
	}
	switch f.Kind {
	case fault.EngineFailed, fault.Internal, fault.Deadline:
		return meter.Failed
	case fault.BadInput, fault.ContextLength, fault.Unauthorized, fault.Forbidden, fault.ModelNotFound, fault.NotFound,
		fault.MethodNotAllowed, fault.BodyTooLarge, fault.MediaType, fault.EngineRefused, fault.Contended, fault.OverQuota,
		fault.ClientGone, fault.SlowReader, fault.NoReplica, fault.ShuttingDown, fault.NumKinds:
	}
	return meter.Refused
}

// reported is the status that log and metrics tell.
func (x *exchange) reported() int {
	if x.status == 0 && x.outcome() == meter.Cancelled {
		return statusClientGone
	}
	return x.status
}

func (x *exchange) report() {
	took := x.s.deps.Now().Sub(x.start)
	e, u := &x.entry, x.entry.usage
	r := meter.Request{
		Tenant: x.tenant, Class: e.class, Status: x.reported(),
		Route: x.route, Model: e.model, Outcome: x.outcome(), Seconds: took.Seconds(), FirstToken: e.firstToken,
		PromptTokens: u.PromptTokens, CompletionTokens: u.CompletionTokens,
	}
	if d := u.PromptTokensDetails; d != nil {
		r.CachedTokens = &d.CachedTokens
	}
	if e.fault != nil {
		r.Fault = &e.fault.Kind
	}
	if x.opened {
		x.s.deps.Meter.Closed()
	}
	if !isProbe(x.route) {
		x.s.deps.Meter.Ended(r)
	}

	level := slog.LevelInfo
	if isProbe(x.route) {
		level = slog.LevelDebug
	}
	if ctx := x.r.Context(); x.s.deps.Log.Enabled(ctx, level) {
		x.s.deps.Log.LogAttrs(ctx, level, "request", x.attrs(r, took)...)
	}
}

func (x *exchange) attrs(r meter.Request, took time.Duration) []slog.Attr {
	e := &x.entry
	attrs := []slog.Attr{
		slog.String("request", x.id), slog.String("route", x.route), slog.String("tenant", x.tenant),
		slog.Int("status", r.Status), slog.String("outcome", r.Outcome.String()), slog.Float64("seconds", took.Seconds()),
	}
	if e.model != "" {
		attrs = append(attrs, slog.String("model", e.model))
	}
	if e.answer != "" {
		attrs = append(attrs, slog.String("answer", e.answer), slog.Bool("stream", e.stream), slog.Int("n", e.n),
			slog.String("replica", strings.Join(distinct(e.replicas), ",")),
			slog.Int("prompt_tokens", r.PromptTokens), slog.Int("completion_tokens", r.CompletionTokens))
	}
	if r.CachedTokens != nil {
		attrs = append(attrs, slog.Int("cached_tokens", *r.CachedTokens))
	}
	if r.FirstToken != nil {
		attrs = append(attrs, slog.Float64("ttft_seconds", r.FirstToken.Seconds()))
	}
	if e.fault != nil {
		attrs = append(attrs, slog.String("fault", e.fault.Kind.String()), slog.String("reason", e.fault.Error()))
	} else if x.writeErr != nil {
		attrs = append(attrs, slog.String("reason", x.writeErr.Error()))
	}
	return attrs
}
