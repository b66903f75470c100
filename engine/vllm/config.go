package vllm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll/engine/kvevents"
	"plimsoll/engine/wire"
)

// API is the route that requests with token IDs take.
type API string

const (
	APIAuto        API = "auto"        // generate where a probe finds it on, else completions
	APICompletions API = "completions" // /v1/completions: every server has it
	APIGenerate    API = "generate"    // /inference/v1/generate: off by default (--enable-scale-out), no detokenization
)

// APIs lists the values of API, the default first.
func APIs() []string {
	return []string{string(APICompletions), string(APIGenerate), string(APIAuto)}
}

// Config says where a vLLM server is and what it does not tell itself.
type Config struct {
	wire.Config

	// Model is the server's name of the model (--served-model-name, or an adapter's); "": the first that it lists.
	Model string
	API   API
	// Rank is the data-parallel rank; nil where the server has one. A server that turns out to have several is then used
	// at its lowest only, because the ledger of a rank must not count another's blocks; its status names the others.
	Rank *int
	// Slots is max_num_seqs, which the server tells nowhere. The default is vLLM's own where no hardware-specific one
	// applies; less than the truth leaves seats empty, more makes requests wait in the engine instead of here.
	Slots int
	// CapacityTokens is what the KV cache of this rank holds, where the server does not tell or tells too much.
	CapacityTokens *int
	BlockTokens    int // tokens a KV block, where the server does not tell

	Events EventsMode
	// Publisher is where the rank publishes its cache's events, with EventsSet; else nil.
	Publisher *kvevents.Config

	LingerBound time.Duration // how long an aborted request may still hold its KV: a step, which a long prefill chunk stretches
}

// DefaultConfig holds everything but the URL.
func DefaultConfig() Config {
	return Config{
		Config:      wire.DefaultConfig(),
		API:         APICompletions,
		Slots:       128,
		BlockTokens: 16,
		Events:      EventsAsk,
		LingerBound: 500 * time.Millisecond,
	}
}

// Validate says what is wrong, all of it, by field.
func (c Config) Validate() error {
	errs := []error{
		c.Config.Validate(),
		wire.PositiveDuration("LingerBound", c.LingerBound),
		wire.AtLeastOne("Slots", &c.Slots),
		wire.AtLeastOne("CapacityTokens", c.CapacityTokens),
		wire.AtLeastOne("BlockTokens", &c.BlockTokens),
	}
	if !slices.Contains(APIs(), string(c.API)) {
		errs = append(errs, fmt.Errorf("API is %q: want one of %s", c.API, strings.Join(APIs(), ", ")))
	}
	switch c.Events {
	case EventsAsk, EventsOff:
	case EventsSet:
		if c.Publisher == nil {
			errs = append(errs, fmt.Errorf("%s is missing", "Publisher"))
			break
		}
		errs = append(errs, c.Publisher.Validate())
	default:
		errs = append(errs, fmt.Errorf("%s is %q: want auto, set or off", "Events", c.Events))
	}
	if c.Rank != nil && *c.Rank < 0 {
		errs = append(errs, fmt.Errorf("%s is %d: want at least 0", "Rank", *c.Rank))
	}
	return errors.Join(errs...)
}
