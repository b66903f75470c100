package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// Probe implements [engine.Engine]. A core that hangs is not seen here: all that is asked is answered by another process.
func (e *Engine) Probe(ctx context.Context) (engine.Status, error) {
	call, done := e.client.Begin(ctx)
	defer done()
	call, cancel := context.WithTimeout(call, e.cfg.ProbeTimeout)
	defer cancel()
	st, err := e.probe(call)
	if err != nil {
		err = e.client.Verdict(ctx, err)
		e.lost(err)
		return engine.Status{}, err
	}
	return st, nil
}

func (e *Engine) probe(ctx context.Context) (engine.Status, error) {
	if _, _, err := e.client.Get(ctx, "health"); err != nil {
		return engine.Status{}, deadCore(err)
	}
	_, body, err := e.client.Get(ctx, "v1/models")
	if err != nil {
		return engine.Status{}, err
	}
	st, err := readModels(body, e.cfg.Model)
	if err != nil {
		return engine.Status{}, err
	}
	c, err := e.scrape(ctx)
	if err != nil {
		if c, err = e.blind(err); err != nil {
			return engine.Status{}, err
		}
	}
	if c.asleep {
		return engine.Status{}, &engine.Failure{Kind: engine.Shed, FromEngine: true, Err: errors.New("the engine sleeps")}
	}
	if st.Incarnation, st.Version, err = e.identify(ctx, c); err != nil {
		return engine.Status{}, err
	}
	st.Load = c.load
	e.limit(&st, c)
	return st, nil
}

// deadCore tells a server whose engine core has died from one that sheds: it will not come back.
func deadCore(err error) error {
	var f *engine.Failure
	if errors.As(err, &f) && f.Status == http.StatusServiceUnavailable {
		return wire.Broken("the engine core is dead: %w", err)
	}
	return err
}

// models is what we read of GET /v1/models. Adapters have a parent and no max_model_len.
type models struct {
	Data []struct {
		ID          string  `json:"id"`
		Parent      *string `json:"parent"`
		MaxModelLen *int    `json:"max_model_len"`
	} `json:"data"`
}

// readModels finds the model and the adapters. name is the model's, "" for the first that is no adapter.
func readModels(body []byte, name string) (engine.Status, error) {
	var m models
	if err := json.Unmarshal(body, &m); err != nil {
		return engine.Status{}, wire.Broken("models: %w", err)
	}
	var st engine.Status
	found := false
	for _, entry := range m.Data {
		if entry.Parent != nil {
			st.Adapters = append(st.Adapters, entry.ID)
		}
		if entry.MaxModelLen != nil && *entry.MaxModelLen > 0 && st.SequenceTokens == nil {
			st.SequenceTokens = entry.MaxModelLen
		}
		if !found && (entry.ID == name || name == "" && entry.Parent == nil) {
			st.Model, found = entry.ID, true
		}
	}
	if !found {
		err := errors.New("the engine lists no model")
		if name != "" {
			err = fmt.Errorf("the engine does not serve the model %q", name)
		}
		return engine.Status{}, &engine.Failure{Kind: engine.Operator, Err: err}
	}
	slices.Sort(st.Adapters)
	return st, nil
}

// limit says what the rank can hold: what the operator says, else the engine, else what every server holds.
func (e *Engine) limit(st *engine.Status, c scrape) {
	slots, blockTokens := e.cfg.Slots, e.cfg.BlockTokens
	st.Seats, st.BlockTokens = &slots, &blockTokens
	if c.blockTokens != nil {
		blockTokens = *c.blockTokens
	}
	blocks := 0
	switch {
	case e.cfg.CapacityTokens != nil:
		blocks = *e.cfg.CapacityTokens / blockTokens
	case c.blocks != nil:
		blocks = *c.blocks
	case st.SequenceTokens != nil:
		blocks = *st.SequenceTokens / blockTokens
	default:
		return
	}
	st.KVBlocks = &blocks
	longest := blocks * blockTokens
	if st.SequenceTokens != nil {
		longest = min(longest, *st.SequenceTokens)
	}
	st.SequenceTokens = &longest
}
