package router

import (
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
)

// usedFor is how long a tenant or an adapter counts as in use after its last request.
const usedFor = 10 * time.Minute

// uses are what the model's requests are of, as far as it matters whether that is more than one.
type uses struct{ tenants, adapters latest }

// see notes what a request is of, and says of what several are in use.
func (u *uses) see(now time.Time, req *stream.Request) fleet.Several {
	return fleet.Several{Tenants: u.tenants.see(now, req.Tenant), Adapters: u.adapters.see(now, req.LoRA)}
}

// latest are the last two values, and when each was seen last; the zero time: never.
type latest struct {
	values [2]string
	at     [2]time.Time
}

// see notes a value and says whether there was another one lately.
func (l *latest) see(now time.Time, value string) (several bool) {
	at := 0
	switch {
	case value == l.values[0] && !l.at[0].IsZero():
	case value == l.values[1] && !l.at[1].IsZero(), l.at[1].Before(l.at[0]):
		at = 1
	}
	l.values[at], l.at[at] = value, now
	return !l.at[1-at].IsZero() && now.Sub(l.at[1-at]) < usedFor
}
