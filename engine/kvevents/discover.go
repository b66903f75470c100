package kvevents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// sourcesPath is where vLLM tells its publishers, resolved: ports that the system chose included.
const sourcesPath = "/kv_event_sources"

// announced is one publisher in any of the shapes that releases use.
type announced struct {
	Enabled        *bool   `json:"enable_kv_cache_events"` // absent in lists: what is listed is on
	Publisher      *string `json:"publisher"`
	Rank           *int    `json:"data_parallel_rank"`
	Endpoint       *string `json:"endpoint"`
	ReplayEndpoint *string `json:"replay_endpoint"`
	Topic          *string `json:"topic"`
}

func (a announced) on() bool {
	return (a.Enabled == nil || *a.Enabled) && (a.Publisher == nil || *a.Publisher == "zmq") &&
		a.Endpoint != nil && *a.Endpoint != ""
}

// Discover asks an engine where the publisher of a rank is (GET /kv_event_sources), with get as the way to ask. host
// takes the place of a wildcard in what it answers. The result is the default configuration with the endpoints, or nil
// where events are off or the engine does not tell (an older release). The error is for answers that make no sense and
// for what get fails with.
func Discover(
	ctx context.Context, get func(ctx context.Context, path string) (status int, body []byte, err error), host string, rank int,
) (*Config, error) {
	status, body, err := get(ctx, sourcesPath)
	switch {
	case err != nil:
		return nil, fmt.Errorf("kvevents: ask for %s: %w", sourcesPath, err)
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented:
		return nil, nil //nolint:nilnil // no publisher is an answer like any other
	case status != http.StatusOK:
		return nil, fmt.Errorf("kvevents: %s answers with status %d", sourcesPath, status)
	}
	sources, err := parseSources(body)
	if err != nil {
		return nil, fmt.Errorf("kvevents: %s: %w", sourcesPath, err)
	}
	source, ok := sources[rank]
	if !ok || !source.on() {
		return nil, nil //nolint:nilnil // see above
	}
	cfg := DefaultConfig()
	if cfg.Endpoint, err = reachable(*source.Endpoint, host); err != nil {
		return nil, fmt.Errorf("kvevents: %s: %w", sourcesPath, err)
	}
	if source.ReplayEndpoint != nil && *source.ReplayEndpoint != "" {
		if cfg.ReplayEndpoint, err = reachable(*source.ReplayEndpoint, host); err != nil {
			return nil, fmt.Errorf("kvevents: %s: %w", sourcesPath, err)
		}
	}
	if source.Topic != nil {
		cfg.Topic = *source.Topic
	}
	return &cfg, nil
}

// parseSources reads the three known shapes: {"0": {..}}, {"sources": [{..}]} and [{..}]. A listed publisher without a
// rank has that of its place.
func parseSources(body []byte) (map[int]announced, error) {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '[' {
		return parseList(body)
	}
	var byKey map[string]json.RawMessage
	if err := json.Unmarshal(body, &byKey); err != nil {
		return nil, err
	}
	if list, ok := byKey["sources"]; ok {
		return parseList(list)
	}
	out := make(map[int]announced, len(byKey))
	for key, raw := range byKey {
		rank, err := strconv.Atoi(key)
		if err != nil {
			continue // what a later release may tell beside the ranks
		}
		var a announced
		if err := json.Unmarshal(raw, &a); err != nil {
			return nil, err
		}
		out[rank] = a
	}
	return out, nil
}

func parseList(raw json.RawMessage) (map[int]announced, error) {
	var list []announced
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	out := make(map[int]announced, len(list))
	for place, a := range list {
		rank := place
		if a.Rank != nil {
			rank = *a.Rank
		}
		out[rank] = a
	}
	return out, nil
}
