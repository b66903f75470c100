package dst

import (
	"time"

	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
)

// submitting alters what a submission says. req is the router's own copy of its request.
func submitting(alter func(c *call, sub *stream.Submit, req *stream.Request)) func(f *front, message any) any {
	return func(f *front, message any) any {
		sub, ok := message.(*stream.Submit)
		if !ok {
			return message
		}
		altered, req := *sub, *sub.Call.Request
		altered.Call.Request = &req
		alter(f.w.byHandle[sub.Call], &altered, &req)
		return &altered
	}
}

func orderPlants() []Plant {
	return []Plant{
		{Name: "class ignored in the queue's order", Catches: Class, toRouter: submitting(func(_ *call, _ *stream.Submit, req *stream.Request) {
			req.Class = queue.Default
		})},
		{Name: "promotion forgotten", Catches: Class, toRouter: submitting(func(c *call, sub *stream.Submit, _ *stream.Request) {
			sub.Arrival = c.w.time() // nobody has waited for long
		})},
		{Name: "tenants served in the order of arrival", Catches: Share, toRouter: submitting(func(_ *call, _ *stream.Submit, req *stream.Request) {
			req.Tenant = "default"
		})},
		{Name: "tenants' weights ignored", Catches: Share, weightless: true},
		{Name: "SLO shed of a request that was begun", Catches: Outcome, toRouter: submitting(func(_ *call, sub *stream.Submit, _ *stream.Request) {
			sub.Begun, sub.Again = false, false
		})},
		{Name: "SLO that nobody has asked for", Catches: Outcome, toRouter: submitting(func(_ *call, _ *stream.Submit, req *stream.Request) {
			if req.SLO.TTFT == nil {
				req.SLO.TTFT = new(500 * time.Millisecond)
			}
		})},
		{Name: "SLO forgotten while it waits", Catches: Hold, toRouter: submitting(func(_ *call, _ *stream.Submit, req *stream.Request) {
			req.SLO.TTFT = nil
		})},
	}
}
