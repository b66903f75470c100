package simmodel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// encoder turns text into ids; *hf.Tokenizer is one.
type encoder interface {
	Encode(text string, addSpecial bool) ([]uint32, error)
}

// sentence is one template in ids: at each place one of several id lists.
type sentence [][][]uint32

// automaton recognizes and continues sentences, id by id. State 0 is before a sentence that begins a text, state 1 before
// one that follows another (its first word has a space in front). It is the determinized form of the templates.
type automaton struct {
	states    []state
	ends      map[uint32]bool // the ids that end a sentence and stand nowhere else
	maxTokens int             // ids of the longest sentence
}

type state struct {
	next     map[uint32]int32
	choices  [][]uint32 // the ids that may follow, grouped by template so that each template is as likely as another
	complete bool       // a sentence ends here
}

const (
	beforeFirst = int32(0)
	beforeNext  = int32(1)
)

// spot is a place inside a template: the id to come is sentences[sentence][place][word][at].
type spot struct{ sentence, place, word, at int }

// buildAutomaton encodes the templates and determinizes them.
func buildAutomaton(enc encoder, templates []string, words map[string][]string) (*automaton, error) {
	var all []sentence // those without a space in front, then the same with one
	a := &automaton{ends: map[uint32]bool{}}
	for _, lead := range []string{"", " "} {
		for _, template := range templates {
			s, err := encodeSentence(enc, lead, template, words)
			if err != nil {
				return nil, fmt.Errorf("sentence %q: %w", template, err)
			}
			all = append(all, s)
			a.maxTokens = max(a.maxTokens, longest(s))
		}
	}
	for _, s := range all {
		last := s[len(s)-1][0]
		a.ends[last[len(last)-1]] = true
	}
	first, second := make([]spot, 0, len(all)), make([]spot, 0, len(all))
	for i, s := range all {
		if i < len(templates) {
			first = enter(first, s, i, 0)
		} else {
			second = enter(second, s, i, 0)
		}
	}
	a.determinize(all, first, second)
	return a, a.check()
}

// encodeSentence encodes a template word by word, which gives what the whole encodes to: the pre-tokenizer cuts before a space.
func encodeSentence(enc encoder, lead, template string, words map[string][]string) (sentence, error) {
	var s sentence
	place := func(texts ...string) error {
		var lists [][]uint32
		for _, text := range texts {
			ids, err := enc.Encode(text, false)
			if err != nil {
				return err
			}
			lists = append(lists, ids)
		}
		s = append(s, lists)
		return nil
	}
	for i, word := range strings.Fields(template) {
		if i > 0 {
			lead = " "
		}
		name, rest, isSlot := strings.Cut(strings.TrimPrefix(word, "{"), "}")
		if !isSlot {
			if err := place(lead + word); err != nil {
				return nil, err
			}
			continue
		}
		if len(words[name]) == 0 {
			return nil, fmt.Errorf("there is no slot %q", name)
		}
		texts := make([]string, 0, len(words[name]))
		for _, w := range words[name] {
			texts = append(texts, lead+w)
		}
		if err := place(texts...); err != nil {
			return nil, err
		}
		if rest != "" {
			if err := place(rest); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func longest(s sentence) int {
	total := 0
	for _, words := range s {
		most := 0
		for _, ids := range words {
			most = max(most, len(ids))
		}
		total += most
	}
	return total
}

// enter adds the spots at the beginning of a place.
func enter(spots []spot, s sentence, sentenceIndex, place int) []spot {
	for word := range s[place] {
		spots = append(spots, spot{sentenceIndex, place, word, 0})
	}
	return spots
}

// determinize makes the states that are reached from the two beginnings, in a fixed order.
func (a *automaton) determinize(all []sentence, first, second []spot) {
	known := map[string]int32{}
	var sets [][]spot
	add := func(set []spot, complete bool) int32 {
		key := fmt.Sprint(set, complete)
		if at, ok := known[key]; ok {
			return at
		}
		at := int32(len(sets)) //nolint:gosec // some thousands
		known[key] = at
		sets = append(sets, set)
		a.states = append(a.states, state{next: map[uint32]int32{}, complete: complete})
		return at
	}
	add(first, false)
	add(second, false)
	for at := 0; at < len(sets); at++ {
		var order []uint32
		followers := map[uint32][]spot{}
		complete := map[uint32]bool{}
		group := -1
		for _, p := range sets[at] {
			ids := all[p.sentence][p.place][p.word]
			id := ids[p.at]
			if !slices.Contains(order, id) {
				order = append(order, id)
			}
			choices := &a.states[at].choices
			if p.sentence != group {
				group = p.sentence
				*choices = append(*choices, nil)
			}
			(*choices)[len(*choices)-1] = append((*choices)[len(*choices)-1], id)
			switch {
			case p.at+1 < len(ids):
				followers[id] = append(followers[id], spot{p.sentence, p.place, p.word, p.at + 1})
			case p.place+1 < len(all[p.sentence]):
				followers[id] = enter(followers[id], all[p.sentence], p.sentence, p.place+1)
			default:
				complete[id] = true
			}
		}
		for _, id := range order {
			a.states[at].next[id] = add(followers[id], complete[id])
		}
	}
}

// check makes sure that a sentence can be told from what follows: an id that ends one stands nowhere else.
func (a *automaton) check() error {
	for _, s := range a.states {
		for id, next := range s.next {
			if a.states[next].complete != a.ends[id] || a.states[next].complete && len(a.states[next].choices) > 0 {
				return errors.New("a sentence's last id stands inside a sentence too")
			}
		}
	}
	return nil
}

// locate finds the state after the text whose last ids are given, and whether the text ends in a part of a sentence, or a
// whole one, at all.
func (a *automaton) locate(context []uint32) (at int32, ok bool) {
	tail := context[max(0, len(context)-a.maxTokens):]
	for i := len(tail) - 2; i >= 0; i-- {
		if a.ends[tail[i]] {
			tail = tail[i+1:]
			break
		}
	}
	for from := range tail {
		if at, ok := a.run(tail[from:]); ok {
			return at, true
		}
	}
	return 0, false
}

// run reads a sentence's beginning from its first id.
func (a *automaton) run(ids []uint32) (int32, bool) {
	at, ok := a.states[beforeFirst].next[ids[0]]
	if !ok {
		at, ok = a.states[beforeNext].next[ids[0]]
	}
	for _, id := range ids[1:] {
		if !ok {
			return 0, false
		}
		at, ok = a.states[at].next[id]
	}
	return at, ok
}
