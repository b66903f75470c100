package tokenize

import (
	"math"
	"time"

	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/queue"
)

// machine decides which input of a model runs next in each lane. It is pure.
type machine struct {
	cfg     Config
	lanes   [NumLanes]*queue.Queue[*job]
	jobs    map[queue.ID]*job
	byCall  map[*stream.Call]*job
	bare    map[*Tokenize]*job
	last    queue.ID
	waiting [2]waiting // short inputs, longer ones
}

// waiting is what waits of the inputs that share a bound, from their arrival to their first step.
type waiting struct {
	bytes    int
	byTenant map[string]int
}

// secondsPerByte weighs size against age in the order of one tenant's inputs: 100 kB give way to whatever comes within 0.1 s.
const secondsPerByte = 1e-6

func newMachine(cfg Config) *machine {
	m := &machine{cfg: cfg, jobs: map[queue.ID]*job{}, byCall: map[*stream.Call]*job{}, bare: map[*Tokenize]*job{}}
	order := queue.DefaultConfig()
	order.RequestsMax, order.TokensMax = math.MaxInt, math.MaxInt // what waits is bounded in bytes, here
	for i := range m.lanes {
		m.lanes[i] = queue.New[*job](order)
	}
	for i := range m.waiting {
		m.waiting[i].byTenant = map[string]int{}
	}
	return m
}

// add lets a job in, to wait for its first step; false if too much waits.
func (m *machine) add(now time.Time, j *job) bool {
	if !m.admit(j) {
		return false
	}
	m.push(now, j)
	return true
}

// admit lets a job in that is then begun or pushed; false if too much waits.
func (m *machine) admit(j *job) bool {
	j.short = j.bytes <= m.cfg.SliceBytes+jobBytes
	switch {
	case j.short:
		j.lane = Short
	case j.input.Chat != nil:
		j.lane = Render
	default:
		j.lane = Slices
	}
	j.step = j.bytes
	w, most := m.bound(j)
	if w.bytes > 0 && w.bytes+j.bytes > most {
		tenants := len(w.byTenant)
		if w.byTenant[j.tenant] == 0 {
			tenants++
		}
		if w.byTenant[j.tenant]+j.bytes > most/tenants {
			return false
		}
	}
	w.bytes += j.bytes
	w.byTenant[j.tenant] += j.bytes
	m.last++
	j.id = m.last
	m.jobs[j.id] = j
	if j.owner != nil {
		m.byCall[j.owner.Call] = j
	} else {
		m.bare[j.bare] = j
	}
	return true
}

// bound is what waits with a job, and how much may.
func (m *machine) bound(j *job) (*waiting, int) {
	if j.short {
		return &m.waiting[0], m.cfg.ShortBytes
	}
	return &m.waiting[1], m.cfg.LongBytes
}

// direct begins a job that was let in where nobody waits in its lane: nobody is passed, and a queue would have nothing to order.
func (m *machine) direct(j *job) {
	m.begun(j)
	j.running = true
}

// begun takes a job off what waits: it has its first step, or is gone before.
func (m *machine) begun(j *job) {
	j.begun = true
	w, _ := m.bound(j)
	w.bytes -= j.bytes
	if w.byTenant[j.tenant] -= j.bytes; w.byTenant[j.tenant] == 0 {
		delete(w.byTenant, j.tenant)
	}
}

func (m *machine) push(now time.Time, j *job) {
	j.came = now
	weight, ok := m.cfg.TenantWeights[j.tenant]
	if !ok {
		weight = 1
	}
	err := m.lanes[j.lane].Push(queue.Entry[*job]{
		ID: j.id, Item: j, Tokens: scoring.Tokens(j.step), Arrival: j.arrival, Class: j.class, Tenant: j.tenant, Weight: weight,
		PrefillSeconds: float64(j.bytes) * secondsPerByte, ChargeSeconds: float64(j.step) * secondsPerByte,
	})
	if err != nil {
		panic("tokenize: " + err.Error()) // the queue has no bound, and a job is in one lane at a time
	}
}

// waits says whether a lane has something to do.
func (m *machine) waits(lane Lane) bool { return m.lanes[lane].Len() > 0 }

// next takes the job whose step a lane runs next; nil if none waits.
func (m *machine) next(now time.Time, lane Lane) *job {
	var next *job
	m.lanes[lane].Scan(now, 1, func(e queue.Entry[*job]) queue.Visit {
		if next != nil {
			return queue.Stop
		}
		next = e.Item
		return queue.Take
	})
	if next == nil {
		return nil
	}
	if !next.begun {
		m.begun(next)
	}
	next.waited += now.Sub(next.came)
	next.running = true
	return next
}

// ran hears that a job's step is over, with more to come. False: nobody wants that.
func (m *machine) ran(now time.Time, j *job, lane Lane, step int) bool {
	j.running = false
	if j.gone {
		return false
	}
	j.lane, j.step = lane, step
	m.push(now, j)
	return true
}

// end forgets a job that is over. False: nobody wants its result, or it is of a former instance.
func (m *machine) end(j *job) bool {
	if m.jobs[j.id] != j {
		return false
	}
	delete(m.jobs, j.id)
	if j.owner != nil && m.byCall[j.owner.Call] == j {
		delete(m.byCall, j.owner.Call)
	}
	if j.bare != nil {
		delete(m.bare, j.bare)
	}
	return !j.gone
}

// submitted takes a submission of a call whose job is there already: an older one was made, to a router that has failed since.
// Its work goes on. False if there is none.
func (m *machine) submitted(sub *stream.Submit) bool {
	j := m.byCall[sub.Call]
	if j == nil {
		return false
	}
	j.owner = sub
	return true
}

// has says whether there is a job of a call's submission.
func (m *machine) has(call *stream.Call, number uint64) bool {
	j := m.byCall[call]
	return j != nil && j.isOf(call, number)
}

// withdraw drops the job of a call's submission, 0 for any. It returns nil if there is none; a job that runs is over with its step.
func (m *machine) withdraw(now time.Time, call *stream.Call, number uint64) *job {
	j := m.byCall[call]
	if j == nil || !j.isOf(call, number) {
		return nil
	}
	delete(m.byCall, call)
	m.drop(now, j)
	return j
}

// abandon drops a bare tokenization.
func (m *machine) abandon(now time.Time, t *Tokenize) *job {
	j := m.bare[t]
	if j == nil {
		return nil
	}
	delete(m.bare, t)
	m.drop(now, j)
	return j
}

func (m *machine) drop(now time.Time, j *job) {
	j.gone = true
	if j.running {
		return
	}
	m.lanes[j.lane].Remove(j.id)
	j.waited += now.Sub(j.came)
	if !j.begun {
		m.begun(j)
	}
	delete(m.jobs, j.id)
}

// held counts the jobs that wait or run, and the bytes that wait for their first step.
func (m *machine) held() (jobs, bytes int) {
	return len(m.jobs), m.waiting[0].bytes + m.waiting[1].bytes
}
