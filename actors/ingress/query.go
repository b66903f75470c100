package ingress

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/openai"
	"plimsoll/scoring/queue"
)

// Limits of single parameters.
const (
	nMax            = 128
	stopBytes       = 1024
	stopsBytes      = 16 << 10 // of all stop strings
	stopTokensMax   = 128
	logprobsMax     = 20
	biasesMax       = 1024
	biasMax         = 100.0
	penaltyMax      = 2.0
	temperatureMax  = 2.0
	repetitionMax   = 10.0
	cacheSaltBytes  = 1024
	sessionBytes    = 256
	modelBytes      = 1024
	effortBytes     = 32
	completionsMax  = 16 // max_tokens of /v1/completions where it is absent
	headerSession   = "X-Session-Id"
	headerResume    = "X-Plimsoll-Resume"
	paramStreamOpts = "stream_options"
)

// query is a checked request and how its answer is to be written.
type query struct {
	req   *stream.Request
	model Model
	// stream: server-sent events; usage: with a last chunk that tells the usage; usageSoFar: each chunk tells it so far.
	stream, usage, usageSoFar bool
}

// query reads what both kinds of request have in common, but for what is refused.
func (s *Server) query(x *exchange, p *params) *query {
	m := s.namedModel(x, p)
	if p.fault != nil {
		return nil
	}
	req := &stream.Request{
		ID: x.id, Model: m.Name, Arrival: x.start, Tenant: x.tenant,
		N:                 1,
		Sampling:          p.sampling(m),
		IncludeStop:       p.flag("include_stop_str_in_output", false),
		StopTokenIDs:      p.ids("stop_token_ids", stopTokensMax, m.Tokenizer.VocabSize()),
		IgnoreEOS:         p.flag("ignore_eos", false),
		SkipSpecialTokens: p.flag("skip_special_tokens", true),
		Stop:              p.stops(),
	}
	if n := p.whole("n", 1, nMax); n != nil {
		req.N = *n
	}
	if salt := p.text("cache_salt", cacheSaltBytes); salt != nil {
		if *salt == "" {
			p.complain("cache_salt", "must not be empty")
		}
		req.CacheSalt = *salt
	}
	q := &query{req: req, model: m, stream: p.flag("stream", false)}
	p.streamOptions(q)
	req.Session, req.Class = p.session(x), p.class()
	x.entry.class = req.Class.String()
	req.SLO = p.slo(x.r.Header, s.cfg.SLOs[req.Class])
	req.Resume, req.Whole = p.resume(x), !q.stream
	return q
}

// resume reads the header that says how an answer may go on whose engine fails.
func (p *params) resume(x *exchange) stream.Resume {
	v := x.r.Header.Get(headerResume)
	switch strings.ToLower(v) {
	case "exact":
		return stream.ResumeExact
	case "off":
		return stream.ResumeOff
	case "", "best":
	default:
		p.complain(headerResume, "must be exact, best or off, not %s", quoted(v))
	}
	return stream.ResumeBest
}

// class is how urgent the request is while others wait, by OpenAI's names.
func (p *params) class() queue.Class {
	const key = "service_tier"
	tier := p.text(key, sessionBytes)
	if tier == nil {
		return queue.Default
	}
	switch *tier {
	case "priority":
		return queue.Priority
	case "flex":
		return queue.Flex
	case "auto", "default", "scale":
	default:
		p.complain(key, "must be auto, default, priority or flex, not %s", quoted(*tier))
	}
	return queue.Default
}

// session returns whose turn the request is: the header's word, else the body's.
func (p *params) session(x *exchange) string {
	key := p.text("prompt_cache_key", sessionBytes)
	if h := x.r.Header.Get(headerSession); h != "" {
		if len(h) > sessionBytes {
			p.complain(headerSession, "must be at most %d bytes long", sessionBytes)
		}
		return h
	}
	if key != nil {
		return *key
	}
	return ""
}

