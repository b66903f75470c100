package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/ingress"
	"plimsoll/actors/meter"
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
	"plimsoll/actors/tokenize"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/chat"
)

// Config says what a node serves.
type Config struct {
	Models    []Model
	Stream    stream.Config
	Supervise supervise.Config
	// TokenizeMax is how many short inputs the node tokenizes at once, beside longer ones.
	TokenizeMax int
	// Decisions says what is remembered of how requests were routed, of each model; nil: nothing.
	Decisions *explain.Config
	// DrainWait is how long requests may go on on a replica that is removed before they are moved.
	DrainWait time.Duration
}

// Model is one served model and its replicas.
type Model struct {
	Tokenizer *tokenizer.Model
	Router    router.Config // Router.Model is the model's name inside the node
	// Named: clients call the model Router.Model, whatever its engines call it. Else they do until an engine has said what it
	// is called.
	Named    bool
	Render   Rendering
	Replicas []Replica
	// Shadows are policies that are tried on the model's traffic without acting on it.
	Shadows []policy.Config
}

// Replica is one replica and its engine, which the system closes at its end.
type Replica struct {
	Config replica.Config
	Engine engine.Engine
	// Rank makes the replica of another data-parallel rank of the same server, once it is found to have more than the one that
	// Engine speaks to; nil: others are not used.
	Rank func(rank int) (Replica, error)
}

// Deps are what a system needs from outside.
type Deps struct {
	Log   *slog.Logger
	Meter *meter.Meter
	Seed  uint64 // of jitter and ties
	Boot  uint64 // names this life of the node in tickets
	// Recorder hears of every request that is let in and of its end, on goroutines that must not be held up; nil: nobody does.
	Recorder Recorder
	// Middleware is put around every actor's Receive, by kind; nil for none. Fault injection uses it.
	Middleware func(kind string) actor.ReceiverMiddleware
}

// Recorder writes down what is asked for. Its methods are safe for concurrent use and never block.
type Recorder interface {
	Arrived(req *stream.Request)
	Ended(s stream.Summary) // of a request that arrived
}

// nobody records nothing.
type nobody struct{}

func (nobody) Arrived(*stream.Request) {}
func (nobody) Ended(stream.Summary)    {}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	errs := []error{c.Stream.Validate()}
	if c.Decisions != nil {
		errs = append(errs, c.Decisions.Validate())
	}
	if c.DrainWait < 0 {
		errs = append(errs, errors.New("the wait for requests of a removed replica must not be negative"))
	}
	if c.TokenizeMax < 1 {
		errs = append(errs, errors.New("at least one input must be tokenized at once"))
	}
	if len(c.Models) == 0 {
		errs = append(errs, errors.New("there is no model to serve"))
	}
	names := map[string]bool{}
	for _, m := range c.Models {
		errs = append(errs, m.Router.Validate(), m.tokenizing().Validate())
		for _, shadow := range m.Shadows {
			errs = append(errs, shadow.Validate())
		}
		if names["model "+m.Router.Model] {
			errs = append(errs, fmt.Errorf("model %q is there twice", m.Router.Model))
		}
		names["model "+m.Router.Model] = true
		if m.Render == RenderEngine && len(m.Replicas) > 0 && !slices.ContainsFunc(m.Replicas, rendersChats) {
			errs = append(errs, fmt.Errorf("no engine of model %q renders chats by itself: they must be rendered here", m.Router.Model))
		}
		for _, r := range m.Replicas {
			errs = append(errs, r.Config.Validate())
			if names[string(r.Config.ID)] {
				errs = append(errs, fmt.Errorf("two replicas are called %q: names must differ", r.Config.ID))
			}
			names[string(r.Config.ID)] = true
		}
	}
	return errors.Join(errs...)
}

func rendersChats(r Replica) bool { return r.Engine.Capabilities().Chat }

// System is a running node.
type System struct {
	cfg     Config
	deps    Deps
	actors  *actor.ActorSystem
	node    *actor.PID
	live    *stream.Live
	gate    *tokenize.Gate
	models  []*model
	started time.Time

	closing atomic.Bool
	tickets atomic.Uint64

	up     chan struct{} // closed when the node has spawned its first routers and replicas
	upOnce sync.Once

	engines sync.WaitGroup // engines of removed replicas that are being closed; the node's actor adds

	changes sync.Mutex    // held while a replica is added, and while the system is closed to them
	roll    roll          // the node's actor's, once it runs
	over    chan struct{} // closed once the actors are no more
}

// model is a served model at run time.
type model struct {
	Model

	fleet     *fleet.Roster
	accord    *fleet.Accord
	watch     *explain.Watch // nil: nobody watches
	tokenizer *tokenize.Handle
	router    atomic.Pointer[actor.PID] // nil before the node has spawned it
	stats     atomic.Pointer[router.Stats]
	// routers counts the model's routers, for router.Deps.
	routers atomic.Uint64
	meters  modelMeters
	log     *slog.Logger
	passed  [chat.NumInabilities + 1]atomic.Bool // by reason: a chat went to the engine as it came, and the log says so
}

