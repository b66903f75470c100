package fakeengine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine"
)

// defaultMaxTokens is max_tokens of /v1/completions where the request has none.
const defaultMaxTokens = 16

// ask is what a request wants of the engine, whatever its route.
type ask struct {
	id      string // the base of the answer's
	model   string // the name to answer under: the served one or an adapter
	lora    string // "" for the base model
	prompts [][]uint32

	n         int
	maxTokens *int // nil: up to the context's end
	minTokens int
	sampling  engine.Sampling
	logprobs  *int // alternatives; nil: none wanted
	salt      string

	stops       []string
	includeStop bool // the stop string, or token, stays in the text
	ends        []uint32
	ignoreEOS   bool
	skipSpecial bool
	silent      bool // no text is made

	stream      bool
	usage       bool // a usage frame at the end of a stream
	continuous  bool // usage in every frame
	returnIDs   bool
	tokensAsIDs bool // logprobs spell a token as token_id:N
	echo        bool // the prompt's text stands before the answer's
}

// sampled reads what the engine's sampler takes; p is the body, or the sampling_params of generate.
func (s *Server) sampled(p *params, a *ask) {
	a.n = orElse(p.number("n"), 1)
	a.minTokens = orElse(p.number("min_tokens"), 0)
	a.sampling = engine.Sampling{
		Temperature: p.float("temperature"), TopP: p.float("top_p"), TopK: p.number("top_k"), MinP: p.float("min_p"),
		PresencePenalty: p.float("presence_penalty"), FrequencyPenalty: p.float("frequency_penalty"),
		RepetitionPenalty: p.float("repetition_penalty"), LogitBias: p.bias("logit_bias"),
	}
	if seed, err := p.o.Int("seed"); p.noted(err) {
		a.sampling.Seed = seed
	}
	a.stops, a.includeStop = p.strings("stop"), p.flag("include_stop_str_in_output", false)
	a.ignoreEOS = p.flag("ignore_eos", false)
	a.ends = p.ids("stop_token_ids")
	a.skipSpecial = p.flag("skip_special_tokens", true)
	for _, name := range []string{"structured_outputs", "prompt_logprobs", "allowed_token_ids", "bad_words", "logprob_token_ids"} {
		if p.has(name) {
			p.complain(unsupported(name, strings.ReplaceAll(name, "_", " ")))
		}
	}
	if !a.ignoreEOS {
		for _, id := range s.deps.Model.Ends() {
			if id != s.deps.Source.EOS() && !slices.Contains(a.ends, id) {
				a.ends = append(a.ends, id)
			}
		}
	}
	p.ranges(a, s.cfg.Engine.Sim.TopLogprobsMax)
}

// ranges checks values, as vLLM's SamplingParams does.
func (p *params) ranges(a *ask, topMax int) {
	if p.fault != nil {
		return
	}
	sp := a.sampling
	switch {
	case a.n < 1:
		p.complain(valueFault("", "n must be at least 1, got %d.", a.n))
	case sp.Temperature != nil && *sp.Temperature < 0:
		v := pythonFloat(*sp.Temperature)
		p.complain(rangeFault("temperature", v, "temperature must be non-negative, got %s.", v))
	case sp.TopP != nil && (*sp.TopP <= 0 || *sp.TopP > 1):
		v := pythonFloat(*sp.TopP)
		p.complain(rangeFault("top_p", v, "top_p must be in (0, 1], got %s.", v))
	case a.maxTokens != nil && *a.maxTokens < 1:
		p.complain(maxTokensFault(*a.maxTokens))
	case a.minTokens < 0:
		p.complain(valueFault("", "min_tokens must be greater than or equal to 0, got %d.", a.minTokens))
	case a.maxTokens != nil && a.minTokens > *a.maxTokens:
		p.complain(valueFault("", "min_tokens must be less than or equal to max_tokens=%d, got %d.", *a.maxTokens, a.minTokens))
	case slices.Contains(a.stops, ""):
		p.complain(valueFault("", "stop cannot contain an empty string."))
	case a.silent && len(a.stops) > 0:
		p.complain(valueFault("", "stop strings are only supported when detokenize is True. Set detokenize=True to use stop."))
	case a.logprobs != nil && *a.logprobs > topMax:
		p.complain(rangeFault("logprobs", *a.logprobs,
			"Requested sample logprobs of %d, which is greater than max allowed: %d", *a.logprobs, topMax))
	case a.n > 1 && sp.Temperature != nil && *sp.Temperature < greedyBelow:
		p.complain(valueFault("", "n must be 1 when using greedy sampling, got %d.", a.n))
	}
}

