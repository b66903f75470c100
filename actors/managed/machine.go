package managed

import (
	"fmt"
	"math/rand/v2"
	"time"

	"plimsoll/actors/supervise"
	"plimsoll/engine/process"
)

// Phase is where an engine is between two starts.
type Phase uint8

const (
	Waiting  Phase = iota // nothing runs; left for Starting when the back-off is over
	Starting              // it runs and has not served; left for Serving when a probe succeeds, for Ending after the deadline or a crash
	Serving               // left for Ending after a crash, or when the replica gave it up
	Ending                // it, or what it started, is being ended; left for Waiting when nothing is left
	Closed                // left by nobody

	NumPhases
)

// String names the phase in reports.
func (p Phase) String() string {
	return [NumPhases]string{"waiting", "starting", "serving", "ending", "closed"}[p]
}

// Events of the machine. A start's number tells what concerns an earlier one.
type (
	begin struct{}                 // the keeper runs
	ran   struct{ start, pid int } // the main process runs
	// exited: the main process has ended.
	exited struct {
		start int
		exit  process.Exit
	}
	gone  struct{ start int } // nothing of a start is left
	ready struct{ start int } // a probe succeeded
	// giveUp: the replica's life cycle wants another process.
	giveUp struct {
		start int
		why   string
	}
	closing struct{}
	tick    struct{} // the time that next named has come
)

// An effect is something the keeper does after a step, in order.
type effect interface{ isEffect() }

type (
	spawn struct{} // start the process; m.starts is its number
	// end ends the process, at once or asking first.
	end struct{ now bool }
	// retire lets no call reach the life any more.
	retire struct{}
	// tell reports what an operator should know.
	tell struct {
		level level
		what  string
	}
	done struct{} // the keeper ends
)

func (spawn) isEffect()  {}
func (end) isEffect()    {}
func (retire) isEffect() {}
func (tell) isEffect()   {}
func (done) isEffect()   {}

// level is how much an operator should care.
type level uint8

const (
	info level = iota
	warn
)

// Status is how a started engine is. It is immutable.
type Status struct {
	Phase      Phase
	Since      time.Time // when the phase began
	PID        int       // of the main process; 0 while none runs
	Port       int       // of the last start; 0 before the first
	Starts     int
	Strikes    int       // failures in a row
	LastExit   string    // how the last process ended and why, "" while none has
	LastExitAt time.Time // zero while none has
}

// machine decides when the process is started and ended. It is pure: time and randomness are arguments.
type machine struct {
	cfg     Config
	rng     *rand.Rand
	backoff *supervise.Backoff

	phase    Phase
	since    time.Time
	at       time.Time // in Waiting the next start, in Starting the deadline
	starts   int
	pid      int
	why      string // in Ending: why we end it, "" if it ended by itself
	exit     string
	exitedAt time.Time
	closing  bool

	out []effect
}

func newMachine(cfg Config, rng *rand.Rand) *machine {
	return &machine{cfg: cfg, rng: rng, backoff: supervise.NewBackoff(cfg.Backoff)}
}

// again returns the machine that comes after one that failed, when nothing of its last start is left. It is not closing.
func (m *machine) again(now time.Time) *machine {
	next := &machine{
		cfg: m.cfg, rng: m.rng, backoff: m.backoff, starts: m.starts, exit: m.exit, exitedAt: m.exitedAt, phase: Ending,
	}
	next.gone(now)
	return next
}

func (m *machine) emit(e effect) { m.out = append(m.out, e) }

// step takes one event and returns what is to be done, in order.
func (m *machine) step(now time.Time, event any) []effect {
	m.out = nil
	switch e := event.(type) {
	case begin:
		if m.phase == Waiting && m.starts == 0 {
			m.start(now)
		}
	case ran:
		if e.start == m.starts && m.running() {
			m.pid = e.pid
		}
	case exited:
		if e.start == m.starts && m.running() {
			m.exited(now, e.exit)
		}
	case gone:
		if e.start == m.starts && m.running() {
			m.gone(now)
		}
	case ready:
		if e.start == m.starts && m.phase == Starting {
			m.enter(now, Serving)
			m.emit(tell{info, "the engine serves"})
		}
	case giveUp:
		if e.start == m.starts && m.phase == Serving {
			m.end(now, true, e.why)
		}
	case closing:
		m.close(now)
	case tick:
		m.tick(now)
	}
	return m.out
}

// running says whether something of the last start may be left.
func (m *machine) running() bool {
	return m.phase == Starting || m.phase == Serving || m.phase == Ending
}

func (m *machine) enter(now time.Time, p Phase) { m.phase, m.since = p, now }

func (m *machine) start(now time.Time) {
	m.starts++
	m.pid, m.why = 0, ""
	m.at = now.Add(m.cfg.StartTimeout)
	m.enter(now, Starting)
	m.emit(spawn{})
}

// end ends a running engine. One that hangs is not asked: it would not hear.
func (m *machine) end(now time.Time, hangs bool, why string) {
	m.why = why
	m.enter(now, Ending)
	m.emit(retire{})
	m.emit(tell{warn, why})
	m.emit(end{hangs})
}

func (m *machine) exited(now time.Time, exit process.Exit) {
	m.pid, m.exit, m.exitedAt = 0, exit.String(), now
	if m.why != "" {
		m.exit = m.why + "; " + m.exit
	}
	if m.phase != Ending {
		m.enter(now, Ending) // its guard ends what it left
		m.emit(retire{})
		m.emit(tell{warn, "the engine ended: " + m.exit})
	}
}

// gone plans the next start.
func (m *machine) gone(now time.Time) {
	if m.phase != Ending { // without a word of the main process
		m.exited(now, process.Exit{Error: "it ended without an exit code"})
	}
	m.pid = 0
	if m.closing {
		m.shut(now)
		return
	}
	delay := m.backoff.Strike(now, m.rng)
	m.at = now.Add(delay)
	m.enter(now, Waiting)
	m.emit(tell{info, fmt.Sprintf("the engine is started again in %s (strike %d)", delay.Round(time.Millisecond), m.backoff.Strikes())})
}

func (m *machine) close(now time.Time) {
	if m.closing {
		return
	}
	m.closing = true
	switch m.phase {
	case Waiting:
		m.shut(now)
	case Starting, Serving:
		m.why = "asked to end"
		m.enter(now, Ending)
		m.emit(retire{})
		m.emit(end{})
	case Ending:
	case Closed, NumPhases:
	}
}

func (m *machine) shut(now time.Time) {
	m.enter(now, Closed)
	m.emit(done{})
}

func (m *machine) tick(now time.Time) {
	if now.Before(m.at) {
		return
	}
	switch m.phase {
	case Waiting:
		m.start(now)
	case Starting:
		m.end(now, false, fmt.Sprintf("the engine did not serve within %s", m.cfg.StartTimeout))
	case Serving, Ending, Closed, NumPhases:
	}
}

// next is when the machine wants a tick, if at all.
func (m *machine) next() (time.Time, bool) {
	return m.at, m.phase == Waiting || m.phase == Starting
}

func (m *machine) status(port int) *Status {
	return &Status{
		Phase: m.phase, Since: m.since, PID: m.pid, Port: port, Starts: m.starts, Strikes: m.backoff.Strikes(),
		LastExit: m.exit, LastExitAt: m.exitedAt,
	}
}
