package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"plimsoll/tokenizer/simmodel"
)

const (
	startWithin = 30 * time.Second // for a process to listen
	realWithin  = 10 * time.Minute // for a real engine, which reads its weights
	stopWithin  = 10 * time.Second
)

// host is one engine, its process, and the links to it.
type host struct {
	number int
	kind   string // the word for --replica
	port   int    // where it serves, its events behind it; simulated ones only
	target string // host:port
	real   *Real  // nil: it is simulated
	links  []*link

	mu      sync.Mutex
	process *process      // guarded by mu; nil: it is down, or was not started by us
	spent   time.Duration // guarded by mu; CPU time of its former processes
	wrong   bool          // guarded by mu; a fault is under way
	since   time.Duration // guarded by mu; when the last fault ended
}

// name is what the replica is called.
func (m *host) name() string { return "e" + strconv.Itoa(m.number) }

// fleet is the engines and the Plimsoll before them.
type fleet struct {
	plan    Plan
	binary  string
	logs    io.Writer
	tracker *tracker
	folder  string // with the tokenizer
	engines []*host
	serve   *process
	admin   string
	http    *http.Client
}

// newFleet starts everything. What it returns is to be closed, with an error too.
func newFleet(ctx context.Context, p Plan, d Deps, t *tracker) (*fleet, error) {
	f := &fleet{plan: p, binary: d.Binary, logs: &oneByOne{w: d.Logs}, tracker: t, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	var err error
	if f.folder, err = os.MkdirTemp("", "plimsoll-chaos-"); err != nil {
		return f, err
	}
	if err := os.CopyFS(f.folder, simmodel.FS()); err != nil {
		return f, err
	}
	free := newPorts(os.Getpid() * 64)
	args := []string{"serve", "--listen", "127.0.0.1:0", "--tokenizer", cmp.Or(p.Fleet.Tokenizer, f.folder)}
	for i := range p.Fleet.Size() {
		replica, err := f.newEngine(ctx, i, free)
		if err != nil {
			return f, err
		}
		args = append(args, "--replica", replica)
	}
	port, err := free.take(ctx, 1)
	if err != nil {
		return f, err
	}
	f.admin = "http://" + loopback(port)
	args = append(append(args, "--admin-listen", loopback(port)), p.Fleet.Serve...)
	up, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if f.serve, err = launch(up, f.logs, f.binary, args...); err != nil {
		return f, err
	}
	return f, f.awaitReady(up)
}

// newEngine starts an engine and its links, and returns its --replica.
func (f *fleet) newEngine(ctx context.Context, number int, free *ports) (string, error) {
	m := &host{number: number, kind: "vllm"}
	f.engines = append(f.engines, m)
	if len(f.plan.Fleet.Real) > 0 {
		r := f.plan.Fleet.Real[number]
		u, err := url.Parse(r.URL)
		if err != nil || u.Host == "" {
			return "", fmt.Errorf("chaos: %q is no URL of an engine", r.URL)
		}
		m.kind, m.target, m.real = r.Kind, u.Host, &r
		if len(r.Command) == 0 {
			f.tracker.reborn(number)
		} else if err := f.start(ctx, m); err != nil {
			return "", err
		}
		front, err := f.link(ctx, m, free, m.target, f.tracker)
		options := append([]string{"name=" + m.name(), "slots=" + strconv.Itoa(f.plan.Fleet.Slots)}, r.Options...)
		return fmt.Sprintf("%s=http://%s,%s", m.kind, front, strings.Join(options, ",")), err
	}
	var err error
	if m.port, err = free.take(ctx, 3); err != nil {
		return "", err
	}
	m.target = loopback(m.port)
	if err := f.start(ctx, m); err != nil {
		return "", err
	}
	var fronts [3]string // HTTP, events, replays
	for i := range fronts {
		var t *tracker
		if i == 0 {
			t = f.tracker
		}
		if fronts[i], err = f.link(ctx, m, free, loopback(m.port+i), t); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("vllm=http://%s,name=%s,slots=%d,events=tcp://%s,replay=tcp://%s", fronts[0], m.name(), f.plan.Fleet.Slots, fronts[1], fronts[2]), nil
}

func (f *fleet) link(ctx context.Context, m *host, free *ports, target string, t *tracker) (front string, err error) {
	port, err := free.take(ctx, 1)
	if err != nil {
		return "", err
	}
	l, err := newLink(m.number, t, listener(port), dialer(target))
	if err != nil {
		return "", err
	}
	m.links = append(m.links, l)
	return loopback(port), nil
}

// start starts an engine's process, a new life of it.
func (f *fleet) start(ctx context.Context, m *host) error {
	p, err := f.launch(ctx, m)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.process = p
	m.mu.Unlock()
	f.tracker.reborn(m.number)
	for _, l := range m.links {
		if err := l.accept(); err != nil {
			return err
		}
	}
	return nil
}

// launch starts an engine's program and waits until it serves.
func (f *fleet) launch(ctx context.Context, m *host) (*process, error) {
	if m.real != nil {
		ctx, cancel := context.WithTimeout(ctx, realWithin)
		defer cancel()
		return launchServer(ctx, f.logs, m.real.Command, func(ctx context.Context) bool {
			_, err := f.get(ctx, "http://"+m.target+"/health")
			return err == nil
		})
	}
	fl := f.plan.Fleet
	args := []string{
		"sim", "--listen", m.target, "--kv-events-port", strconv.Itoa(m.port + 1), "--profile", fl.Profile,
		"--speed", strconv.FormatFloat(fl.Speed, 'g', -1, 64), "--slots", strconv.Itoa(fl.Slots), "--entropy", strconv.Itoa(entropy),
		"--faults", "on", "--on-term", "hang", "--drain-timeout", "10m",
	}
	if fl.Overhead != nil {
		args = append(args, "--overhead", fl.Overhead.String())
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return launch(ctx, f.logs, f.binary, append(args, fl.Sim...)...)
}

// kill ends the process of an engine that was started here, as kill -9 does. Connections to it are refused from then on.
func (m *host) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return
	}
	_ = m.process.cmd.Process.Kill() // it may have ended
	for _, l := range m.links {
		l.refuse()
	}
	m.process.kill()
	m.spent += m.process.spent()
	m.process = nil
}

// signal sends a signal to the engine's process.
func (m *host) signal(s syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.process != nil:
		return m.process.signal(s)
	case m.real != nil && m.real.PID != nil:
		return syscall.Kill(*m.real.PID, s)
	}
	return errors.New("chaos: there is no process to signal")
}

