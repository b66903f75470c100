package dst

import (
	"slices"
	"strings"
	"unicode/utf8"

	"plimsoll/actors/stream"
)

// reader is the simplest reader of an answer: after each token all of it is spelled anew. It shares nothing with the product's, which
// looks at a window of the last IDs.
type reader struct {
	before string   // what can't change any more: the engine has said itself what it reads
	ids    []uint32 // what came since
}

func (r *reader) all() string { return r.before + spell(r.ids) }

// sure leaves out what may be the beginning of a character.
func (r *reader) sure() string {
	return r.before + strings.TrimRight(spell(r.ids), string(utf8.RuneError))
}

// lost takes tokens whose IDs the engine has not told, with their text.
func (r *reader) lost(ids []uint32) { r.before, r.ids = r.all()+spell(ids), nil }

// spell is what IDs read: each byte that is of no character becomes one that says so.
func spell(ids []uint32) string {
	var raw []byte
	for _, id := range ids {
		if id != idEnd {
			raw = append(raw, spelling(id)...)
		}
	}
	var out strings.Builder
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		out.WriteRune(r)
		raw = raw[size:]
	}
	return out.String()
}

// stopIn finds the stop string that is complete first, the longest of several, and where the text ends with it.
func stopIn(text string, req *stream.Request) (matched string, end int, hit bool) {
	for _, stop := range req.Stop {
		if at := strings.Index(text, stop); at >= 0 {
			if to := at + len(stop); !hit || to < end || to == end && len(stop) > len(matched) {
				matched, end, hit = stop, to, true
			}
		}
	}
	if hit && !req.IncludeStop {
		end -= len(matched)
	}
	return matched, end, hit
}

// script is what an answer's tokens come to.
type script struct {
	text    string
	stopped bool    // by a token or a string
	by      *string // the string
	beyond  int     // the first token after its end, from 1; 0: none
}

// read reads an answer to its end. groups are how many tokens came at a time; of more than one the engine has told the last one's ID.
// dropped are those of which it has told nothing.
func read(req *stream.Request, ids []uint32, groups []int, dropped []uint32) script {
	var s script
	var r reader
	from, produced := 0, 0 // of the text: where stop strings count
	over := false
	ends := func(id uint32) bool {
		return produced >= req.MinTokens && (!req.IgnoreEOS && id == idEnd || slices.Contains(req.StopTokenIDs, id))
	}
	search := func(text string) bool {
		matched, end, hit := stopIn(text[from:], req)
		if hit {
			s.text, s.stopped, s.by, over = text[:from+end], true, &matched, true
		}
		return hit
	}
	for _, size := range groups {
		if over {
			s.beyond = produced + 1
			return s
		}
		group := ids[produced : produced+size]
		produced += size
		last := group[size-1]
		switch {
		case ends(last):
			s.stopped, over = true, true
			continue
		case !req.IgnoreEOS && last == idEnd:
			continue
		case size > 1:
			r.lost(group)
		default:
			r.ids = append(r.ids, last)
		}
		if produced < req.MinTokens {
			from = len(r.sure())
		} else {
			search(r.sure())
		}
	}
	if s.by == nil && !search(r.all()) {
		s.text = r.all()
	}
	for _, id := range dropped {
		produced++
		s.stopped = s.stopped || !over && ends(id)
	}
	return s
}

// checkText compares an answer's text and end with what its tokens come to.
func (w *world) checkText(c *call, n int, l *leg) {
	req, last := c.req, l.current()
	want := read(req, l.got, l.groups, last.dropped)
	reason := stream.StopLength
	if want.stopped {
		reason = stream.StopEnd
	}
	full := len(last.got)+len(last.dropped) >= last.request.MaxTokens
	switch said := l.finish.StopString; {
	case want.beyond > 0:
		w.violate(Output, "call %d: leg %d goes on after its end at token %d of %d", c.n, n, want.beyond, len(l.got))
	case want.text != string(l.text):
		w.violate(Output, "call %d: leg %d reads %q and should read %q", c.n, n, l.text, want.text)
	case (said == nil) != (want.by == nil) || said != nil && *said != *want.by:
		w.violate(Output, "call %d: leg %d ends with another stop string than the one that is complete first", c.n, n)
	case l.finish.Reason != reason:
		w.violate(Output, "call %d: leg %d ends for reason %d and should for %d", c.n, n, l.finish.Reason, reason)
	case reason == stream.StopLength && !full:
		w.violate(Output, "call %d: leg %d ends by length after %d tokens of its last attempt, which may have %d", c.n, n, len(last.got), last.request.MaxTokens)
	case l.finish.CompletionTokens != len(l.got):
		w.violate(Output, "call %d: leg %d says that it has %d tokens and has %d", c.n, n, l.finish.CompletionTokens, len(l.got))
	case req.TopLogprobs != nil && l.logprobs != len(l.groups), req.TopLogprobs == nil && l.logprobs != 0:
		w.violate(Output, "call %d: leg %d has %d logprobs for %d tokens", c.n, n, l.logprobs, len(l.groups))
	}
}
