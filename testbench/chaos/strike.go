package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"time"

	"plimsoll/testbench/fakeengine"
)

// coreOutlives is how long a process lives on after its core has died.
const coreOutlives = 400 * time.Millisecond

// strike does what a fault says to an engine, and undoes it when it is over. The caller has booked the engine.
func (r *run) strike(ctx context.Context, d due, h *host) error {
	switch d.Kind {
	case Kill:
		h.kill()
		return r.comeBack(ctx, h, d.back)
	case Flap:
		for range d.Times {
			h.kill()
			if err := r.comeBack(ctx, h, d.back); err != nil {
				return err
			}
			pause(ctx, d.lasts)
		}
	case Stop:
		if err := h.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		pause(ctx, d.lasts)
		return h.signal(syscall.SIGCONT)
	case Term:
		if err := h.signal(syscall.SIGTERM); err != nil {
			return err
		}
		pause(ctx, d.lasts)
		h.kill()
		return r.comeBack(ctx, h, d.back)
	case Core:
		dead := fakeengine.CoreDead
		if err := r.inject(ctx, h, fakeengine.Faults{Core: &dead}); err != nil {
			return err
		}
		pause(ctx, coreOutlives)
		h.kill()
		return r.comeBack(ctx, h, d.back)
	case Break:
		yes := true
		if err := r.inject(ctx, h, fakeengine.Faults{BreakStreams: &yes}); err != nil {
			return err
		}
		return r.inject(ctx, h, fakeengine.Faults{})
	case Hang, HangAfter, Slow, Status, Events, Clock:
		if err := r.inject(ctx, h, d.injection()); err != nil {
			return err
		}
		pause(ctx, d.lasts)
		return r.inject(ctx, h, fakeengine.Faults{})
	case Cut:
		r.tracker.cut(h.number, false)
		pause(ctx, cutWithin)
	case Delay:
		for _, l := range h.links {
			l.delay(d.Latency, d.Jitter)
		}
		pause(ctx, d.lasts)
		for _, l := range h.links {
			l.delay(0, 0)
		}
	case Partition:
		for _, l := range h.links {
			l.part()
		}
		pause(ctx, d.lasts)
		for _, l := range h.links {
			l.heal()
		}
	case NumKinds:
	}
	return nil
}

// comeBack starts the engine's next life.
func (r *run) comeBack(ctx context.Context, h *host, after time.Duration) error {
	if pause(ctx, after); ctx.Err() != nil {
		return ctx.Err()
	}
	return r.fleet.start(ctx, h)
}

// injection is what a simulated engine is told.
func (f Fault) injection() fakeengine.Faults {
	var out fakeengine.Faults
	switch f.Kind {
	case Hang:
		hangs := fakeengine.CoreHangs
		out.Core = &hangs
	case HangAfter:
		out.HangAfterTokens = &f.Tokens
	case Slow:
		out.Slow = &f.Factor
	case Status:
		out.Status = &f.Status
	case Events:
		out.KV = f.Events
	case Clock:
		seconds := f.Jump.Seconds()
		out.ClockSeconds = &seconds
	case Kill, Stop, Term, Core, Break, Cut, Delay, Partition, Flap, NumKinds:
	}
	return out
}

func (r *run) inject(ctx context.Context, h *host, f fakeengine.Faults) error {
	body, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	return r.fleet.inject(ctx, h, body)
}