// begin books a fault of the engine; false: one is under way.
func (m *host) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrong {
		return false
	}
	m.wrong = true
	return true
}

func (m *host) end(now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong, m.since = false, now
}

func (m *host) isWrong() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrong
}

// inject asks a simulated engine to be faulty.
func (f *fleet) inject(ctx context.Context, m *host, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+m.target+"/faults", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read from
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what there is of it
		return fmt.Errorf("chaos: the engine does not take the fault: status %d: %s", resp.StatusCode, text)
	}
	return nil
}

// awaitReady waits until every engine serves.
func (f *fleet) awaitReady(ctx context.Context) error {
	for {
		said, err := f.report(ctx)
		if err == nil && said.ready() == len(f.engines) {
			return nil
		}
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("chaos: not every engine became ready: %v %w\n%s", said, err, f.serve.lastLines())
		}
	}
}

// close ends all processes and links. It returns the CPU time that the engines and Plimsoll took.
func (f *fleet) close() (engines, serve time.Duration, err error) {
	if f.serve != nil {
		serve = f.serve.stop(stopWithin)
	}
	for _, m := range f.engines {
		m.kill()
		engines += m.spent
		for _, l := range m.links {
			l.shut()
		}
	}
	f.http.CloseIdleConnections()
	return engines, serve, os.RemoveAll(f.folder)
}
