package chaos

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"plimsoll/testbench/fakeengine"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/simmodel"
)

// Deps is what a run is given. All are required.
type Deps struct {
	Binary   string         // plimsoll, which is started as sim and as serve
	Logs     io.Writer      // takes the logs of all processes, a line a Write
	Progress func(Progress) // is called some times a second
}

// Progress is how a run stands.
type Progress struct {
	Phase              string
	At                 time.Duration
	Open, Done, Failed int
	Hit, HitTwice      int
	Faults             int
	Leaves             int // clients that left
	TokensPerSecond    float64
	States             []string // of the replicas
	LastFault          string
}

const (
	sampleEvery = 500 * time.Millisecond
	// lingerMax is how long an engine that let go of nothing may keep what is booked: the longest bound of an adapter is
	// below it.
	lingerMax = 15 * time.Second
)

// run is a run under way.
type run struct {
	plan    Plan
	deps    Deps
	began   time.Time
	tracker *tracker
	fleet   *fleet
	oracle  *oracle
	client  *client
	frames  atomic.Int64

	mu      sync.Mutex
	next    int             // guarded by mu; number of the next request
	open    map[int]*stream // guarded by mu; by number
	streams []*stream       // guarded by mu; those that ended
	hits    []*Hit          // guarded by mu
	times   map[int]int     // guarded by mu; hits of streams that gave text, by number
	struck  []Struck        // guarded by mu
	leaves  []Leave         // guarded by mu
	samples []Sample        // guarded by mu
	report  edgeReport      // guarded by mu; the last one
	phase   string          // guarded by mu
	errs    []error         // guarded by mu
}

// Run runs a plan. The error says why there is no result; whether all held is for the result's verdicts to say.
func Run(ctx context.Context, p Plan, d Deps) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	model, err := tokenizer.Load(simmodel.FS(), "embedded", time.Now)
	if err != nil {
		return nil, err
	}
	defer model.Close() //nolint:errcheck // nothing of it is needed any more
	cfg, err := p.Fleet.config()
	if err != nil {
		return nil, err
	}
	r := &run{plan: p, deps: d, began: time.Now(), open: map[int]*stream{}, times: map[int]int{}, phase: "starting"}
	r.tracker = newTracker(p.Fleet.Size(), r.now)
	r.oracle = &oracle{cfg: cfg, source: fakeengine.Source(model), model: model}
	if r.fleet, err = newFleet(ctx, p, d, r.tracker); err != nil {
		_, _, wrong := r.fleet.close()
		return nil, errors.Join(err, wrong)
	}
	result, err := r.run(ctx)
	engines, serve, wrong := r.fleet.close()
	if err = errors.Join(err, wrong); err != nil {
		return nil, err
	}
	result.End.EngineSeconds, result.End.ServeSeconds = engines.Seconds(), serve.Seconds()
	result.End.OwnSeconds = ownCPU().Seconds()
	result.Took = r.now()
	result.Verdicts = Judge(p, result)
	return result, nil
}

func (r *run) now() time.Duration { return time.Since(r.began) }

// run makes the traffic and the faults.
func (r *run) run(ctx context.Context) (*Result, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
	defer transport.CloseIdleConnections()
	r.client = &client{url: r.fleet.serve.url, http: &http.Client{Transport: transport}, now: r.now, seen: func() { r.frames.Add(1) }}

	watching, unwatch := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { r.sample(watching) })
	defer watchers.Wait()
	defer unwatch()

	if r.plan.Cancel != nil {
		if err := r.cancellations(ctx); err != nil {
			return nil, err
		}
	}
	if r.plan.Duration > 0 {
		r.storm(ctx)
	}
	if err := errors.Join(ctx.Err(), errors.Join(r.errs...)); err != nil {
		return nil, err
	}
	end := r.settle(ctx)
	result := r.result() // now that engines have had the time to be rid of the last who left
	result.End = end
	r.enter("checking the answers")
	if err := r.check(result); err != nil {
		return nil, err
	}
	return result, ctx.Err()
}

// storm is the traffic and the faults under it; it ends when all that was asked for is answered and every fault is over.
func (r *run) storm(ctx context.Context) {
	stop := make(chan struct{})
	var clients, faults sync.WaitGroup
	r.enter("warming up")
	for i := range r.plan.Traffic.Streams {
		clients.Go(func() {
			pause(ctx, r.plan.Warm*time.Duration(i)/time.Duration(r.plan.Traffic.Streams))
			r.keepOne(ctx, rand.New(rand.NewPCG(r.plan.Seed, uint64(i))), stop) //nolint:gosec // a count
		})
	}
	pause(ctx, r.plan.Warm)
	r.enter("faults")
	began := r.now()
	for _, d := range schedule(r.plan) {
		if pause(ctx, began+d.at-r.now()); ctx.Err() != nil {
			break
		}
		faults.Go(func() { r.fault(ctx, d) })
	}
	pause(ctx, began+r.plan.Duration-r.now())
	close(stop)
	faults.Wait()
	r.enter("waiting for the last answers")
	clients.Wait()
}

