package detok

// Stops looks for stop strings in a text that comes in pieces. The answer ends where the first of them is complete; where two are
// complete at the same byte, the longer one counts. Only a text's end that could be the beginning of a stop string is held back.
//
// It is an Aho-Corasick automaton over bytes: the depth of its state is the length of the longest end of the text that a
// stop string begins with, which is exactly what must be held.
type Stops struct {
	nodes   []node
	stops   []string
	include bool

	state   int32
	held    []byte // the last nodes[state].depth bytes of the text; unused with include
	matched int32  // index into stops of the string that ended the answer, or none
}

// node is a state of the automaton: the beginning of a stop string.
type node struct {
	next  map[byte]int32
	fail  int32 // the longest proper end of this beginning that is itself a beginning
	stop  int32 // the longest stop string that ends here, or none
	depth int   // bytes
}

const none = int32(-1)

// NewStops prepares the search. Empty stop strings are left out. include keeps the stop string that ends the answer in the text,
// so that nothing needs holding back.
func NewStops(stops []string, include bool) *Stops {
	s := &Stops{include: include, matched: none, nodes: []node{{stop: none}}}
	for _, stop := range stops {
		if stop == "" {
			continue
		}
		at := int32(0)
		for i := range len(stop) {
			at = s.child(at, stop[i])
		}
		if s.nodes[at].stop == none {
			s.nodes[at].stop = int32(len(s.stops)) //nolint:gosec // a request has far fewer
			s.stops = append(s.stops, stop)
		}
	}
	s.linkFailures()
	return s
}

// child finds or makes the node one byte below another.
func (s *Stops) child(at int32, b byte) int32 {
	if next, ok := s.nodes[at].next[b]; ok {
		return next
	}
	made := int32(len(s.nodes)) //nolint:gosec // bounded by the bytes of the stop strings
	if s.nodes[at].next == nil {
		s.nodes[at].next = map[byte]int32{}
	}
	s.nodes[at].next[b] = made
	s.nodes = append(s.nodes, node{stop: none, depth: s.nodes[at].depth + 1})
	return made
}

// linkFailures sets fail and inherited stops, in order of depth.
func (s *Stops) linkFailures() {
	queue := make([]int32, 0, len(s.nodes))
	queue = append(queue, 0)
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for b, next := range s.nodes[at].next {
			if at != 0 {
				s.nodes[next].fail = s.step(s.nodes[at].fail, b)
			}
			if s.nodes[next].stop == none {
				s.nodes[next].stop = s.nodes[s.nodes[next].fail].stop
			}
			queue = append(queue, next)
		}
	}
}

// step is the automaton's transition.
func (s *Stops) step(state int32, b byte) int32 {
	for {
		if next, ok := s.nodes[state].next[b]; ok {
			return next
		}
		if state == 0 {
			return 0
		}
		state = s.nodes[state].fail
	}
}

// Push takes the next piece of text and returns what may be given out. hit says that the stop string matched ends the answer:
// out then is the text up to it (with include, through it), and every later Push returns nothing but the hit.
func (s *Stops) Push(piece string) (out, matched string, hit bool) {
	if s.matched != none {
		return "", s.stops[s.matched], true
	}
	if len(s.stops) == 0 {
		return piece, "", false
	}
	for i := range len(piece) {
		s.state = s.step(s.state, piece[i])
		if stop := s.nodes[s.state].stop; stop != none {
			s.matched = stop
			return s.untilStop(piece[:i+1]), s.stops[stop], true
		}
	}
	if s.include {
		return piece, "", false
	}
	hold := s.nodes[s.state].depth
	if hold == 0 && len(s.held) == 0 {
		return piece, "", false
	}
	s.held = append(s.held, piece...)
	ready := len(s.held) - hold
	out = string(s.held[:ready])
	s.held = s.held[:copy(s.held, s.held[ready:])]
	return out, "", false
}

// untilStop is what comes out when a stop string is complete at the end of piece.
func (s *Stops) untilStop(piece string) string {
	if s.include {
		return piece
	}
	text := append(s.held, piece...)
	s.held = nil
	return string(text[:len(text)-len(s.stops[s.matched])])
}

// Flush returns what is held, at the end of a text that no stop string ended.
func (s *Stops) Flush() string {
	rest := string(s.held)
	s.held, s.state = nil, 0
	return rest
}