// greedyBelow: lower temperatures are greedy.
const greedyBelow = 1e-5

func maxTokensFault(n int) *fault {
	return rangeFault("max_tokens", n, "max_tokens must be at least 1, got %d.", n)
}

// pythonFloat writes a number as Python does: with a point.
func pythonFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// bias reads an object of token IDs and numbers.
func (p *params) bias(name string) map[uint32]float64 {
	list := p.object(name)
	if list == nil {
		return nil
	}
	bias := make(map[uint32]float64, len(list.o))
	for _, key := range slices.Sorted(maps.Keys(list.o)) {
		id, err := strconv.ParseUint(key, 10, 32)
		if err != nil {
			p.complain(valueFault("logit_bias", "Invalid key in `logit_bias`: %q is no token id", key))
			return nil
		}
		if v := list.float(key); v != nil {
			bias[uint32(id)] = *v
		}
	}
	p.complainFor(list)
	return bias
}

// complainFor takes over the fault of an object inside.
func (p *params) complainFor(inside *params) {
	if inside.fault != nil {
		p.complain(inside.fault)
	}
}

// streaming reads how the answer is to be sent.
func (p *params) streaming(a *ask) {
	a.stream = p.flag("stream", false)
	options := p.object("stream_options")
	if options == nil {
		return
	}
	if !a.stream {
		p.complain(valueFault("stream_options", "Stream options can only be defined when `stream=True`. (parameter=stream_options)"))
		return
	}
	a.usage = options.flag("include_usage", false)
	a.continuous = a.usage && options.flag("continuous_usage_stats", false)
	p.complainFor(options)
}

// isolation reads the cache salt.
func (p *params) isolation(a *ask) {
	if salt := p.text("cache_salt"); salt != nil {
		if a.salt = *salt; a.salt == "" {
			p.complain(valueFault("cache_salt", "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)"))
		}
	}
}

// named reads the model's name: the served one, an adapter's, or none.
func (s *Server) named(p *params, a *ask) {
	sim := s.cfg.Engine.Sim
	a.model = sim.Model
	name := p.text("model")
	switch {
	case name == nil || *name == sim.Model:
	case slices.Contains(sim.Adapters, *name):
		a.model, a.lora = *name, *name
	default:
		p.complain(unknownModel(*name, sim.Model))
	}
}

// fits refuses prompts that leave no room for an answer, as the API server does before it asks the engine.
func (s *Server) fits(p *params, a *ask) {
	limit := s.cfg.Engine.Sim.SequenceTokens()
	for _, ids := range a.prompts {
		switch {
		case len(ids) > limit:
			p.complain(valueFault("input_tokens", "This model's maximum context length is %d tokens. However, your prompt contains "+
				"%d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input "+
				"prompt. (parameter=input_tokens, value=%d)", limit, len(ids), len(ids)))
		case len(ids) == limit:
			p.complain(maxTokensFault(0))
		}
	}
	if legs := len(a.prompts) * a.n; legs > s.cfg.LegsMax {
		p.complain(valueFault("n", "the request asks for %d answers, at most %d are given", legs, s.cfg.LegsMax))
	}
}

// request is what the engine is asked for one choice; number tells the legs of all requests apart.
func (a *ask) request(ids []uint32, draw int, number uint64) engine.Request {
	req := engine.Request{
		ID: fmt.Sprintf("%s-%d", a.id, number), PromptTokens: ids, MinTokens: a.minTokens,
		Sampling: a.sampling, EndTokens: a.ends, IgnoreEOS: a.ignoreEOS, TopLogprobs: a.logprobs,
		CacheSalt: a.salt, LoRA: a.lora,
		MaxTokens: orElse(a.maxTokens, 1<<30),
	}
	if a.sampling.Seed != nil {
		seed := *a.sampling.Seed + int64(draw)
		req.Sampling.Seed = &seed
	}
	return req
}

func orElse[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