func (p *params) streamOptions(q *query) {
	o := p.object(paramStreamOpts)
	if o == nil {
		return
	}
	if !q.stream {
		p.complain(paramStreamOpts, "goes with stream true only")
		return
	}
	inner := &params{o: o}
	q.usage = inner.flag("include_usage", false)
	inner.flag("include_obfuscation", false)
	q.usageSoFar = inner.flag("continuous_usage_stats", false)
	if f := inner.fault; f != nil {
		p.complain(paramStreamOpts+"."+f.Param, "%s", f.Message)
	}
}

func (p *params) sampling(m Model) engine.Sampling {
	penalty := interval{low: -penaltyMax, high: penaltyMax}
	s := engine.Sampling{
		Temperature:       p.float("temperature", interval{high: temperatureMax}),
		TopP:              p.float("top_p", interval{high: 1}),
		TopK:              p.whole("top_k", -1, math.MaxInt32),
		MinP:              p.float("min_p", interval{high: 1}),
		PresencePenalty:   p.float("presence_penalty", penalty),
		FrequencyPenalty:  p.float("frequency_penalty", penalty),
		RepetitionPenalty: p.float("repetition_penalty", interval{high: repetitionMax, open: true}),
		LogitBias:         p.biases(m),
	}
	if s.TopK != nil && *s.TopK < 0 {
		*s.TopK = 0 // both mean: all tokens
	}
	if s.TopP != nil && *s.TopP == 0 {
		// Nothing but the likeliest token is left to draw from: greedy, which engines take by another name.
		s.TopP, s.Temperature = nil, new(float64)
		p.edit("top_p", nil)
		p.edit("temperature", json.RawMessage("0"))
	}
	seed, err := p.o.Int("seed")
	if !p.noted(err) {
		return s
	}
	if s.Seed = seed; seed != nil && *seed == -1 {
		s.Seed = nil // llama.cpp's word for: draw one
		p.edit("seed", nil)
	}
	return s
}

// biases reads logit_bias: {"token ID": -100..100}.
func (p *params) biases(m Model) map[uint32]float64 {
	o := p.object("logit_bias")
	if len(o) == 0 {
		return nil
	}
	if !m.LogitBias {
		p.complain("logit_bias", "is not served by the engines of this model")
		return nil
	}
	if len(o) > biasesMax {
		p.complain("logit_bias", "must hold at most %d token IDs, not %d", biasesMax, len(o))
		return nil
	}
	biases := make(map[uint32]float64, len(o))
	for key := range o {
		id, err := strconv.ParseUint(key, 10, 32)
		if err != nil || id >= uint64(m.Tokenizer.VocabSize()) {
			p.complain("logit_bias", "holds %s, which is no token ID of the vocabulary", quoted(key))
			return nil
		}
		v, err := o.Float(key)
		if err != nil || v == nil || math.Abs(*v) > biasMax {
			p.complain("logit_bias", "must give token ID %d a number from -100 to 100", id)
			return nil
		}
		biases[uint32(id)] = *v
	}
	return biases
}

// stops reads stop: a string or a list of strings.
func (p *params) stops() []string {
	raw := p.raw("stop")
	if raw == nil || p.fault != nil {
		return nil
	}
	var stops []string
	var err error
	if raw[0] == '"' {
		stops = make([]string, 1)
		err = json.Unmarshal(raw, &stops[0])
	} else if stops, err = p.o.Strings("stop"); !p.noted(err) {
		return nil
	}
	if err != nil {
		p.complain("stop", "must be a string or a list of strings")
		return nil
	}
	all := 0
	for _, s := range stops {
		if s == "" || len(s) > stopBytes {
			p.complain("stop", "must hold strings of 1 to %d bytes", stopBytes)
			return nil
		}
		all += len(s)
	}
	if all > stopsBytes {
		p.complain("stop", "must hold at most %d bytes in all its strings, not %d", stopsBytes, all)
		return nil
	}
	return stops
}

