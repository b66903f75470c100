package enginetest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/process"
)

// Session is one connection of a scripted server, with the request read from it.
type Session struct {
	net.Conn
	Number  int // connections before this one
	Request *http.Request
	Body    string
	input   *bufio.Reader
}

// Next reads one more request; false at the end of the connection.
func (s *Session) Next() bool {
	req, err := http.ReadRequest(s.input)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(req.Body)
	s.Request, s.Body = req, string(body)
	return err == nil
}

// Gone blocks until the client has closed the connection.
func (s *Session) Gone() { _, _ = io.Copy(io.Discard, s.input) }

// Reset ends the connection with RST.
func (s *Session) Reset() {
	_ = s.Conn.(*net.TCPConn).SetLinger(0)
	_ = s.Close()
}

// Say writes raw bytes.
func (s *Session) Say(text ...string) error {
	for _, part := range text {
		if _, err := io.WriteString(s.Conn, part); err != nil {
			return err
		}
	}
	return nil
}

// Answer says an answer that does not stream. The zero Answer is 404.
func (s *Session) Answer(a Answer) {
	if a.Status == 0 {
		a.Status = http.StatusNotFound
	}
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", a.Status, http.StatusText(a.Status), len(a.Body))
	_ = s.Say(head, headerLines(a.Header), "\r\n", a.Body)
}

// headerLines leaves out what the connection itself decides.
func headerLines(header [][2]string) string {
	var lines strings.Builder
	for _, h := range header {
		switch http.CanonicalHeaderKey(h[0]) {
		case "Transfer-Encoding", "Content-Length", "Connection", "Keep-Alive":
		default:
			fmt.Fprintf(&lines, "%s: %s\r\n", h[0], h[1])
		}
	}
	return lines.String()
}

// Serve starts a server that runs a script on each connection after its first request, then closes it.
func Serve(tb testing.TB, script func(s *Session)) (url string) {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	var running sync.WaitGroup
	tb.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() { accept(listener, &running, script) })
	return "http://" + listener.Addr().String()
}

// Late returns the address of a server as Serve's that nobody listens on before up.
func Late(tb testing.TB, script func(s *Session)) (url string, up func()) {
	tb.Helper()
	url = ClosedPort(tb)
	var running sync.WaitGroup
	down := func() {}
	tb.Cleanup(func() { // registered now: who calls the server and is started before it is up ends first
		down()
		running.Wait()
	})
	return url, func() {
		listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(tb, err)
		down = func() { _ = listener.Close() }
		running.Go(func() { accept(listener, &running, script) })
	}
}

// accept runs a script on each connection until the listener is closed.
func accept(listener net.Listener, running *sync.WaitGroup, script func(s *Session)) {
	for number := 0; ; number++ {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		running.Go(func() {
			defer func() { _ = conn.Close() }()
			s := &Session{Conn: conn, Number: number, input: bufio.NewReader(conn)}
			if s.Next() {
				script(s)
			}
		})
	}
}

// Says is a script that says the parts and closes.
func Says(parts ...string) func(*Session) {
	return func(s *Session) { _ = s.Say(parts...) }
}

// ClosedPort returns the address of a port that nobody listens on, nor will by chance while the test runs.
func ClosedPort(tb testing.TB) string {
	tb.Helper()
	port, err := process.NewPorts(rand.Uint64()).Take(tb.Context())
	require.NoError(tb, err)
	return "http://127.0.0.1:" + strconv.Itoa(port)
}

// StreamHeader begins an answer that streams in chunks.
const StreamHeader = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"

// LastChunk ends a chunked body.
const LastChunk = "0\r\n\r\n"

// Chunk is one chunk of a chunked body; that of no text is nothing.
func Chunk(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
}

// Frame is one event of a stream.
func Frame(data string) string { return "data: " + data + "\n\n" }

// Site answers each path with a script; any other path fails the test.
type Site map[string]func(*Session)

// Serve starts a server for the site.
func (site Site) Serve(tb testing.TB) (url string) {
	tb.Helper()
	return Serve(tb, func(s *Session) {
		for more := true; more; more = s.Next() {
			script, ok := site[s.Request.URL.Path]
			if !ok {
				tb.Errorf("%s %s was asked", s.Request.Method, s.Request.URL.Path)
				return
			}
			script(s)
		}
	})
}

// UnreadableMetrics are scripts that answer with what cannot be read in place of the metrics that a server tells.
func UnreadableMetrics(told string) map[string]func(*Session) {
	return map[string]func(*Session){
		"a page in their place":   Saying(http.StatusOK, "<html>"),
		"told twice, as one text": Saying(http.StatusOK, told+told),
		"an error":                Saying(http.StatusInternalServerError, "Internal Server Error"),
		"without an end":          Saying(http.StatusOK, told+strings.Repeat("x 1\n", 2<<20)),
	}
}

// Saying is a script that answers with a status and a body.
func Saying(status int, body string) func(*Session) {
	return func(s *Session) { s.Answer(Answer{Status: status, Body: body}) }
}
