package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
)

// newWatch returns who watches a model's decisions; nil where nobody wants to know.
func (s *System) newWatch(m *model) (*explain.Watch, error) {
	cfg := explain.None()
	if s.cfg.Decisions != nil {
		cfg = *s.cfg.Decisions
	}
	if cfg.Records == 0 && len(m.Shadows) == 0 && !s.deps.Log.Enabled(context.Background(), slog.LevelDebug) {
		return nil, nil //nolint:nilnil // a nil watch takes in nothing
	}
	return explain.New(cfg, m.Router.Model, m.Shadows, s.deps.Seed, explain.Deps{
		Log: s.deps.Log, Meter: s.deps.Meter.Decisions(m.Router.Model), Panicked: func() { s.deps.Meter.Panicked("watch") },
	})
}

// closeWatches ends those that run.
func (s *System) closeWatches() {
	for _, m := range s.models {
		m.watch.Close()
	}
}

// Decisions returns how the last requests were routed, the newest first.
func (s *System) Decisions(most int) []explain.Record {
	return s.decisions(most, func(w *explain.Watch) []explain.Record { return w.Recent(most) })
}

// DecisionsOf returns how the requests with a client-visible ID were routed, the newest first: one record a leg and placement.
func (s *System) DecisionsOf(request string) []explain.Record {
	return s.decisions(-1, func(w *explain.Watch) []explain.Record { return w.Find(request) })
}

// decisions puts those of all models together; most below 0: all.
func (s *System) decisions(most int, of func(*explain.Watch) []explain.Record) []explain.Record {
	all := []explain.Record{}
	for _, m := range s.models {
		if m.watch == nil {
			continue
		}
		for _, record := range of(m.watch) {
			record.Model = m.name()
			all = append(all, record)
		}
	}
	slices.SortStableFunc(all, func(a, b explain.Record) int { return cmp.Compare(b.At.UnixNano(), a.At.UnixNano()) })
	if most >= 0 && len(all) > most {
		all = all[:most]
	}
	return all
}

// supposeWait bounds how long the answer to a question may take: a router that fails at it may not answer.
const supposeWait = 30 * time.Second

// Suppose says what would be decided for a request that is not made. An empty model is the only one. Errors are faults.
func (s *System) Suppose(ctx context.Context, req *stream.Request) (explain.Record, error) {
	m, lora := s.resolve(req.Model)
	if req.Model == "" && len(s.models) == 1 {
		m = s.models[0]
	}
	if m == nil {
		if req.Model == "" {
			return explain.Record{}, fault.Invalid("model", "model is required: several are served")
		}
		return explain.Record{}, fault.New(fault.ModelNotFound, "the model %q does not exist", req.Model)
	}
	for _, ids := range req.Input.Tokens {
		if most := slices.Max(append(slices.Clip(ids), 0)); int64(most) >= int64(m.Tokenizer.VocabSize()) {
			return explain.Record{}, fault.Invalid("tokens", "tokens holds the ID %d, the vocabulary ends at %d", most, m.Tokenizer.VocabSize()-1)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, supposeWait)
	defer cancel()
	req.LoRA = lora
	prompts, err := m.tokenizer.Prompts(ctx, req.Input, req.Tenant, req.Class)
	if err != nil {
		if ctx.Err() != nil {
			return explain.Record{}, unanswered(ctx)
		}
		return explain.Record{}, fault.Of(err)
	}
	if len(prompts) != 1 || prompts[0].Tokens() == 0 {
		return explain.Record{}, fault.Invalid("prompt", "one prompt of at least one token is needed")
	}
	reply := make(chan *explain.Batch, 1)
	s.tellRouter(m, &router.Suppose{Request: req, Prompts: prompts, Reply: reply})
	select {
	case b := <-reply:
		if b == nil {
			return explain.Record{}, &fault.Fault{Kind: fault.Internal, Message: "internal error"}
		}
		return explain.Suppose(m.name(), b), nil
	case <-ctx.Done():
		return explain.Record{}, unanswered(ctx)
	}
}

// unanswered is why a router was not waited for any longer.
func unanswered(ctx context.Context) *fault.Fault {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &fault.Fault{Kind: fault.Internal, Message: fmt.Sprintf("no answer within %s; try again", supposeWait), Err: ctx.Err()}
	}
	return &fault.Fault{Kind: fault.ClientGone, Message: "the client has left", Err: ctx.Err()}
}
