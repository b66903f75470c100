package fakeengine

import (
	"fmt"
	"unicode/utf8"

	"plimsoll/engine"
	"plimsoll/engine/openai"
)

// usage is the usage of a whole answer. The details of a stream's last frame have fewer members.
type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	TotalTokens      int `json:"total_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

type wholeUsage struct {
	usage
	PromptTokensDetails struct {
		CachedTokens       int  `json:"cached_tokens"`
		CreatedCacheTokens *int `json:"created_cache_tokens"`
		MultimodalTokens   *int `json:"multimodal_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails *struct{} `json:"completion_tokens_details"`
}

type streamUsage struct {
	usage
	PromptTokensDetails struct {
		CachedTokens       int  `json:"cached_tokens"`
		CreatedCacheTokens *int `json:"created_cache_tokens,omitempty"`
	} `json:"prompt_tokens_details"`
}

// count sums up the choices: a prompt counts once, whatever n is.
func count(a *ask, choices []*choice) (u usage, cached int) {
	for i, c := range choices {
		u.CompletionTokens += len(c.ids)
		if i%a.n == 0 {
			u.PromptTokens += len(c.prompt)
			cached += orElse(c.cached, 0)
		}
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u, cached
}

// speller names tokens in logprobs.
type speller struct {
	server *Server
	asIDs  bool
}

func (s speller) word(id uint32) string {
	if s.asIDs {
		return fmt.Sprintf("token_id:%d", id)
	}
	return s.text(id)
}

func (s speller) text(id uint32) string {
	text, err := s.server.deps.Model.Decode([]uint32{id}, false)
	if err != nil {
		return ""
	}
	return text
}

// columns are the logprobs of a text completion; from is where the first token stands in the names of all of them, in
// characters, and comes back as where the next one does.
func (s speller) columns(tokens []engine.Token, from *int) *openai.CompletionLogprobs {
	out := &openai.CompletionLogprobs{}
	for _, t := range tokens {
		word := s.word(t.ID)
		top := map[string]float64{word: t.Logprob.Logprob}
		for _, r := range t.Logprob.Top {
			top[s.word(r.ID)] = r.Logprob
		}
		out.TextOffset = append(out.TextOffset, *from)
		out.TokenLogprobs = append(out.TokenLogprobs, t.Logprob.Logprob)
		out.Tokens = append(out.Tokens, word)
		out.TopLogprobs = append(out.TopLogprobs, top)
		*from += utf8.RuneCountInString(word)
	}
	return out
}

// chatLogprobs are the logprobs of a chat.
type chatLogprobs struct {
	Content []openai.TokenLogprob `json:"content"`
}

func (s speller) content(tokens []engine.Token) *chatLogprobs {
	ranked := func(id uint32, logprob float64) openai.RankedLogprob {
		word := s.word(id)
		return openai.RankedLogprob{Token: word, Logprob: logprob, Bytes: []byte(word)}
	}
	out := &chatLogprobs{Content: make([]openai.TokenLogprob, 0, len(tokens))}
	for _, t := range tokens {
		entry := openai.TokenLogprob{RankedLogprob: ranked(t.ID, t.Logprob.Logprob), TopLogprobs: []openai.RankedLogprob{}}
		entry.Bytes = []byte(s.text(t.ID)) // its text, whatever it is called
		for _, r := range t.Logprob.Top {
			entry.TopLogprobs = append(entry.TopLogprobs, ranked(r.ID, r.Logprob))
		}
		out.Content = append(out.Content, entry)
	}
	return out
}

// idLogprobs are the logprobs of generate in tokens mode.
type idLogprobs struct {
	Content []idLogprob `json:"content"`
}

type idLogprob struct {
	rankedID
	TopLogprobs []rankedID `json:"top_logprobs"`
}

type rankedID struct {
	TokenID uint32  `json:"token_id"`
	Logprob float64 `json:"logprob"`
	Rank    int     `json:"rank"`
}

func byID(tokens []engine.Token) *idLogprobs {
	out := &idLogprobs{Content: make([]idLogprob, 0, len(tokens))}
	for _, t := range tokens {
		// The simulated engine draws the likeliest token.
		entry := idLogprob{rankedID: rankedID{t.ID, t.Logprob.Logprob, 1}, TopLogprobs: []rankedID{}}
		for i, r := range t.Logprob.Top {
			entry.TopLogprobs = append(entry.TopLogprobs, rankedID{r.ID, r.Logprob, i + 1})
		}
		out.Content = append(out.Content, entry)
	}
	return out
}

// tokenIDs lists what a frame or an answer tells of IDs: null unless wanted, an empty list where there are none.
func tokenIDs(wanted bool, tokens []engine.Token) []uint32 {
	if !wanted {
		return nil
	}
	ids := make([]uint32, len(tokens))
	for i, t := range tokens {
		ids[i] = t.ID
	}
	return ids
}

// finishReason is null while a choice goes on.
func finishReason(d delta) *string {
	if d.finish == "" {
		return nil
	}
	return &d.finish
}