var _ ingress.Front = (*System)(nil)

// Start brings a node up. It returns at once: replicas are connected to and retried by their actors.
func Start(cfg Config, deps Deps) (*System, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil || deps.Meter == nil {
		return nil, errors.New("a system needs a log and a meter")
	}
	if deps.Middleware == nil {
		deps.Middleware = func(string) actor.ReceiverMiddleware {
			return func(next actor.ReceiverFunc) actor.ReceiverFunc { return next }
		}
	}
	if deps.Recorder == nil {
		deps.Recorder = nobody{}
	}
	quiet := deps.Log // the library's own words are of use to its developers only
	s := &System{
		cfg: cfg, deps: deps, live: stream.NewLive(), gate: tokenize.NewGate(cfg.TokenizeMax), started: time.Now(),
		up: make(chan struct{}), over: make(chan struct{}),
		actors: supervise.NewSystem(slog.New(levelled{quiet.Handler(), slog.LevelError})),
	}
	names := make([]string, len(cfg.Models))
	for i, m := range cfg.Models {
		names[i] = m.Router.Model
	}
	s.roll = roll{membership: fleet.NewMembership(names...), members: map[*fleet.Ref]*member{}}
	for _, m := range cfg.Models {
		served, err := s.newModel(m)
		if err != nil {
			return nil, err
		}
		s.models = append(s.models, served)
	}
	for _, m := range s.models {
		var err error
		if m.watch, err = s.newWatch(m); err != nil {
			return nil, err
		}
	}
	strategy := supervise.NewStrategy(cfg.Supervise, deps.Seed, s.failed)
	props := actor.PropsFromProducer(func() actor.Actor { return supervise.Final(newNode(s), nil) },
		actor.WithGuardian(strategy),
		actor.WithReceiverMiddleware(supervise.Guard(deps.Log, "node", orderLost), deps.Middleware("node")))
	node, err := s.actors.Root.SpawnNamed(props, nodeName)
	if err != nil {
		return nil, fmt.Errorf("starting the actors: %w", err)
	}
	s.node = node
	deps.Meter.Serves(s.served)
	for _, m := range s.models {
		m.watch.Start()
	}
	select {
	case <-s.up:
		return s, nil
	case <-time.After(startWait):
		return nil, errors.Join(errors.New("the actors did not start in time"), s.Stop())
	}
}

func (s *System) newModel(parts Model) (*model, error) {
	m := &model{
		Model:  parts,
		meters: newModelMeters(s.deps.Meter, parts.Router.Model),
		log:    s.deps.Log,
		fleet:  s.roll.membership.Roster(parts.Router.Model),
	}
	m.stats.Store(&router.Stats{})
	m.tokenizer = tokenize.NewHandle(s.actors.Root)
	var first scoring.ReplicaID
	if len(parts.Replicas) > 0 {
		first = parts.Replicas[0].Config.ID
	}
	m.accord = fleet.NewAccord(first)
	for _, r := range parts.Replicas {
		if f := s.join(m, r, nil); f != nil { // nothing is spawned before the node begins
			return nil, f
		}
	}
	return m, nil
}

// tellRouter sends a message to a model's router. What is sent while the node restarts is lost: the new router asks for it.
func (s *System) tellRouter(m *model, message any) {
	if pid := m.router.Load(); pid != nil {
		s.actors.Root.Send(pid, message)
	}
}

// failed hears of every actor that panicked.
func (s *System) failed(f supervise.Failed) {
	kind := f.Actor[strings.LastIndexByte(f.Actor, '/')+1:]
	kind, _, _ = strings.Cut(kind, "$")
	kind = strings.TrimRight(kind, "0123456789-")
	s.deps.Meter.Panicked(kind)
	s.deps.Log.Warn("actor restarts", slog.String("actor", f.Actor), slog.Int("strikes", f.Strikes), slog.Duration("delay", f.Delay))
}

// model finds a served model by its name inside the node.
func (s *System) model(name string) *model {
	for _, m := range s.models {
		if m.Router.Model == name {
			return m
		}
	}
	return nil
}

// encodeAnswer turns text from the middle of an answer into IDs.
func (m *model) encodeAnswer(text string) ([]uint32, error) { return m.Tokenizer.Encode(text, false) }

// Submit implements ingress.Front.
func (s *System) Submit(req *stream.Request) *stream.Response {
	m, lora := s.resolve(req.Model)
	req.LoRA = lora
	if s.closing.Load() || m == nil {
		f := fault.New(fault.ShuttingDown, "this node is shutting down; try again")
		if m == nil {
			f = fault.New(fault.ModelNotFound, "the model %q does not exist", req.Model)
		}
		r := stream.NewResponse(req.Input.Prompts()*req.N, func() {})
		r.End(f)
		return r
	}
	s.deps.Recorder.Arrived(req)
	return stream.Start(s.cfg.Stream, stream.Deps{
		Live: s.live, Log: s.deps.Log,
		Router: func(message any) { s.tellModel(m, message) },
		Model:  stream.Model{Name: m.Router.Model, Decoder: m.Tokenizer, EndTokens: m.Tokenizer.Ends(), Encode: m.encodeAnswer},
		Meter:  m.meters.stream,
		Ended:  s.deps.Recorder.Ended,
	}, req)
}

