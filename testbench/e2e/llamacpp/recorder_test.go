//go:build e2e

package llamacpp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sse"
)

// TestMain makes the test binary a recorder if its first argument says so.
func TestMain(m *testing.M) {
	if len(os.Args) > 5 && os.Args[1] == "record" {
		if err := record(os.Args[2], filepath.Join(os.Args[4], os.Args[3]), os.Args[5:]); err != nil {
			fmt.Fprintln(os.Stderr, "recorder:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A recorder stands between Plimsoll and a server that it has started itself, and keeps every completion that passes: the
// request in one file, in another what came back, byte by byte before it goes on. To Plimsoll it is the engine: it ends when
// the server does.
type recorder struct {
	base      string
	server    int // process ID
	exchanges atomic.Uint64
}

// exchange is one completion as it passed.
type exchange struct {
	Server   string   `json:"-"` // name and process of the server
	Prompt   []uint32 `json:"prompt"`
	NPredict int      `json:"n_predict"`
	Frames   []frame  `json:"-"`
}

// frame is what one data line of a stream said of the answer.
type frame struct {
	Content   string   `json:"content"`
	Tokens    []uint32 `json:"tokens"`
	Predicted int      `json:"tokens_predicted"`
	Stop      bool     `json:"stop"`
}

// record serves on a port with a server that the command, with another port behind it, starts.
func record(port, base string, command []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	if err != nil {
		return err
	}
	behind := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		return err
	}
	server := exec.Command(command[0], append(command[1:], behind)...) //nolint:noctx // ended below
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(base+".pid", []byte(strconv.Itoa(server.Process.Pid)), 0o600); err != nil {
		return err
	}
	r := &recorder{base: base, server: server.Process.Pid}
	front := &http.Server{Addr: "127.0.0.1:" + port, Handler: r.proxy(behind), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- front.ListenAndServe() }()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	select {
	case err = <-served:
		return errors.Join(err, server.Process.Kill())
	case <-asked:
		return errors.Join(server.Process.Signal(syscall.SIGTERM), <-ended)
	case err = <-ended:
		return fmt.Errorf("the server ended: %w", err)
	}
}

// proxy passes everything on and keeps completions.
func (r *recorder) proxy(behind string) http.Handler {
	target := &url.URL{Scheme: "http", Host: "127.0.0.1:" + behind}
	pass := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(target) },
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // as a server that is not there
		// The server closes a connection that has been idle for 5 s, and a request that meets that would be broken, and sent again.
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	pass.ModifyResponse = func(res *http.Response) error {
		if kept, ok := res.Request.Context().Value(keptKey{}).(io.Writer); ok {
			res.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(res.Body, kept), res.Body}
		}
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/completion" {
			pass.ServeHTTP(w, req)
			return
		}
		kept, err := r.keep(req)
		if err != nil {
			fmt.Fprintln(os.Stderr, "recorder:", err)
			panic(http.ErrAbortHandler)
		}
		defer kept.Close() //nolint:errcheck // a stream that broke panics; what was written is there
		pass.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), keptKey{}, kept)))
	})
}

// keptKey is where a request's context holds the file that keeps its answer.
type keptKey struct{}

const requestEnd, streamEnd = ".request", ".stream"

// keep writes a request down and opens the file for its answer.
func (r *recorder) keep(req *http.Request) (*os.File, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	name := fmt.Sprintf("%s-%d.%d", r.base, r.server, r.exchanges.Add(1))
	if err := os.WriteFile(name+requestEnd, body, 0o600); err != nil {
		return nil, err
	}
	return os.Create(name + streamEnd)
}

// exchanges reads what the recorders in a folder have kept.
func exchanges(t *testing.T, folder string) []exchange {
	t.Helper()
	requests, err := filepath.Glob(filepath.Join(folder, "*"+requestEnd))
	require.NoError(t, err)
	found := make([]exchange, 0, len(requests))
	for _, name := range requests {
		body, err := os.ReadFile(name)
		require.NoError(t, err)
		base := strings.TrimSuffix(name, requestEnd)
		e := exchange{Server: strings.TrimSuffix(base, filepath.Ext(base))}
		require.NoError(t, json.Unmarshal(body, &e))
		stream, err := os.ReadFile(base + streamEnd)
		require.NoError(t, err)
		frames := sse.NewReader(bytes.NewReader(stream), sse.DefaultLimits())
		for {
			event, err := frames.Next()
			if err != nil {
				break // its end, or where it was cut
			}
			var f frame
			require.NoError(t, json.Unmarshal(event.Data, &f))
			if f.said() {
				e.Frames = append(e.Frames, f)
			}
		}
		found = append(found, e)
	}
	return found
}

// said tells an answer's frame from one of progress, which has a token that is none.
func (f frame) said() bool { return f.Predicted > 0 }

// text is what the frames say.
func text(frames []frame) string {
	var all bytes.Buffer
	for _, f := range frames {
		all.WriteString(f.Content)
	}
	return all.String()
}

// ids are those that the frames hold; whole says that no other was generated.
func ids(frames []frame) (found []uint32, whole bool) {
	for _, f := range frames {
		found = append(found, f.Tokens...)
	}
	return found, len(frames) == 0 || len(found) == last(frames).Predicted
}

func last(frames []frame) frame { return frames[len(frames)-1] }

// until returns the frames of the first n tokens; nil if no frame ends there.
func until(frames []frame, n int) []frame {
	i := slices.IndexFunc(frames, func(f frame) bool { return f.Predicted == n })
	if i < 0 {
		return nil
	}
	return frames[:i+1]
}
