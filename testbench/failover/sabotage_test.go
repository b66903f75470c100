package failover_test

import (
	"bytes"
	"net"
	"net/http"
	"strings"
	"sync"
)

// harm is a way to end a stream, by what real servers were seen to do.
type harm string

const (
	engineDies  harm = "an error frame, [DONE] and a clean end" // the engine core or a worker dies
	serverDies  harm = "an end without the last chunk"          // kill -9 of the server
	cutFrame    harm = "an end in the middle of a frame"
	reset       harm = "a reset connection"
	noFinish    harm = "[DONE] without a finish"
	cleanEnd    harm = "a clean end without [DONE]"
	silence     harm = "no frame any more" // SIGTERM; a stopped core
	onlyError   harm = "status 200, and nothing but an error frame of the client's"
	shedding    harm = "503"
	busy        harm = "429"
	brokenReply harm = "500"
)

// inStream lists those that a stream can end in; before its first token it can also be refused.
func inStream() []harm {
	return []harm{engineDies, serverDies, cutFrame, reset, noFinish, cleanEnd, silence}
}

func refusals() []harm { return []harm{shedding, busy, brokenReply} }

// plan is the harm that the next stream takes, whichever server it runs on.
type plan struct {
	mu     sync.Mutex
	harm   harm // "": none
	frames int  // that pass before
	done   int  // harms done
}

func (p *plan) set(h harm, frames int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.harm, p.frames = h, frames
}

// take gives the plan to one stream.
func (p *plan) take() (harm, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, n := p.harm, p.frames
	if p.harm = ""; h != "" {
		p.done++
	}
	return h, n
}

func (p *plan) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// saboteur stands before a server.
type saboteur struct {
	behind http.Handler
	plan   *plan
}

// ServeHTTP implements http.Handler.
func (s saboteur) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "generate") && !strings.Contains(r.URL.Path, "completions") {
		s.behind.ServeHTTP(w, r)
		return
	}
	h, frames := s.plan.take()
	switch h {
	case "":
		s.behind.ServeHTTP(w, r)
		return
	case shedding, busy, brokenReply:
		status := map[harm]int{shedding: 503, busy: 429, brokenReply: 500}[h]
		http.Error(w, `{"error":{"message":"no","type":"x","param":null,"code":500}}`, status)
		return
	case onlyError:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(`data: {"error":{"message":"Token id 5000 is out of vocabulary","type":"BadRequestError","param":null,"code":400}}` +
			"\n\ndata: [DONE]\n\n"))
		return
	case engineDies, serverDies, cutFrame, reset, noFinish, cleanEnd, silence:
	}
	c := &cutter{ResponseWriter: w, harm: h, frames: frames, cut: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.behind.ServeHTTP(c, r)
	}()
	select {
	case <-done:
		return
	case <-c.cut:
	}
	switch h {
	case engineDies:
		c.end(`data: {"error":{"message":"EngineCore encountered an issue","type":"InternalServerError","param":null,"code":500}}` +
			"\n\ndata: [DONE]\n\n")
	case noFinish:
		c.end("data: [DONE]\n\n")
	case cleanEnd:
		c.end("")
	case serverDies, cutFrame:
		c.end("")
		defer panic(http.ErrAbortHandler)
	case reset:
		c.end("")
		defer c.reset()
	case silence:
		c.end("")
		<-r.Context().Done()
	case onlyError, shedding, busy, brokenReply:
	}
	<-done // the server has noticed that nobody reads
}

// cutter lets so many frames of a stream through.
type cutter struct {
	http.ResponseWriter

	harm   harm
	mu     sync.Mutex
	frames int
	closed bool
	cut    chan struct{}
}

// Write implements http.ResponseWriter.
func (c *cutter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, http.ErrHandlerTimeout
	}
	for rest := p; len(rest) > 0; {
		if c.frames == 0 {
			if c.harm == cutFrame {
				_, _ = c.ResponseWriter.Write(rest[:min(len(rest), 25)])
			}
			c.closed = true
			c.flush()
			close(c.cut)
			return 0, http.ErrHandlerTimeout
		}
		at := bytes.Index(rest, []byte("\n\n"))
		if at < 0 {
			return c.ResponseWriter.Write(rest)
		}
		if _, err := c.ResponseWriter.Write(rest[:at+2]); err != nil {
			return 0, err
		}
		c.frames--
		rest = rest[at+2:]
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (c *cutter) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.flush()
	}
}

func (c *cutter) flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

// end writes the stream's last words.
func (c *cutter) end(words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.ResponseWriter.Write([]byte(words))
	c.flush()
}

// reset closes the connection as the system of a dead process does where bytes of the client's were unread.
func (c *cutter) reset() {
	conn, _, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		panic(err) // HTTP/1.1 on TCP
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