// Tokenize implements ingress.Front.
func (s *System) Tokenize(ctx context.Context, name, tenant string, in stream.Input) ([]ingress.Encoded, error) {
	m, _ := s.resolve(name)
	if m == nil {
		return nil, fault.New(fault.ModelNotFound, "the model %q does not exist", name)
	}
	prompts, err := m.tokenizer.Prompts(ctx, in, tenant, queue.Default)
	if err != nil {
		if ctx.Err() != nil {
			return nil, unanswered(ctx)
		}
		return nil, fault.Of(err)
	}
	out := make([]ingress.Encoded, len(prompts))
	for i, p := range prompts {
		out[i] = ingress.Encoded{Text: p.Text, IDs: p.IDs}
	}
	return out, nil
}

// Health implements ingress.Front.
func (s *System) Health() ingress.Health {
	h, now := ingress.Health{ShuttingDown: s.closing.Load(), Ready: true, Unnamed: s.unnamed()}, time.Now()
	for _, m := range s.models {
		serves := false
		for _, ref := range m.fleet.Refs() {
			snap := ref.Snapshot()
			serves = serves || snap.State.Routable()
			h.Replicas = append(h.Replicas, ingress.Replica{Name: string(ref.ID), Model: m.name(), State: snap.Standing(now)})
		}
		h.Ready = h.Ready && serves
	}
	h.Ready = h.Ready && !h.ShuttingDown
	return h
}

// Snapshots returns what every replica has published last, by model and ordered by ID.
func (s *System) Snapshots() []*fleet.Snapshot {
	var out []*fleet.Snapshot
	for _, m := range s.models {
		for _, ref := range m.fleet.Refs() {
			out = append(out, ref.Snapshot())
		}
	}
	return out
}

// Replicas returns the handles of all replicas, by model and ordered by ID.
func (s *System) Replicas() []*fleet.Ref {
	var out []*fleet.Ref
	for _, m := range s.models {
		out = append(out, m.fleet.Refs()...)
	}
	return out
}

// Has says whether there is a replica of an ID.
func (s *System) Has(id scoring.ReplicaID) bool {
	return slices.ContainsFunc(s.models, func(m *model) bool {
		return slices.ContainsFunc(m.fleet.Refs(), func(ref *fleet.Ref) bool { return ref.ID == id })
	})
}

// Live is the number of running requests.
func (s *System) Live() int { return s.live.Len() }

// Queue is what waits in the tokenizers and in the routers, those of all models together.
type Queue struct {
	Tokenizers tokenize.Stats
	router.Stats
}

// Queue sums up what waits.
func (s *System) Queue() Queue {
	var sum Queue
	for _, m := range s.models {
		st := m.stats.Load()
		sum.QueuedRequests += st.QueuedRequests
		sum.QueuedTokens += st.QueuedTokens
		tok := m.tokenizer.Stats()
		sum.Tokenizers.Jobs += tok.Jobs
		sum.Tokenizers.WaitingBytes += tok.WaitingBytes
	}
	return sum
}

// Close says that the node is going down: new requests are refused from now on, running ones go on.
func (s *System) Close() {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.closing.Store(true)
}

// Drain closes the system and waits until no request runs, or for ctx's end.
func (s *System) Drain(ctx context.Context) error {
	s.Close()
	return s.live.Drained(ctx)
}

// startWait bounds how long the actors may take to start; they wait for nothing.
const startWait = 10 * time.Second

// stopWait bounds how long the actors may take to stop; they only wait for goroutines that promise to end at once.
const stopWait = 10 * time.Second

// Stop ends what still runs with an error, closes the engines and stops the actors. It is called once, after Drain or
// instead of it.
func (s *System) Stop() error {
	s.Close()
	s.live.Tell(stream.Shutdown{Fault: fault.New(fault.ShuttingDown, "this node is shutting down; try again")})
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	errs := []error{s.live.Drained(ctx)}
	// Engines end before the actors: only that ends the attempts that a hung one holds, and their ends are to be heard.
	refs := s.Replicas()
	closed := make([]error, len(refs))
	var closing sync.WaitGroup
	for i, ref := range refs { // all at once: those that are processes of ours take their time
		closing.Go(func() { closed[i] = ref.Engine.Close() })
	}
	closing.Wait()
	errs = append(errs, closed...)
	ended, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	errs = append(errs, s.live.Wait(ended))
	if err := s.actors.Root.StopFuture(s.node).Wait(); err != nil {
		errs = append(errs, fmt.Errorf("stopping the actors: %w", err))
	}
	s.actors.Shutdown()
	close(s.over)
	s.closeWatches()
	s.engines.Wait() // of replicas that were removed: the node, which begins their ends, is no more
	return errors.Join(errs...)
}

// levelled raises a handler's least level.
type levelled struct {
	slog.Handler
	least slog.Level
}

// Enabled implements slog.Handler.
func (l levelled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= l.least && l.Handler.Enabled(ctx, level)
}
