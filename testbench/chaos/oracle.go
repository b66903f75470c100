package chaos

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine/sim"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/detok"
)

// oracle knows what simulated engines say. It is safe for concurrent use.
type oracle struct {
	cfg    sim.Config
	source sim.TokenSource
	model  *tokenizer.Model
}

// spoken is an answer as text, with where each token's part of it ends.
type spoken struct {
	ids  []uint32
	text string
	ends []int // bytes of the text after each token
}

// answer is what a lone engine says, or one that goes on from the answer so far.
func (o *oracle) answer(a *ask, soFar []uint32) (spoken, error) {
	ids := soFar
	if len(soFar) < a.output {
		more, _ := sim.Answer(o.cfg, o.source, a.submit(soFar))
		ids = append(slices.Clone(soFar), more...)
	}
	return o.speak(ids)
}

func (o *oracle) speak(ids []uint32) (spoken, error) {
	d := detok.New(o.model, detok.Config{SkipSpecial: true})
	s := spoken{ids: ids, ends: make([]int, len(ids))}
	var b strings.Builder
	for i, id := range ids {
		piece, err := d.Push(id)
		if err != nil {
			return spoken{}, fmt.Errorf("chaos: the oracle's answer is no text: %w", err)
		}
		b.WriteString(piece)
		s.ends[i] = b.Len()
	}
	rest, err := d.Flush()
	if err != nil {
		return spoken{}, fmt.Errorf("chaos: the oracle's answer is no text: %w", err)
	}
	b.WriteString(rest)
	s.text = b.String()
	return s, nil
}

// chooseStop gives the request a stop string that ends its answer in the middle: a piece of what will be said, which does not
// occur before.
func (o *oracle) chooseStop(a *ask, part float64) error {
	s, err := o.answer(a, nil)
	if err != nil {
		return err
	}
	const length = 12
	from := int(part * float64(len(s.text)))
	for at := from; at+length <= len(s.text); at++ {
		if stop := s.text[at : at+length]; isPlain(stop) && strings.Index(s.text, stop) == at {
			a.stop = stop
			return nil
		}
	}
	a.class = Greedy // it repeats itself: nothing ends it
	return nil
}

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 || s[i] < ' ' {
			return false
		}
	}
	return true
}

// told is what a client was told of one leg.
type told struct {
	text     string
	finish   string
	logprobs int // entries
}

// check says what is wrong with an answer; "" if nothing is. joints are how many tokens there were of it when an attempt
// began, of all attempts of the request.
func (o *oracle) check(a *ask, legs []told, completionTokens int, joints []int) (string, error) {
	if len(legs) != a.legs() {
		return fmt.Sprintf("%d answers, not %d", len(legs), a.legs()), nil
	}
	want, err := o.answer(a, nil)
	if err != nil {
		return "", err
	}
	text, finish, tokens := want.text, "length", a.output
	if a.class == Stops {
		at := strings.Index(text, a.stop)
		text, finish = text[:at], "stop"
		tokens, _ = slices.BinarySearch(want.ends, at+len(a.stop))
		tokens++
	}
	for i, leg := range legs {
		switch {
		case leg.finish != finish:
			return fmt.Sprintf("answer %d ended with %q, not %q", i, leg.finish, finish), nil
		case a.class == Logprobs && leg.logprobs != tokens:
			return fmt.Sprintf("answer %d has %d entries of log probabilities, not %d", i, leg.logprobs, tokens), nil
		case a.class.Exact() && leg.text != text:
			return differs(i, leg.text, text), nil
		case !a.class.Exact():
			if wrong, err := o.joined(a, want, leg.text, joints); wrong != "" || err != nil {
				return wrong, err
			}
		}
	}
	if completionTokens != tokens*len(legs) {
		return fmt.Sprintf("usage says %d tokens, not %d", completionTokens, tokens*len(legs)), nil
	}
	return "", nil
}

func differs(leg int, got, want string) string {
	at := common(got, want)
	return fmt.Sprintf("answer %d differs from byte %d of %d (of %d told) on: %.40q, not %.40q", leg, at, len(want), len(got), got[at:], want[at:])
}

// common is the length of what two texts begin with alike.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// joined checks a sampled answer: it is what engines say that were asked to go on at some of the joints.
func (o *oracle) joined(a *ask, lone spoken, got string, joints []int) (string, error) {
	joints = slices.Compact(slices.Sorted(slices.Values(joints)))
	best := 0
	var follow func(s spoken, from int) (bool, error)
	follow = func(s spoken, from int) (bool, error) {
		if s.text == got {
			return true, nil
		}
		same := common(s.text, got)
		best = max(best, same)
		for i := len(joints) - 1; i >= 0; i-- { // the last one that it can be is the likeliest
			j := joints[i]
			if j <= from || j >= a.output || s.ends[j-1] > same {
				continue
			}
			next, err := o.answer(a, s.ids[:j])
			if err != nil {
				return false, err
			}
			if ok, err := follow(next, j); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}
	ok, err := follow(lone, 0)
	if ok || err != nil {
		return "", err
	}
	return fmt.Sprintf("what follows byte %d of %d is no engine's that went on at one of the joints %v: %.40q", best, len(got), joints, got[best:]), nil
}
