package ingress

import (
	"bytes"
	"math"
	"sort"
	"strings"
	"unicode/utf8"

	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/openai"
)

// piece is a generated token as logprobs tell of it.
type piece struct {
	id      uint32
	bytes   []byte // its part of the answer's text
	logprob *engine.Logprob
}

// word is a token of the vocabulary.
type word struct {
	name  string // what it is called where its bytes are no text
	bytes []byte // what it adds to a text
}

// vocabulary names token IDs. It belongs to one answer.
type vocabulary struct {
	tok         Tokenizer
	skipSpecial bool
	top         int // alternatives asked for
	known       map[uint32]word
}

// wordsMax bounds what a vocabulary remembers.
const wordsMax = 4096

func newVocabulary(tok Tokenizer, req *stream.Request) *vocabulary {
	return &vocabulary{tok: tok, skipSpecial: req.SkipSpecialTokens, top: *req.TopLogprobs, known: map[uint32]word{}}
}

// word returns what an ID stands for.
func (v *vocabulary) word(id uint32) word {
	if w, ok := v.known[id]; ok {
		return w
	}
	w := v.look(id)
	if len(v.known) < wordsMax {
		v.known[id] = w
	}
	return w
}

func (v *vocabulary) look(id uint32) word {
	name, _ := v.tok.Token(id)
	text, err := v.tok.Decode([]uint32{id}, false)
	if err != nil {
		return word{name: name}
	}
	if v.skipSpecial && text != "" {
		if shown, err := v.tok.Decode([]uint32{id}, true); err == nil && shown == "" {
			return word{name: name}
		}
	}
	w := word{name: name, bytes: []byte(text)}
	switch {
	case strings.ContainsRune(text, utf8.RuneError):
		if raw, ok := rawBytes(name); ok {
			w.bytes = raw
		}
	case strings.HasPrefix(name, "▁") && !strings.HasPrefix(text, " "):
		w.bytes = append([]byte{' '}, text...) // decoders drop the blank before the first word of a text
	}
	return w
}

// rawBytes reads the two ways in which vocabularies write bytes that are no character by themselves: <0xE2> (byte
// fallback), and one letter a byte (byte-level BPE).
func rawBytes(name string) ([]byte, bool) {
	if len(name) == 6 && strings.HasPrefix(name, "<0x") && name[5] == '>' {
		hi, lo := hexValue(name[3]), hexValue(name[4])
		if hi < 0 || lo < 0 {
			return nil, false
		}
		return []byte{byte(hi<<4 | lo)}, true
	}
	raw := make([]byte, 0, len(name))
	for _, r := range name {
		b, ok := letterByte(r)
		if !ok {
			return nil, false
		}
		raw = append(raw, b)
	}
	return raw, true
}

func hexValue(c byte) int { return strings.IndexByte("0123456789ABCDEF", c) }

// letterByte undoes GPT-2's bytes_to_unicode: printable bytes of Latin-1 stand for themselves, the others are numbered
// from U+0100 on in their order (https://github.com/openai/gpt-2/blob/master/src/encoder.py).
func letterByte(r rune) (byte, bool) {
	if r < 0x100 {
		return byte(r), printableByte(byte(r))
	}
	n := int(r) - 0x100
	for b := range 0x100 {
		if printableByte(byte(b)) {
			continue
		}
		if n == 0 {
			return byte(b), true
		}
		n--
	}
	return 0, false
}

func printableByte(b byte) bool {
	return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
}

// aligner gives each token its part of the text that the client gets. Text may come later than its tokens (a character of
// several tokens, a possible stop string) or never (a stop string, special tokens): a token is told of when its bytes have
// all come, and at the end with those that have. So the bytes told of, one token after the other, are the text.
//
// Where a broken character became U+FFFD, text and bytes differ: the tokens of its fragments share the U+FFFD, the last of
// them has it. From then on one token is always held back, to take at the end what else there may be.
type aligner struct {
	waiting []piece // tokens, with their own bytes, whose text has not all come
	text    []byte  // text that has come and belongs to no token yet
	astray  bool    // text and bytes have differed
}

// push takes a token with the text that came with it and returns the tokens that are complete.
func (a *aligner) push(e *stream.Entry, v *vocabulary) []piece {
	p := piece{id: e.ID, logprob: e.Logprob}
	if e.LostIDs > 0 || e.Relayed {
		// The text of tokens that nobody knows is told with the one that is known; that of a relayed answer is the engine's.
		p.bytes = []byte(e.Text)
	} else {
		p.bytes = v.word(e.ID).bytes
	}
	a.waiting = append(a.waiting, p)
	a.text = append(a.text, e.Text...)
	var done []piece
	for len(a.waiting) > 0 {
		n := a.ready(false)
		if n == 0 {
			break
		}
		done = append(done, a.waiting[:n]...)
		a.waiting = a.waiting[n:]
	}
	return done
}

// end takes the text that came with the end and returns all tokens that are left.
func (a *aligner) end(text string) []piece {
	a.text = append(a.text, text...)
	var done []piece
	for len(a.waiting) > 1 {
		n := a.ready(true)
		done = append(done, a.waiting[:n]...)
		a.waiting = a.waiting[n:]
	}
	if len(a.waiting) == 1 {
		a.waiting[0].bytes = a.text
		done = append(done, a.waiting[0])
	}
	a.waiting, a.text = nil, nil
	return done
}

