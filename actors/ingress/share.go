package ingress

import "plimsoll/actors/fault"

// admit lets the exchange in, or says that its tenant has had what it may have.
func (x *exchange) admit() *fault.Fault {
	r := x.s.quotas[x.tenant].Admit(x.s.deps.Now())
	if r == nil {
		return nil
	}
	f := fault.New(fault.OverQuota, "%s may have %d %s a minute and has had them; try again in %.1f s", x.tenant, r.PerMinute, r.Bound, r.Wait.Seconds())
	f.RetryAfter = r.Wait
	return f
}

// charge takes what the answer has cost from its tenant's share.
func (x *exchange) charge() { x.s.quotas[x.tenant].Charge(x.s.deps.Now(), x.entry.usage.TotalTokens) }
