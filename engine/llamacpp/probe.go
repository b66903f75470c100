package llamacpp

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"plimsoll/engine"
)

// props is what we read of GET /props.
type props struct {
	Settings struct {
		NCtx *int `json:"n_ctx"` // of one slot, or of the pool that all share
	} `json:"default_generation_settings"`
	TotalSlots  *int   `json:"total_slots"`
	ModelAlias  string `json:"model_alias"`
	ModelPath   string `json:"model_path"`
	MediaMarker string `json:"media_marker"`
	BuildInfo   string `json:"build_info"`
}

// Probe implements [engine.Engine]. None of what it asks for wakes a sleeping server. A server whose metrics are off or cannot
// be read, or whose main loop is busy with a long batch, answers without a load.
func (e *Engine) Probe(ctx context.Context) (engine.Status, error) {
	call, done := e.client.Begin(ctx)
	defer done()
	call, cancel := context.WithTimeout(call, e.cfg.ProbeTimeout)
	defer cancel()
	st, err := e.probe(call)
	if err != nil {
		return engine.Status{}, e.client.Verdict(ctx, err)
	}
	return st, nil
}

func (e *Engine) probe(ctx context.Context) (engine.Status, error) {
	if _, _, err := e.client.Get(ctx, "health"); err != nil {
		return engine.Status{}, err
	}
	header, body, err := e.client.Get(ctx, pathProps)
	if err != nil {
		return engine.Status{}, err
	}
	var p props
	if err := e.client.ReadJSON(pathProps, header, body, &p); err != nil {
		return engine.Status{}, err
	}
	m, err := e.metrics(ctx)
	if err != nil {
		return engine.Status{}, err
	}
	st := e.status(p)
	st.Load = m.load
	if st.Incarnation == "" && m.startTime != "" {
		st.Incarnation = "start:" + m.startTime
	}
	if err := e.describe(ctx, &st); err != nil {
		return engine.Status{}, err
	}
	st.Process = processOf(st.Incarnation, e.client.Peer())
	return st, nil
}

// processOf names the process among all servers. A marker is drawn by lot; a start time is one since the start of the machine,
// which two may have, so that the place counts with it.
func processOf(incarnation, peer string) string {
	switch {
	case !strings.HasPrefix(incarnation, "start:"):
		return incarnation
	case peer == "":
		return ""
	}
	return incarnation + "@" + peer
}

// constantMarker is the media marker of servers that do not draw one at each start.
const constantMarker = "<__media__>"

// status is what the properties and the operator say together.
func (e *Engine) status(p props) engine.Status {
	st := engine.Status{Model: p.ModelAlias, Version: p.BuildInfo, Seats: p.TotalSlots, SequenceTokens: p.Settings.NCtx}
	if st.Model == "" {
		st.Model = p.ModelPath[strings.LastIndexAny(p.ModelPath, `/\`)+1:]
	}
	// The marker is in every answer, the start time only where metrics are on and quick; so it goes first, and alone.
	if p.MediaMarker != "" && p.MediaMarker != constantMarker {
		st.Incarnation = "marker:" + p.MediaMarker
	}
	if e.cfg.Slots != nil {
		st.Seats = e.cfg.Slots
	}
	capacity := p.Settings.NCtx
	if e.cfg.CapacityTokens != nil {
		capacity = e.cfg.CapacityTokens
	}
	if capacity != nil {
		blocks, blockTokens := *capacity/e.cfg.BlockTokens, e.cfg.BlockTokens
		st.KVBlocks, st.BlockTokens = &blocks, &blockTokens
		longest := *capacity
		if st.SequenceTokens != nil {
			longest = min(longest, *st.SequenceTokens)
		}
		st.SequenceTokens = &longest
	}
	return st
}

// isOff tells a route that the server was started without.
func isOff(err error) bool {
	var f *engine.Failure
	return errors.As(err, &f) && (f.Status == http.StatusNotImplemented || f.Status == http.StatusNotFound)
}
