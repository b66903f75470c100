package sim

import (
	"slices"
	"time"

	"plimsoll/engine"
)

// sequence is one request in the engine.
type sequence struct {
	request  Submit
	space    namespace
	sampler  sampler
	ids      []uint32 // prompt and output
	hashes   []uint64 // of the full blocks of ids
	blocks   []int32  // held, in order
	stored   int      // leading blocks that are cached under their hash
	computed int      // tokens whose KV is in the blocks

	scheduled   int // tokens of the running pass; 0 if it is not in it
	cached      int // tokens hit at the first admission
	admitted    bool
	aborting    bool
	preemptions int
}

func newSequence(source TokenSource, r Submit) *sequence {
	s := &sequence{
		request: r,
		space:   namespace{lora: r.LoRA, salt: r.Salt},
		ids:     slices.Clip(r.PromptTokens),
	}
	if r.Answer == nil {
		s.sampler = newSampler(source, &r)
	} else {
		s.sampler.source = source
	}
	return s
}

// grow hashes the blocks that have become full.
func (s *sequence) grow(p *pool) {
	for at := len(s.hashes); (at+1)*p.blockTokens <= len(s.ids); at++ {
		var parent *uint64
		if at > 0 {
			parent = &s.hashes[at-1]
		}
		s.hashes = append(s.hashes, p.chain(parent, s.ids[at*p.blockTokens:(at+1)*p.blockTokens], s.space))
	}
}

// startPass makes up the next batch and starts it, if there is one.
func (m *Machine) startPass(now time.Duration) {
	var b batch
	m.continueRunning(&b)
	m.admit(&b)
	if b.tokens == 0 {
		return
	}
	m.step++
	m.stepping = true
	d := m.cfg.Timing.duration(b) + m.firsts()
	m.effect(StartStep{Step: m.step, Duration: d, Due: now + d})
}

// continueRunning gives every running sequence its tokens and blocks, preempting the last admitted for the first. Who
// was preempted is not admitted again in the same pass: it needs at least what it gave, and of that some is taken.
func (m *Machine) continueRunning(b *batch) {
	for i := 0; i < len(m.running) && b.tokens < m.cfg.BatchTokens; i++ {
		s := m.running[i]
		n := min(len(s.ids)-s.computed, m.cfg.BatchTokens-b.tokens)
		for !m.fits(s, n) && i < len(m.running) {
			m.preempt()
		}
		if i == len(m.running) { // it was the last one itself
			return
		}
		m.schedule(s, n, b)
	}
}

// admit takes waiting sequences into the batch, in order, until one does not fit.
func (m *Machine) admit(b *batch) {
	for len(m.waiting) > 0 && len(m.running) < m.cfg.Seats && b.tokens < m.cfg.BatchTokens {
		s := m.waiting[0]
		hits, loads := m.cached(s)
		// The hits that nobody holds leave the free queue too.
		if m.blocksFor(len(s.ids))-len(hits)+m.pool.idle(hits) > m.pool.free {
			return
		}
		m.waiting[0] = nil
		m.waiting = m.waiting[1:]
		m.running = append(m.running, s)
		s.blocks = m.pool.hold(hits, s.blocks)
		if loads > 0 {
			m.pool.load(s, loads)
			b.loaded += loads * m.cfg.BlockTokens
		}
		s.stored = len(hits) + loads
		s.computed = s.stored * m.cfg.BlockTokens
		if !s.admitted {
			s.admitted, s.cached = true, s.computed
		}
		m.schedule(s, min(len(s.ids)-s.computed, m.cfg.BatchTokens-b.tokens), b)
	}
}

// cached looks up which leading blocks of a sequence the device has, and how many after these the host has.
func (m *Machine) cached(s *sequence) (hits []uint64, loads int) {
	if s.request.SkipCacheRead {
		return nil, 0
	}
	most := (len(s.ids) - 1) / m.cfg.BlockTokens
	hits = s.hashes[:m.pool.hits(s.hashes[:most])]
	return hits, m.pool.host.hits(s.hashes[len(hits):most])
}

func (m *Machine) fits(s *sequence, n int) bool {
	return m.blocksFor(s.computed+n)-len(s.blocks) <= m.pool.free
}

// schedule lets the coming pass compute n more tokens of s, for which there are blocks.
func (m *Machine) schedule(s *sequence, n int, b *batch) {
	end := s.computed + n
	if missing := m.blocksFor(end) - len(s.blocks); missing > 0 {
		s.blocks = m.pool.take(missing, s.blocks)
	}
	if full := end / m.cfg.BlockTokens; full > s.stored {
		m.pool.store(s, s.stored, full)
		s.stored = full
	}
	s.scheduled = n
	b.add(s.computed, n)
}

