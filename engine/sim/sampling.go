package sim

import (
	"math"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"plimsoll/engine"
)

// TokenSource turns draws into text. Implementations are pure: same inputs, same answer.
type TokenSource interface {
	// Next returns the next ID given the context so far (prompt and output; of it only the tail matters) and a digest
	// of everything that determines the draw. It never returns a special token.
	Next(context []uint32, digest uint64) uint32
	// Ends reports whether the answer ends naturally here.
	Ends(context []uint32, digest uint64) bool
	EOS() uint32
	VocabSize() int
}

// HashSource draws uniformly from its vocabulary: every ID depends on the whole digest. It suits tests.
type HashSource struct {
	Vocab       int    // IDs 0..Vocab-1
	EOSID       uint32 // never drawn by Next
	EndPerMille int    // how often an answer ends at a token
}

var _ TokenSource = HashSource{}

// Next implements [TokenSource].
func (h HashSource) Next(_ []uint32, digest uint64) uint32 {
	id := uint32(digest % uint64(h.Vocab-1))
	if id >= h.EOSID {
		id++
	}
	return id
}

// Ends implements [TokenSource].
func (h HashSource) Ends(_ []uint32, digest uint64) bool { return digest%1000 < uint64(h.EndPerMille) }

// EOS implements [TokenSource].
func (h HashSource) EOS() uint32 { return h.EOSID }

// VocabSize implements [TokenSource].
func (h HashSource) VocabSize() int { return h.Vocab }

// Tags keep digests of different meaning apart.
const (
	tagContext uint64 = 0xc0_01 + iota
	tagOutput
	tagEnd
	tagRetry
	tagLogprob
	tagSampled
	tagSeed
	tagEntropy
	tagPenalty
	tagRepetition
	tagBias
	tagAdapter
)

const (
	greedyBelow   = 1e-5 // temperatures below this are greedy, as in vLLM
	biasBans      = -100 // this bias or less bans an ID
	biasForces    = 100  // this bias or more forces it
	drawAttempts  = 64   // draws that may hit a banned ID before the vocabulary is searched in order
	defaultTemper = 1.0
)

// sampler draws the IDs of one attempt. It knows the answer so far only by digests that grow by one ID at a time.
type sampler struct {
	source    TokenSource
	params    uint64 // digest of everything that is the same for all draws
	context   uint64 // digest of prompt and output
	output    uint64 // digest of what this attempt put out
	outputs   int
	sampled   bool // the draw number enters
	penalized bool // what was put out enters
	minTokens int
	ignoreEOS bool
	ends      []uint32
	bias      map[uint32]float64
	forced    *uint32
}

func newSampler(source TokenSource, r *Submit) sampler {
	s := sampler{
		source: source, context: tagContext, output: tagOutput,
		minTokens: r.MinTokens, ignoreEOS: r.IgnoreEOS, ends: r.EndTokens, bias: r.Sampling.LogitBias,
	}
	for _, id := range r.PromptTokens {
		s.context = fold(s.context, uint64(id))
	}
	p, digest := r.Sampling, uint64(0)
	if r.LoRA != "" {
		digest = fold(digest, tagAdapter^xxh3.HashString(r.LoRA))
	}
	if or(p.Temperature, defaultTemper) >= greedyBelow {
		s.sampled = true
		digest = fold(fold(digest, tagSampled), math.Float64bits(or(p.Temperature, defaultTemper)))
		digest = fold(digest, math.Float64bits(or(p.TopP, 1)))
		digest = fold(digest, math.Float64bits(or(p.MinP, 0)))
		digest = fold(digest, uint64(or(p.TopK, 0)))
		if p.Seed != nil {
			digest = fold(fold(digest, tagSeed), uint64(*p.Seed))
		} else {
			digest = fold(fold(digest, tagEntropy), r.Entropy)
		}
	}
	if v := or(p.RepetitionPenalty, 1); v != 1 {
		digest = fold(fold(digest, tagRepetition), math.Float64bits(v))
	}
	presence, frequency := or(p.PresencePenalty, 0), or(p.FrequencyPenalty, 0)
	if presence != 0 || frequency != 0 {
		s.penalized = true
		digest = fold(fold(digest, tagPenalty), math.Float64bits(presence))
		digest = fold(digest, math.Float64bits(frequency))
	}
	s.params = s.foldBias(digest)
	return s
}