// ready returns how many of the waiting tokens are complete, after giving them their bytes: one, or those of a broken
// character, or none, which at the end does not happen while more than one waits.
func (a *aligner) ready(end bool) int {
	p := &a.waiting[0]
	if bytes.HasPrefix(a.text, p.bytes) {
		if a.astray && len(a.waiting) == 1 {
			return 0
		}
		a.text = a.text[len(p.bytes):]
		return 1
	}
	if bytes.HasPrefix(p.bytes, a.text) {
		if !end {
			return 0
		}
		p.bytes, a.text = a.text, nil
		return 1
	}
	a.astray = true
	share, n := replacements(a.text), 1
	for n < len(a.waiting) && (share == 0 || !utf8.Valid(a.waiting[n].bytes)) {
		n++
	}
	if share == 0 {
		share = len(a.text) // they differ for another reason: nothing tells whose the text is
	}
	if n == len(a.waiting) {
		n--
	}
	if n == 0 {
		return 0
	}
	for i := range n {
		a.waiting[i].bytes = nil
	}
	a.waiting[n-1].bytes = a.text[:share]
	a.text = a.text[share:]
	return n
}

// replacements is the length of the U+FFFD that a text begins with.
func replacements(text []byte) int {
	n := 0
	for bytes.HasPrefix(text[n:], []byte("\ufffd")) {
		n += len("\ufffd")
	}
	return n
}

// chat returns tokens in the form of /v1/chat/completions.
func (v *vocabulary) chat(pieces []piece) *openai.ChatLogprobs {
	l := &openai.ChatLogprobs{Content: make([]openai.TokenLogprob, len(pieces))}
	for i, p := range pieces {
		t := openai.TokenLogprob{
			RankedLogprob: openai.RankedLogprob{
				Token: chatName(p.bytes, v.word(p.id).name), Logprob: p.own(), Bytes: p.bytes,
			},
			TopLogprobs: []openai.RankedLogprob{},
		}
		for _, r := range p.ranked(v.top) {
			w := v.word(r.ID)
			t.TopLogprobs = append(t.TopLogprobs, openai.RankedLogprob{
				Token: chatName(w.bytes, w.name), Logprob: finite(r.Logprob), Bytes: w.bytes,
			})
		}
		l.Content[i] = t
	}
	return l
}

// place is how far a text has been told of.
type place struct {
	characters int // complete ones
	missing    int // bytes that the character under way still lacks
}

// past moves behind bytes of the text.
func (p *place) past(text []byte) {
	for _, b := range text {
		switch {
		case b >= 0xf0:
			p.missing = 3
		case b >= 0xe0:
			p.missing = 2
		case b >= 0xc0:
			p.missing = 1
		case b >= utf8.RuneSelf:
			p.missing--
		}
		if p.missing == 0 {
			p.characters++
		}
	}
}

// completion returns tokens in the form of /v1/completions; at is where their text begins.
func (v *vocabulary) completion(pieces []piece, at *place) *openai.CompletionLogprobs {
	l := &openai.CompletionLogprobs{
		TextOffset: make([]int, len(pieces)), TokenLogprobs: make([]float64, len(pieces)),
		Tokens: make([]string, len(pieces)), TopLogprobs: make([]map[string]float64, len(pieces)),
	}
	for i, p := range pieces {
		l.TextOffset[i] = at.characters
		at.past(p.bytes)
		name := completionName(p.bytes, v.word(p.id).name)
		l.Tokens[i], l.TokenLogprobs[i] = name, p.own()
		top := map[string]float64{}
		for _, r := range p.ranked(v.top) {
			w := v.word(r.ID)
			rival := completionName(w.bytes, w.name)
			if _, ok := top[rival]; !ok {
				top[rival] = finite(r.Logprob)
			}
		}
		top[name] = p.own()
		l.TopLogprobs[i] = top
	}
	return l
}

// own is the token's own log probability.
func (p piece) own() float64 {
	if p.logprob == nil {
		return openai.LeastLogprob
	}
	return finite(p.logprob.Logprob)
}

// ranked returns the strongest alternatives, best first, with the token itself among them if it is one of them, whether
// the engine lists it there or not.
func (p piece) ranked(most int) []engine.RankedToken {
	if p.logprob == nil || most == 0 {
		return nil
	}
	list := append(make([]engine.RankedToken, 0, len(p.logprob.Top)+1), p.logprob.Top...)
	found := false
	for _, r := range list {
		found = found || r.ID == p.id
	}
	if !found {
		list = append(list, engine.RankedToken{ID: p.id, Logprob: p.logprob.Logprob})
		sort.SliceStable(list, func(i, j int) bool { return list[i].Logprob > list[j].Logprob })
	}
	return list[:min(most, len(list))]
}

// finite returns what JSON can hold.
func finite(logprob float64) float64 {
	if math.IsNaN(logprob) || logprob < openai.LeastLogprob {
		return openai.LeastLogprob
	}
	return min(logprob, 0)
}

// chatName is how a chat's logprobs call a token: its text; where its bytes are no text, those, escaped; where it adds
// none, its name.
func chatName(b []byte, name string) string {
	switch {
	case len(b) == 0:
		return name
	case utf8.Valid(b):
		return string(b)
	default:
		return escapedBytes(b)
	}
}

// completionName is the same for text completions, whose reference marks bytes.
func completionName(b []byte, name string) string {
	if len(b) > 0 && !utf8.Valid(b) {
		return "bytes:" + escapedBytes(b)
	}
	return chatName(b, name)
}

func escapedBytes(b []byte) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 4*len(b))
	for _, c := range b {
		out = append(out, '\\', 'x', digits[c>>4], digits[c&0xf])
	}
	return string(out)
}