// preempt takes the last admitted sequence out of the batch. It goes to the head of the queue and starts over.
func (m *Machine) preempt() {
	last := len(m.running) - 1
	s := m.running[last]
	m.running[last] = nil
	m.running = m.running[:last]
	m.free(s)
	s.preemptions++
	m.preemptions++
	m.effect(Preempted{ID: s.request.ID})
	m.waiting = slices.Insert(m.waiting, 0, s)
}

// finishPass hands out what the pass has computed.
func (m *Machine) finishPass() {
	m.stepping = false
	m.flush()
	tokens := make([]engine.Token, 0, len(m.running))
	kept := m.running[:0]
	for _, s := range m.running {
		s.computed += s.scheduled
		computedNow := s.scheduled > 0
		s.scheduled = 0
		switch {
		case s.aborting:
			m.leave(s)
			m.effect(Aborted{ID: s.request.ID})
		case computedNow && s.computed == len(s.ids):
			tokens = append(tokens, engine.Token{})
			if m.emit(s, tokens[len(tokens)-1:len(tokens):len(tokens)]) {
				m.leave(s)
				continue
			}
			kept = append(kept, s)
		default:
			kept = append(kept, s)
		}
	}
	clear(m.running[len(kept):])
	m.running = kept
}

// emit samples the next token of a sequence whose context is computed and reports whether it was the last.
func (m *Machine) emit(s *sequence, token []engine.Token) (done bool) {
	d := s.next()
	token[0].ID = d.id
	if s.request.TopLogprobs != nil {
		token[0].Logprob = s.sampler.logprob(s.ids, d, *s.request.TopLogprobs)
	}
	event := engine.Event{Tokens: token}
	if s.sampler.outputs == 0 {
		cached := s.cached
		event.CachedTokens = &cached
	}
	s.sampler.push(d.id)
	s.ids = append(s.ids, d.id)
	s.grow(m.pool)
	switch {
	case d.stop:
		event.Finish = &engine.Finish{Reason: engine.FinishStop}
	case s.sampler.outputs >= s.request.MaxTokens:
		event.Finish = &engine.Finish{Reason: engine.FinishLength}
	}
	m.effect(Emit{ID: s.request.ID, Event: event})
	return event.Finish != nil
}

// next is what the sequence puts out next.
func (s *sequence) next() draw {
	answer := s.request.Answer
	if answer == nil {
		return s.sampler.next(s.ids)
	}
	at := s.sampler.outputs
	return draw{id: answer[at], stop: at == len(answer)-1, digest: finish(uint64(at))} //nolint:gosec // an index
}

// forget takes a request out of whatever queue it is in.
func (m *Machine) forget(s *sequence) {
	same := func(o *sequence) bool { return o == s }
	m.running = slices.DeleteFunc(m.running, same)
	m.waiting = slices.DeleteFunc(m.waiting, same)
	m.leave(s)
}

func (m *Machine) leave(s *sequence) {
	m.free(s)
	delete(m.byID, s.request.ID)
}

func (m *Machine) free(s *sequence) {
	m.pool.release(s.blocks)
	s.blocks = s.blocks[:0]
	s.stored, s.computed, s.scheduled = 0, 0, 0
}

func (m *Machine) blocksFor(tokens int) int {
	return (tokens + m.cfg.BlockTokens - 1) / m.cfg.BlockTokens
}

// known is what a life of the engine has done.
type known struct {
	logprobs bool
	adapters map[string]bool
	longest  int // part of a prompt in a pass
}

// firsts is how long the engine stands still in the pass that begins for what it does for the first time.
func (m *Machine) firsts() (pause time.Duration) {
	if m.cfg.Firsts == (Firsts{}) {
		return 0
	}
	k := &m.known
	for _, s := range m.running {
		if s.scheduled == 0 {
			continue
		}
		if s.request.TopLogprobs != nil && !k.logprobs {
			k.logprobs = true
			pause += m.cfg.Firsts.Logprobs
		}
		if lora := s.request.LoRA; lora != "" && !k.adapters[lora] {
			k.adapters[lora] = true
			pause += m.cfg.Firsts.LoRA
		}
		if s.scheduled > 1 && s.scheduled >= 2*k.longest {
			k.longest = s.scheduled
			pause += m.cfg.Firsts.Length
		}
	}
	return pause
}