// minTokens reads min_tokens, which goes with what the answer may have at most.
func (p *params) minTokens(q *query) {
	least := p.whole("min_tokens", 0, math.MaxInt32)
	if least == nil || *least == 0 {
		return
	}
	if !q.model.MinTokens {
		p.complain("min_tokens", "is not served by the engines of this model")
		return
	}
	if most := q.req.MaxTokens; most != nil && *least > *most {
		p.complain("min_tokens", "must be at most max_tokens, which is %d, not %d", *most, *least)
		return
	}
	q.req.MinTokens = *least
}

// logprobs notes how many alternatives are asked for; param is the parameter that asks for any at all.
func (p *params) logprobs(q *query, param string, alternatives *int) {
	if alternatives == nil {
		return
	}
	if !q.model.Logprobs {
		p.complain(param, "is not served by the engines of this model")
		return
	}
	q.req.TopLogprobs = alternatives
}

// legs checks how many answers the request has.
func (s *Server) legs(p *params, q *query) {
	if prompts := q.req.Input.Prompts(); p.fault == nil && prompts*q.req.N > s.cfg.LegsMax {
		p.complain("n", "times the number of prompts (%d) must be at most %d", prompts, s.cfg.LegsMax)
	}
}

// promptForms is what a prompt can be.
const promptForms = "must be a string, a list of strings, a list of token IDs or a list of such lists"

// prompt reads the prompt of /v1/completions in its four forms.
func (p *params) prompt(m Model) stream.Input {
	const name = "prompt"
	in := stream.Input{AddSpecial: p.flag("add_special_tokens", true)}
	raw := p.raw(name)
	switch {
	case p.fault != nil:
		return in
	case raw == nil:
		p.complain(name, "is required")
		return in
	case raw[0] == '"':
		text, err := p.o.String(name)
		if p.noted(err) {
			in.Texts = []string{*text}
		}
	case raw[0] != '[':
		p.complain(name, promptForms+", not %s", openai.Kind(raw))
	default:
		p.promptList(name, raw, &in)
	}
	for i, text := range in.Texts {
		if text == "" {
			p.complain(name, "must not be empty (text %d of %d)", i+1, len(in.Texts))
		}
	}
	for i, ids := range in.Tokens {
		if len(ids) == 0 {
			p.complain(name, "must not be empty (list %d of %d)", i+1, len(in.Tokens))
		}
		p.inVocabulary(name, ids, m.Tokenizer.VocabSize())
	}
	return in
}

// promptList tells the forms of a list by its first member.
func (p *params) promptList(name string, raw json.RawMessage, in *stream.Input) {
	switch openai.Kind(firstOf(raw)) {
	case "nothing":
		p.complain(name, "must not be empty")
	case "a string":
		texts, err := p.o.Strings(name)
		if p.noted(err) {
			in.Texts = texts
		}
	case "a number":
		ids, err := p.o.IDs(name)
		if p.noted(err) {
			in.Tokens = [][]uint32{ids}
		}
	case "a list":
		lists, err := p.o.List(name)
		for i, l := range lists {
			var ids []uint32
			if ids, err = openai.ParseIDs(name+"["+strconv.Itoa(i)+"]", l); err != nil {
				break
			}
			in.Tokens = append(in.Tokens, ids)
		}
		p.noted(err)
	default:
		p.complain(name, promptForms)
	}
}

// firstOf returns a list's text from its first member on, nil if it has none.
func firstOf(raw json.RawMessage) json.RawMessage {
	for i := 1; i < len(raw)-1; i++ {
		switch raw[i] {
		case ' ', '\t', '\n', '\r':
		default:
			return raw[i:]
		}
	}
	return nil
}

// checked reads a body and hands its parameters to read; what either complains of is answered.
func (s *Server) checked(x *exchange, read func(*params) *query) *query {
	if f := x.admit(); f != nil {
		x.fail(f)
		return nil
	}
	body, o, f := x.object()
	if f != nil {
		x.fail(f)
		return nil
	}
	p := &params{o: o, body: body}
	q := read(p)
	if p.fault != nil {
		x.fail(p.fault)
		return nil
	}
	return q
}
