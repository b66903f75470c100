package chaos

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// opening is what a request to generate says of itself.
type opening struct {
	number       int // of the client's request; -1: it bears none
	promptTokens int
}

const (
	// seedTag is what is added to a request's number where its seed bears it, because its prompt is a text.
	seedTag = 1 << 40
	// headBytes and bodyBytes bound what is looked at; of what is larger nothing is known but that it is.
	headBytes = 64 << 10
	bodyBytes = 4 << 20
)

// watch reads along on one HTTP/1.1 connection on which requests follow each other. It is no goroutine's own: the link
// guards it.
type watch struct {
	up   side
	down side

	generating bool // the request under way is one to generate
	answered   bool // a byte of its answer's body has come
	status     int
}

// side is one direction's message under way.
type side struct {
	head    []byte // until its end
	body    []byte // of requests
	inBody  bool
	left    int    // bytes of the body that are to come; -1: it is chunked
	tail    []byte // last bytes of a chunked body
	skipped bool   // it is too large to look at
}

func (s *side) reset() { *s = side{} }

// request takes bytes on their way to the engine. It returns the request to generate that is whole with them.
func (w *watch) request(data []byte) *opening {
	var found *opening
	for len(data) > 0 {
		s := &w.up
		if !s.inBody {
			var whole bool
			if data, whole = s.readHead(data); !whole {
				return found
			}
			w.generating, w.answered, w.status = false, false, 0
			w.down.reset()
		}
		n := min(len(data), max(s.left, 0))
		if len(s.body)+n <= bodyBytes {
			s.body = append(s.body, data[:n]...)
		} else {
			s.skipped = true
		}
		data, s.left = data[n:], s.left-n
		if s.left > 0 {
			return found
		}
		if o := open(s.head, s.body, s.skipped); o != nil {
			w.generating, found = true, o
		}
		s.reset()
	}
	return found
}

// readHead takes the bytes of a head and returns those behind it.
func (s *side) readHead(data []byte) (rest []byte, whole bool) {
	before := len(s.head)
	s.head = append(s.head, data...)
	end := bytes.Index(s.head[max(0, before-3):], []byte("\r\n\r\n"))
	if end < 0 {
		if len(s.head) > headBytes {
			s.reset()
		}
		return nil, false
	}
	end += max(0, before-3) + 4
	rest = data[end-before:]
	s.head, s.inBody = s.head[:end], true
	if strings.EqualFold(s.field("Transfer-Encoding"), "chunked") {
		s.left = -1
	} else if n, err := strconv.Atoi(s.field("Content-Length")); err == nil && n > 0 {
		s.left = n
	}
	return rest, true
}

// field is the value of a header field.
func (s *side) field(name string) string {
	for line := range strings.SplitSeq(string(s.head), "\r\n") {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(key, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// routes are those on which the adapters ask engines to generate from token IDs.
func routes() []string { return []string{"/v1/completions", "/inference/v1/generate", "/completion"} }

// open reads what a request to generate says; nil: it is another.
func open(head, body []byte, skipped bool) *opening {
	line, _, _ := strings.Cut(string(head), "\r\n")
	generates := slices.ContainsFunc(routes(), func(path string) bool { return strings.HasPrefix(line, "POST "+path+" ") })
	if !generates || !skipped && len(body) <= len("{}") {
		return nil // {} asks whether the route is there
	}
	o := &opening{number: -1}
	if skipped {
		return o
	}
	var tag [tagTokens]int
	at := bytes.IndexByte(body, '[') + 1
	rest := body[at:]
	for ; ; o.promptTokens++ {
		n, digits := 0, 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			n = n*10 + int(rest[digits]-'0')
			digits++
		}
		if digits == 0 {
			break
		}
		if i := o.promptTokens - tagAt; i >= 0 && i < tagTokens {
			tag[i] = n
		}
		if rest = rest[digits:]; len(rest) > 0 && rest[0] == ',' {
			rest = rest[1:]
		}
	}
	if o.promptTokens >= tagAt+tagTokens {
		o.number = tag[0]*tagBase + tag[1]
	}
	const word = `"seed":`
	if at := bytes.Index(rest, []byte(word)); at >= 0 {
		digits := rest[at+len(word):]
		digits = digits[:len(digits)-len(bytes.TrimLeft(digits, "0123456789"))]
		if n, err := strconv.Atoi(string(digits)); err == nil && n >= seedTag {
			o.number = n - seedTag
		}
	}
	return o
}

// unanswered says that nothing has come of the answer that is due.
func (w *watch) unanswered() bool { return !w.answered && len(w.down.head) == 0 }

// answer takes bytes on their way from the engine. begun: the first bytes of a body are among them. ended: the answer is
// whole with them.
func (w *watch) answer(data []byte) (begun, ended bool) {
	s := &w.down
	if !s.inBody {
		rest, whole := s.readHead(data)
		if !whole {
			return false, false
		}
		if code, _, ok := strings.Cut(strings.TrimPrefix(string(s.head), "HTTP/1.1 "), " "); ok {
			w.status, _ = strconv.Atoi(code)
		}
		data = rest
	}
	if len(data) > 0 && !w.answered {
		w.answered, begun = true, true
	}
	if s.left < 0 {
		const end = "\r\n0\r\n\r\n"
		s.tail = append(s.tail, data[max(0, len(data)-len(end)):]...)
		s.tail = s.tail[max(0, len(s.tail)-len(end)):]
		ended = string(s.tail) == end
	} else {
		s.left -= len(data)
		ended = s.left <= 0
	}
	if ended {
		s.reset()
	}
	return begun, ended
}
