package dst

import (
	"time"

	"plimsoll/actors/replica"
	"plimsoll/engine"
)

// probeGap is the least time between two probes.
const probeGap = 50 * time.Millisecond

// connection probes the engine as the actor of that name does.
type connection struct {
	host    *host
	run     uint64 // tells probes and timers of now from those of before
	probing bool
	hurried bool
	began   time.Duration
	last    time.Duration
	retry   time.Duration
	seen    uint64 // the process's life at the last probe
}

// probed is what a probe brought.
type probed struct {
	status  *engine.Status
	failure *engine.Failure
}

func (c *connection) start() {
	c.run++
	c.probing, c.hurried, c.retry = false, false, c.host.cfg.ProbeFirst
	c.probe()
}

func (c *connection) stop() { c.run++ }

func (c *connection) schedule(wait time.Duration) {
	c.run++
	e := c.host.w.in(wait, evProbe)
	e.host, e.n = c.host, c.run
}

func (c *connection) hurry() {
	if c.probing {
		c.hurried = true
		return
	}
	c.schedule(max(0, probeGap-(c.host.w.now-c.last)))
}

func (c *connection) probe() {
	if c.probing {
		return
	}
	w := c.host.w
	c.probing, c.began = true, w.now
	s, f := c.host.p.status()
	wait := 2 * w.network()
	if s == nil && f == nil {
		wait, f = c.host.cfg.ProbeTimeout, errSilent
	}
	if c.seen != 0 && c.seen != c.host.p.lives && s != nil && w.healed == none {
		// What comes in the very moment in which another life shows itself.
		for range 6 {
			w.in(w.between(0, wait+200*time.Microsecond), evCall).call = w.newCall(true)
		}
	}
	c.seen = c.host.p.lives
	e := w.in(wait, evProbed)
	e.host, e.n = c.host, c.run
	e.msg = probed{s, f}
}

func (c *connection) done(p probed) {
	w := c.host.w
	c.probing = false
	c.last = w.now
	wait := c.host.cfg.ProbeInterval
	began := skewed(w.base.Add(c.began), w.wall)
	if p.failure != nil {
		wait, c.retry = c.host.cfg.ProbePause(c.retry, p.failure)
		wait += time.Duration(w.rng.Float64() * 0.2 * float64(wait))
		c.host.box.post(&c.host.box, replica.ProbeFailed{Failure: p.failure, Began: began})
	} else {
		c.retry = c.host.cfg.ProbeFirst
		c.host.box.post(&c.host.box, replica.Probed{Status: *p.status, Began: began})
	}
	if c.hurried {
		c.hurried, wait = false, probeGap
	}
	c.schedule(wait)
}
