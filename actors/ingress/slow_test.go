package ingress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
)

// TestAReaderThatIsCutOffHasNotLeft: log and metric say what happened, and the connection ends as one that broke.
func TestAReaderThatIsCutOffHasNotLeft(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("stream=%v", streams), func(t *testing.T) {
			inBubble(t, says(strings.Repeat("x", 100_000)), func(t *testing.T, e *edge, dial func() net.Conn) {
				t.Helper()
				c := dial()
				post(t, c, withMember(pathChat, fmt.Sprintf(`"stream":%v`, streams)))
				time.Sleep(e.cfg.ClientStall + time.Second) // virtual
				synctest.Wait()
				line := logged(t, e.log)[0]
				require.Equal(t, "cancelled", line["outcome"])
				require.Equal(t, "slow_reader", line["fault"])
				require.Contains(t, line["reason"], e.cfg.ClientStall.String())
				require.Contains(t, e.do("GET", "/metrics", "").Body.String(), `plimsoll_ingress_faults_total{kind="slow_reader",route="chat"} 1`)
				got, err := io.ReadAll(c)
				require.NoError(t, err)
				require.NotContains(t, string(got), "[DONE]")
				require.False(t, strings.HasSuffix(string(got), "0\r\n\r\n"), "a clean end")
				require.NoError(t, c.Close())
			})
		})
	}
}

// TestAReaderThatComesBackHearsWhyItsAnswerHasEnded: what it paused too long for is lost, and an error event says so.
func TestAReaderThatComesBackHearsWhyItsAnswerHasEnded(t *testing.T) {
	script := func(_ *stream.Request, resp *stream.Response) {
		for range 1000 {
			resp.Append(0, []stream.Entry{{ID: 'x', Text: strings.Repeat("x", 100)}}, stream.Usage{})
		}
		time.Sleep(time.Second) // virtual
		resp.End(fault.New(fault.SlowReader, "it is read too slowly"))
	}
	inBubble(t, script, func(t *testing.T, e *edge, dial func() net.Conn) {
		t.Helper()
		c := dial()
		post(t, c, withMember(pathChat, `"stream":true`))
		time.Sleep(e.cfg.ClientStall - time.Second) // virtual
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		s := hear(t, string(body))
		require.Equal(t, "it is read too slowly", s.fault.Message)
		require.Zero(t, s.done)
		synctest.Wait()
		line := logged(t, e.log)[0]
		require.Equal(t, "slow_reader", line["fault"])
		require.Equal(t, "cancelled", line["outcome"])
		require.NoError(t, c.Close())
	})
}

// TestStreamsSayWhyTheyEnd, whatever ends them but their client.
func TestStreamsSayWhyTheyEnd(t *testing.T) {
	word := stream.Entry{ID: 'x', Text: "x"}
	ends := func(kind fault.Kind) func(*stream.Response) {
		return func(resp *stream.Response) { resp.End(fault.New(kind, "why")) }
	}
	for code, then := range map[string]func(*stream.Response){
		"slow_reader":   ends(fault.SlowReader),
		"shutting_down": ends(fault.ShuttingDown),
		"no_replica":    ends(fault.NoReplica),
		"engine_failed": func(resp *stream.Response) { // it says what nobody can read
			resp.Append(0, []stream.Entry{{ID: 'x', Relayed: true, ChatDelta: []byte("7")}}, stream.Usage{})
		},
		"internal_error": func(resp *stream.Response) { // the tokenizer panics
			resp.Append(0, []stream.Entry{{ID: idEnd}}, stream.Usage{})
		},
	} {
		t.Run(code, func(t *testing.T) {
			first := make(chan struct{})
			front := newFront(func(_ *stream.Request, resp *stream.Response) {
				resp.Append(0, []stream.Entry{word}, stream.Usage{})
				<-first
				then(resp)
			})
			front.models[0].Tokenizer = panickyAtEnd{}
			e := newEdge(t, testConfig(), front)
			server := httptest.NewServer(e)
			defer server.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+pathChat, strings.NewReader(withMember(pathChat, `"stream":true,"logprobs":true`)))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			resp, err := server.Client().Do(req)
			require.NoError(t, err)
			close(first)
			body, _ := io.ReadAll(resp.Body) // one that panicked is cut
			require.NoError(t, resp.Body.Close())
			s := hear(t, string(body))
			require.Equal(t, "x", s.text[0])
			require.NotNil(t, s.fault)
			require.Equal(t, code, *s.fault.Code)
			require.Zero(t, s.done)
		})
	}
}

// panickyAtEnd knows no special token.
type panickyAtEnd struct{ bytesTokenizer }

func (p panickyAtEnd) Token(id uint32) (string, bool) {
	if id == idEnd {
		panic("no such token")
	}
	return p.bytesTokenizer.Token(id)
}