// keepOne keeps one stream open.
func (r *run) keepOne(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) {
	for ctx.Err() == nil {
		select {
		case <-stop:
			return
		default:
		}
		s := r.newStream(rng, r.plan.Traffic)
		// What nobody answers is a failure, and must not hold up the end.
		within, cancel := context.WithTimeout(ctx, r.plan.Settle+r.plan.Duration)
		r.client.send(within, s)
		cancel()
		r.mu.Lock()
		delete(r.open, s.number)
		r.streams = append(r.streams, s)
		r.mu.Unlock()
		if s.err != nil {
			pause(ctx, 100*time.Millisecond) // a front that refuses all is not flooded
		}
	}
}

// number gives the next request its number.
func (r *run) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.next - 1
}

func (r *run) newStream(rng *rand.Rand, t Traffic) *stream {
	number := r.number()
	s := &stream{ask: newAsk(rng, t, number)}
	if s.class == Stops {
		if err := r.oracle.chooseStop(&s.ask, 0.5+0.4*rng.Float64()); err != nil {
			r.fail(err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[number] = s
	return s
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

func (r *run) enter(phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = phase
}

// fault has one fault strike, and waits until it is over.
func (r *run) fault(ctx context.Context, d due) {
	var healthy []int
	for _, h := range r.fleet.engines {
		if !h.isWrong() && r.serves(h) {
			healthy = append(healthy, h.number)
		}
	}
	number, ok := victim(d, healthy, r.plan.Faults.Healthy, func(e int) int { return len(r.tracker.under(e)) })
	if !ok || !r.fleet.engines[number].begin() {
		return
	}
	h := r.fleet.engines[number]
	s := Struck{Kind: d.Kind, Engine: number, At: r.now()}
	index := r.strikes(d, h, &s)
	err := r.strike(ctx, d, h)
	over := r.now()
	h.end(over)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.struck[index].Over = over
	if err != nil && ctx.Err() == nil {
		r.struck[index].Error = err.Error()
		r.errs = append(r.errs, err)
	}
}

// serves says whether Plimsoll says that the engine serves.
func (r *run) serves(h *host) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.report.of(h.name())
	return said != nil && said.State == "ready" && !said.Suspect
}

// strikes books a fault and whom it hits.
func (r *run) strikes(d due, h *host, s *Struck) int {
	under := r.tracker.under(h.number)
	s.Under = len(under)
	r.mu.Lock()
	defer r.mu.Unlock()
	index := len(r.struck)
	r.struck = append(r.struck, *s)
	if !d.Kind.breaks() {
		return index
	}
	tokens := 0
	for _, a := range under {
		tokens += a.PromptTokens
	}
	survivors := max(1, len(r.fleet.engines)-1)
	for _, a := range under {
		stream := r.open[a.Request]
		if stream == nil {
			continue
		}
		own := len(stream.prompt) + stream.produced()
		hit := &Hit{Fault: index, Stream: a.Request, Prefill: r.prefill(own + tokens/survivors)}
		if d.Kind.silent() && h.real == nil {
			hit.Bound = 2*r.step() + r.detection(h) + 3*hit.Prefill/2
		}
		stream.hit(s.At, hit)
		r.hits = append(r.hits, hit)
		if hit.Giving {
			r.times[a.Request]++
		}
	}
	return index
}

// prefill is what a simulated engine takes for a prompt.
func (r *run) prefill(tokens int) time.Duration {
	return time.Duration(float64(r.oracle.cfg.Timing.Pass(tokens, 0, 0, 0)) / r.plan.Fleet.Speed)
}

// step is what a simulated engine takes for a token of each stream. A gap begins with the last token before the fault, which is
// up to a step older than the silence, and the prefill that ends it waits for the pass under way.
func (r *run) step() time.Duration {
	each := r.plan.Traffic.Streams/r.plan.Fleet.Size() + 1
	context := (r.plan.Traffic.PromptTokens[1] + r.plan.Traffic.OutputTokens[1]) / 2
	return time.Duration(float64(r.oracle.cfg.Timing.Pass(0, 0, each, each*context)) / r.plan.Fleet.Speed)
}

// The hang rule of serve: silence, doubt, canary (actors/replica).
const (
	hangLeast = 250 * time.Millisecond
	hangBlind = 10 * time.Second
	hangDoubt = 100 * time.Millisecond
)

// detection is how long it may take until a silent engine is left: what the hang rule says, with what Plimsoll has learned
// of the engine by now.
func (r *run) detection(h *host) time.Duration {
	said := r.report.of(h.name())
	if said == nil || said.StepSecondsP99 == nil {
		return hangBlind + hangDoubt + hangBlind
	}
	step := time.Duration(*said.StepSecondsP99 * float64(time.Second))
	filling := 2 * r.prefill(said.Load.QueuedPrefillTokens)
	if said.Load.QueuedPrefillTokens == 0 {
		filling = 0
	}
	return max(hangLeast, 8*step, filling) + hangDoubt + max(hangLeast, 4*step, filling)
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
