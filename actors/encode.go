package actors

import (
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/stream"
	"plimsoll/actors/tokenize"
	"plimsoll/tokenizer/chat"
)

// spawnTokenizer spawns a model's pool of tokenizer workers, a sibling of its router.
func (s *System) spawnTokenizer(c actor.Context, i int, m *model) {
	m.tokenizer.Attach(c.SpawnPrefix(tokenize.Props(m.tokenizing(), tokenize.Deps{
		Handle: m.tokenizer, Gate: s.gate, Prompts: m.prompts, Texts: m.Tokenizer, Limits: m.limits,
		Router: func(message any) { s.tellRouter(m, message) }, Log: s.deps.Log, Meter: m.meters.tokenizer, Failed: s.failed,
		Restarted:  func(name string) { s.live.TellModel(name, stream.TokenizerRestarted{}) },
		Middleware: s.deps.Middleware, Supervise: s.cfg.Supervise, Seed: s.deps.Seed,
	}), "tokenizer-"+strconv.Itoa(i)))
}

// tokenizing is how a model's pool works.
func (m Model) tokenizing() tokenize.Config {
	cfg := tokenize.DefaultConfig(m.Router.Model)
	cfg.TenantWeights = m.Router.TenantWeights
	return cfg
}

// tellModel sends what a call says: what may still have to be tokenized, and what is taken back or asked of it, goes to the model's tokenizer,
// which passes on to the router what is not for it; all else goes to the router.
func (s *System) tellModel(m *model, message any) {
	switch e := message.(type) {
	case *stream.Submit:
		if e.Prompts == nil {
			m.tokenizer.Tell(e)
			return
		}
	case stream.Withdraw, stream.Inquire:
		m.tokenizer.Tell(e)
		return
	}
	s.tellRouter(m, message)
}

// prompts makes an input's prompts, rendered and not encoded. Workers call it.
func (m *model) prompts(in stream.Input) ([]stream.Prompt, error) {
	if in.Chat != nil {
		return m.renderChat(in)
	}
	prompts := make([]stream.Prompt, max(len(in.Texts), len(in.Tokens)))
	for i, text := range in.Texts {
		prompts[i].Text = text
	}
	for i, ids := range in.Tokens {
		prompts[i].IDs = ids
	}
	return prompts, nil
}

// renderChat renders a chat, or leaves that to the engine.
func (m *model) renderChat(in stream.Input) ([]stream.Prompt, error) {
	if m.Render == RenderEngine {
		return m.renderedByEngine(in)
	}
	text, err := m.Tokenizer.Render(*in.Chat)
	if err == nil {
		return []stream.Prompt{{Text: text}}, nil
	}
	if why, ok := chat.CannotRender(err); ok && in.ChatBody != nil && m.rendersChats() {
		return m.passOn(in, why, err), nil
	}
	return nil, tokenize.Fault(err, "messages")
}

// limits are how long the model's prompts may be.
func (m *model) limits() tokenize.Limits {
	var l tokenize.Limits
	if most := m.Router.PromptTokensMax; most != nil {
		n := int(*most)
		l.PromptTokens = &n
	}
	longest := 0
	for _, ref := range m.fleet.Refs() {
		snap := ref.Snapshot()
		if !snap.Told {
			return l // it has the benefit of the doubt
		}
		longest = max(longest, int(snap.Load.Limits.SequenceTokens))
	}
	if longest > 0 {
		l.SequenceTokens = &longest
	}
	return l
}
