package ingress

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine/openai"
	"plimsoll/scoring/queue"
)

// Headers in which a client says how fast its answer has to come, in milliseconds.
const (
	headerTTFT = "X-Slo-Ttft-Ms"
	headerTPOT = "X-Slo-Tpot-Ms"
)

// sloMax bounds what a client can ask for.
const sloMax = time.Hour

// Urgency reads how urgent a request is: the class that its body names, and how fast its answer has to come.
func (c Config) Urgency(h http.Header, body openai.Object) (queue.Class, stream.SLO, *fault.Fault) {
	p := &params{o: body}
	class := p.class()
	aim := p.slo(h, c.SLOs[class])
	return class, aim, p.fault
}

// slo reads how fast the answer has to come: what the headers say, else what goes for its class.
func (p *params) slo(h http.Header, aim stream.SLO) stream.SLO {
	if d := p.milliseconds(h, headerTTFT); d != nil {
		aim.TTFT = d
	}
	if d := p.milliseconds(h, headerTPOT); d != nil {
		aim.TPOT = d
	}
	return aim
}

// milliseconds reads a header with a time; nil if it is not there.
func (p *params) milliseconds(h http.Header, name string) *time.Duration {
	values := h.Values(name)
	if len(values) == 0 {
		return nil
	}
	ms, err := strconv.ParseFloat(values[0], 64)
	if len(values) > 1 || err != nil || math.IsNaN(ms) || ms <= 0 || ms > float64(sloMax.Milliseconds()) {
		said := values[0]
		if len(values) > 1 {
			said = values[1]
		}
		p.complain(name, "must be one number of milliseconds, above 0 and at most %d, not %s", sloMax.Milliseconds(), quoted(said))
		return nil
	}
	d := max(1, time.Duration(ms*float64(time.Millisecond)))
	return &d
}