// foldBias adds the logit bias to the digest, in the order of IDs, and finds the ID that it forces.
func (s *sampler) foldBias(digest uint64) uint64 {
	ids := make([]uint32, 0, len(s.bias))
	for id := range s.bias {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		b := s.bias[id]
		digest = fold(fold(fold(digest, tagBias), uint64(id)), math.Float64bits(b))
		if b >= biasForces && (s.forced == nil || b > s.bias[*s.forced]) {
			s.forced = &id
		}
	}
	return digest
}

// draw is one drawn ID.
type draw struct {
	id     uint32
	stop   bool // it ends the answer
	digest uint64
}

// next draws the ID that follows the context, whose digest the sampler holds. It changes nothing: push does.
func (s *sampler) next(context []uint32) draw {
	digest := fold(s.params, s.context)
	if s.sampled {
		digest = fold(digest, uint64(s.outputs))
	}
	if s.penalized {
		digest = fold(digest, s.output)
	}
	digest = finish(digest)
	id := s.pick(context, digest)
	stop := id == s.source.EOS() && !s.ignoreEOS || slices.Contains(s.ends, id)
	return draw{id: id, stop: stop, digest: digest}
}

func (s *sampler) pick(context []uint32, digest uint64) uint32 {
	eos := s.source.EOS()
	if s.forced != nil && !s.banned(*s.forced) {
		return *s.forced
	}
	if !s.ignoreEOS && !s.banned(eos) && s.source.Ends(context, finish(digest^tagEnd)) {
		return eos
	}
	id := s.source.Next(context, digest)
	for i := uint64(1); s.banned(id) && i < drawAttempts; i++ {
		id = s.source.Next(context, finish(digest^tagRetry^i<<32))
	}
	vocab := uint32(s.source.VocabSize())
	for tried := uint32(0); tried < vocab && (s.banned(id) || id == eos); tried++ {
		id = (id + 1) % vocab
	}
	return id
}

// banned: by bias, or because it would end the answer before MinTokens.
func (s *sampler) banned(id uint32) bool {
	if b, ok := s.bias[id]; ok && b <= biasBans {
		return true
	}
	return s.outputs < s.minTokens && (id == s.source.EOS() || slices.Contains(s.ends, id))
}

func (s *sampler) push(id uint32) {
	s.context = fold(s.context, uint64(id))
	s.output = fold(s.output, uint64(id))
	s.outputs++
}

// logprob invents the probabilities of a draw: the drawn ID is the likeliest, each rival has a part of what is left.
// Top has n entries (fewer if the vocabulary is smaller), the drawn ID first.
func (s *sampler) logprob(context []uint32, d draw, n int) *engine.Logprob {
	share := func(i uint64) float64 { // in (0.5, 0.9): each is likelier than all that come after it
		return 0.5 + 0.4*float64(finish(d.digest^tagLogprob^i<<32)>>11)/(1<<53)
	}
	left := 1.0
	p := left * share(0)
	out := &engine.Logprob{Logprob: math.Log(p), Top: make([]engine.RankedToken, 0, n)}
	id := d.id
	for i := uint64(1); len(out.Top) < min(n, s.source.VocabSize()); i++ {
		out.Top = append(out.Top, engine.RankedToken{ID: id, Logprob: math.Log(p)})
		left -= p
		p = left * share(i)
		id = s.rival(context, finish(d.digest^tagLogprob^i<<32), out.Top)
	}
	return out
}

// rival is an ID that is not ranked yet.
func (s *sampler) rival(context []uint32, digest uint64, ranked []engine.RankedToken) uint32 {
	id := s.source.Next(context, digest)
	for range ranked {
		if !slices.ContainsFunc(ranked, func(r engine.RankedToken) bool { return r.ID == id }) {
			break
		}
		id = (id + 1) % uint32(s.source.VocabSize())
	}
	return id
}

// Answer is the oracle: what an engine of this configuration answers to the request, whatever else it does. The
// request is one that the engine accepts.
func Answer(cfg Config, source TokenSource, r Submit) ([]uint32, engine.FinishReason) {
	s := newSampler(source, &r)
	context := slices.Clone(r.PromptTokens)
	most := min(r.MaxTokens, cfg.SequenceTokens()-len(context))
	for {
		d := s.next(context)
		s.push(d.id)
		context = append(context, d.id)
		if d.stop {
			return context[len(r.PromptTokens):], engine.FinishStop
		}
		if s.outputs >= most {
			return context[len(r.PromptTokens):], engine.FinishLength
		}
	}
}

// fold adds a value to a rolling digest; the order counts.
func fold(digest, value uint64) uint64 {
	return (bits.RotateLeft64(digest, 23) ^ value) * 0x9e3779b97f4a7c15
}

// finish spreads every bit of a digest over all bits (the finalizer of SplitMix64).
func finish(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
