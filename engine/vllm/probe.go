package vllm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

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
	header, body, err := e.client.Get(ctx, pathModels)
	if err != nil {
		return engine.Status{}, err
	}
	var listed models
	if err := e.client.ReadJSON(pathModels, header, body, &listed); err != nil {
		return engine.Status{}, err
	}
	c, err := e.scrape(ctx)
	if err != nil {
		if c, err = e.blind(err); err != nil {
			return engine.Status{}, err
		}
	}
	if err := e.recognize(listed, c); err != nil {
		return engine.Status{}, err
	}
	st, err := listed.status(e.cfg.Model)
	if err != nil {
		return engine.Status{}, err
	}
	if c.asleep {
		return engine.Status{}, &engine.Failure{Kind: engine.Shed, FromEngine: true, Err: errors.New("the engine sleeps")}
	}
	if st.Incarnation, st.Version, err = e.identify(ctx, c); err != nil {
		return engine.Status{}, err
	}
	st.Load, st.Ranks, st.Process = c.load, c.ranks, c.process(e.client.Peer())
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

const (
	pathModels  = "v1/models"
	pathMetrics = "metrics"
)

// models is what we read of GET /v1/models. Adapters have a parent and no max_model_len.
type models struct {
	Data []struct {
		ID          string  `json:"id"`
		OwnedBy     string  `json:"owned_by"`
		Parent      *string `json:"parent"`
		MaxModelLen *int    `json:"max_model_len"`
	} `json:"data"`
}

// recognize says of a server that is none of vLLM's what it is taken for one by. Each of two things shows that it is one: the
// owner of its models, and a metric of vLLM's. A server without metrics that names no owner is believed.
func (e *Engine) recognize(m models, c scrape) error {
	owner := ""
	for _, entry := range m.Data {
		owner = entry.OwnedBy
		if owner == Kind {
			return nil
		}
	}
	switch {
	case c.own || owner == "" && c.none:
		return nil
	case c.none:
		return e.client.WrongKind(pathMetrics, http.StatusNotFound, "")
	case owner == "":
		return nil // its log statistics may be off
	}
	return e.client.WrongKind(pathModels, http.StatusOK, fmt.Sprintf("and models that are owned by %.64q", owner))
}

// status is what the list says of the model and the adapters. name is the model's, "" for the first that is no adapter.
func (m models) status(name string) (engine.Status, error) {
	var st engine.Status
	found := false
	for _, entry := range m.Data {
		if entry.Parent != nil {
			st.Adapters = append(st.Adapters, entry.ID)
		} else {
			st.Names = append(st.Names, entry.ID)
		}
		if entry.MaxModelLen != nil && *entry.MaxModelLen > 0 && st.LengthTokens == nil {
			st.LengthTokens = entry.MaxModelLen
		}
		if !found && (entry.ID == name || name == "" && entry.Parent == nil) {
			st.Model, found = entry.ID, true
		}
	}
	if !found {
		err := errors.New("the engine lists no model")
		if name != "" {
			err = fmt.Errorf("the engine does not serve the model %q but %s", name, quoted(st.Names))
		}
		return engine.Status{}, &engine.Failure{Kind: engine.Operator, Err: err}
	}
	if !slices.Contains(st.Names, st.Model) {
		st.Names = append(st.Names, st.Model) // an adapter that the operator wants as the model
	}
	st.SequenceTokens = st.LengthTokens
	slices.Sort(st.Adapters)
	return st, nil
}

// quoted lists names for an error; a few of them are enough.
func quoted(names []string) string {
	const most = 4
	words := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		words = append(words, fmt.Sprintf("%.128q", name))
	}
	switch {
	case len(words) == 0:
		return "none"
	case len(names) > most:
		words = append(words, "...")
	}
	return strings.Join(words, ", ")
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
