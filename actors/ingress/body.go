package ingress

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/engine/openai"
)

// object reads the body and takes it apart. What it returns holds on to the body's memory, which counts against
// Config.BodiesBytes until the exchange ends.
func (x *exchange) object() ([]byte, openai.Object, *fault.Fault) {
	if f := checkMediaType(x.r.Header); f != nil {
		return nil, nil, f
	}
	body, f := x.readBody()
	if f != nil {
		return nil, nil, f
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // a byte order mark, which RFC 8259 lets a reader pass over
	o, err := openai.ParseObject(body)
	if err != nil {
		return nil, nil, fault.New(fault.BadInput, "%s", err.Error())
	}
	return body, o, nil
}

// checkMediaType takes JSON, and a body that does not say what it is. Content codings are not undone.
func checkMediaType(h http.Header) *fault.Fault {
	if c := h.Get("Content-Encoding"); c != "" && !strings.EqualFold(c, "identity") {
		return fault.New(fault.MediaType, "the body must not be compressed: no Content-Encoding is taken")
	}
	given := h.Get("Content-Type")
	if given == "" {
		return nil
	}
	// JSON's media type has no parameters (RFC 8259, 11): what a client says of a charset changes nothing.
	media, _, err := mime.ParseMediaType(given)
	if media == "" && err != nil || media != "application/json" {
		return fault.New(fault.MediaType, "the body must be JSON: send it with 'Content-Type: application/json'")
	}
	return nil
}

const firstBodyBytes = 8 << 10

// readBody reads the body whole. Its buffer grows with what has really come, never with what was announced.
func (x *exchange) readBody() ([]byte, *fault.Fault) {
	limit := x.s.cfg.BodyBytes
	if x.r.ContentLength > limit {
		x.unread = true
		return nil, tooLarge(limit)
	}
	_ = x.rc.SetReadDeadline(time.Now().Add(x.s.cfg.BodyTimeout))
	src := http.MaxBytesReader(x.w, x.r.Body, limit)
	var buf []byte
	for {
		if len(buf) == cap(buf) {
			size := max(firstBodyBytes, 2*cap(buf))
			if told := x.r.ContentLength; told >= int64(len(buf)) {
				size = int(min(int64(size), told+1)) // one more, so that the end shows without growing again
			}
			if !x.hold(int64(size - cap(buf))) {
				x.unread = true
				return nil, fault.New(fault.Contended, "too many request bodies are being read at once, try again later")
			}
			buf = append(make([]byte, 0, size), buf...)
		}
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			// From here on the server watches the connection for the client's leaving: that read must not time out.
			_ = x.rc.SetReadDeadline(time.Time{})
			x.unread = false
			return buf, nil
		}
		if err != nil {
			x.Header().Set("Connection", "close")
			x.unread = false
			return nil, x.bodyFault(err, limit)
		}
	}
}

func (x *exchange) bodyFault(err error, limit int64) *fault.Fault {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		x.unread = true
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.New(fault.BadInput, "the body did not arrive within %v", x.s.cfg.BodyTimeout)
	case x.r.Context().Err() != nil, errors.Is(err, io.ErrUnexpectedEOF):
		return &fault.Fault{Kind: fault.ClientGone, Message: "the client left while it sent the body", Err: err}
	default:
		return &fault.Fault{Kind: fault.BadInput, Message: "the body could not be read", Err: err}
	}
}

// serverDrops is the length of an unread body up to which net/http takes and drops it by itself and keeps the connection.
const serverDrops = 256 << 10

// lingerTime is how long a client may go on sending a body that was refused before it was read.
const lingerTime = 5 * time.Second

// linger takes and drops what the client still sends of a refused body, within bounds: most clients read an answer only
// when they have sent everything, and one that is cut off while it sends sees a broken connection in the answer's place. A
// client that waits for 100-continue sends nothing more.
func (x *exchange) linger() {
	if !x.unread || x.writeErr != nil || x.r.Header.Get("Expect") != "" || x.flush() != nil {
		return
	}
	_ = x.rc.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, x.r.Body, 4*x.s.cfg.BodyBytes)
}

func tooLarge(limit int64) *fault.Fault {
	return fault.New(fault.BodyTooLarge, "the body is larger than %d bytes", limit)
}

// hold counts memory of the request's body; false: there would be too much over all requests.
func (x *exchange) hold(bytes int64) bool {
	held := x.s.bodies.Add(bytes)
	if held > x.s.cfg.BodiesBytes {
		x.s.bodies.Add(-bytes)
		return false
	}
	x.held += bytes
	x.s.deps.Meter.BodyBytes(held)
	return true
}
