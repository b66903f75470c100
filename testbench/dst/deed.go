package dst

import "time"

// deed is something that was done to the fleet or to a client, as it happened: enough to do the same to another driver.
type deed struct {
	at    time.Duration
	fault Fault // NumFaults: all is healed
	over  bool  // a lasting fault ends

	host      int // by its number, from 1; 0: it is about none
	call, leg int

	n      int           // how many times as slow, or how many tokens of the attempt come before
	silent bool          // a killed process takes its machine with it
	orphan bool          // or leaves somebody who goes on answering for its cache events
	leave  time.Duration // after how long what runs is moved; none: never
	keep   bool          // a drained replica stays
}

// did notes a deed.
func (w *world) did(d deed) {
	d.at = w.now
	w.deeds = append(w.deeds, d)
}

// suffer does a deed to an engine's process.
func (p *process) suffer(d deed) {
	switch d.fault {
	case Kill:
		if d.over {
			p.start()
		} else {
			p.pub.orphans = d.orphan
			p.kill(d.silent)
		}
	case Restart:
		p.kill(d.silent)
		p.start()
	case Stop, HungCore:
		if d.over {
			p.thaw()
		} else {
			p.freeze(d.fault == HungCore)
		}
	case Slow:
		p.slow = d.n
		if d.over {
			p.slow = 1
		}
	case ServerError, Shed, Distrust:
		p.refuses = d.fault
		if d.over {
			p.refuses = NumFaults
		}
	case LongStep:
		p.until = p.w.now + time.Duration(d.n)*time.Millisecond
	case KVLost, KVDoubled, KVReordered, KVGarbled, KVDelayed:
		p.trouble = d.fault
	case ErrorFrame, Cut, MissingFinish, PanicReplica, PanicRouter, ClockJump, ClientLeaves, SlowClient, Drain, Add, Undrain, RefuseOne, ForAnHour, Trailing,
		NumFaults:
		// not the process's
	}
}

// heal ends all that a process suffers.
func (p *process) heal() {
	p.slow, p.refuses, p.trouble = 1, NumFaults, NumFaults
	if p.until > p.w.now {
		p.until = p.w.now
		e := p.w.at(p.w.now, evPass)
		e.host, e.n = p.host, p.passing
	}
	p.start()
	p.thaw()
}

// spoilt does a deed to one stream.
func (w *world) spoilt(a *attempt, d deed) {
	if d.fault == Cut {
		w.cut(a)
		return
	}
	a.mischief, a.after = d.fault, d.n
}

// entropy is what an attempt's sampling draws on where its request names no seed: another one for each leg, and for each
// attempt after one that gave tokens, and the same whoever drives.
func entropy(seed uint64, call, leg, fruitful int) uint64 {
	var r record
	for _, v := range []uint64{seed, uint64(call), uint64(leg), uint64(fruitful)} { //nolint:gosec // counts
		r.fold(v)
	}
	return r.digest
}

// fruitful counts the attempts that gave tokens.
func fruitful(tries []*attempt) (n int) {
	for _, a := range tries {
		if len(a.got) > 0 {
			n++
		}
	}
	return n
}
