package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/engine"
)

// TestEveryFaultHasAnAnswer ranges over all kinds.
func TestEveryFaultHasAnAnswer(t *testing.T) {
	codes := map[string]fault.Kind{}
	for kind := range fault.NumKinds {
		t.Run(kind.String(), func(t *testing.T) {
			front := newFront(broken(&fault.Fault{
				Kind: kind, Message: "words for the client", Err: errors.New("dial tcp 10.0.0.7:8000: refused"),
			}))
			e := newEdge(t, testConfig(), front)
			rec := e.do("POST", pathChat, withMember(pathChat, ""))
			a := answerOf(fault.New(kind, "x"))
			require.NotEmpty(t, a.kind)
			if kind == fault.ClientGone {
				require.Zero(t, rec.Code, "nobody reads it")
				require.Empty(t, rec.Body.String())
				require.EqualValues(t, 499, logged(t, e.log)[0]["status"])
				return
			}
			require.Equal(t, a.status, rec.Code)
			require.NotEmpty(t, http.StatusText(a.status))
			require.Contains(t, rec.Body.String(), "words for the client")
			require.NotContains(t, rec.Body.String(), "10.0.0.7")
			require.Equal(t, a.status == 429 || a.status == 503, rec.Header().Get("Retry-After") != "")
			if a.code != "" {
				other, taken := codes[a.code]
				require.False(t, taken, "%s and %s have the code %s", kind, other, a.code)
				codes[a.code] = kind
			}
			line := logged(t, e.log)[0]
			require.Equal(t, kind.String(), line["fault"])
			require.Contains(t, line["reason"], "10.0.0.7", "the cause is for the log")
			require.Equal(t, "request", line["msg"])
		})
	}
}

// TestAFaultIsNoEnd, whatever caused it: what an engine that hung up left behind is no answer.
func TestAFaultIsNoEnd(t *testing.T) {
	causes := map[string]error{
		"its connection ended":     &engine.Failure{Kind: engine.Broken, Err: &url.Error{Op: "Post", Err: io.EOF}},
		"its body was cut":         &engine.Failure{Kind: engine.Broken, Err: io.ErrUnexpectedEOF},
		"its call was cancelled":   &engine.Failure{Kind: engine.Broken, Err: context.Canceled},
		"its call was not in time": &engine.Failure{Kind: engine.Stalled, Err: context.DeadlineExceeded},
	}
	for name, cause := range causes {
		f := &fault.Fault{Kind: fault.EngineFailed, Message: "words for the client", Err: cause}
		for _, texts := range [][]string{{}, {"x"}} {
			for _, path := range []string{pathChat, pathCompletions} {
				rec := newEdge(t, testConfig(), newFront(broken(f, texts...))).do("POST", path, withMember(path, ""))
				require.Equal(t, 502, rec.Code, name)
				require.Contains(t, rec.Body.String(), "words for the client", name)
				rec = newEdge(t, testConfig(), newFront(broken(f, texts...))).do("POST", path, withMember(path, `"stream":true`))
				require.Contains(t, rec.Body.String(), "words for the client", name)
				require.NotContains(t, rec.Body.String(), "finish_reason\":\"", name)
				require.NotContains(t, rec.Body.String(), "[DONE]", name)
			}
		}
	}
}

func TestEngineRefusalKeepsItsStatus(t *testing.T) {
	for said, want := range map[int]int{400: 400, 413: 413, 422: 422, 0: 400, 500: 400, 200: 400} {
		require.Equal(t, want, answerOf(&fault.Fault{Kind: fault.EngineRefused, Status: said}).status)
	}
	require.Equal(t, 500, answerOf(&fault.Fault{Kind: fault.NumKinds}).status)
	require.Equal(t, "finer", answerOf(&fault.Fault{Kind: fault.BadInput, Code: "finer"}).code)
}

func TestRetryAfterIsWholeSeconds(t *testing.T) {
	for asked, want := range map[time.Duration]int{time.Millisecond: 1, time.Second: 1, 1001 * time.Millisecond: 2, time.Minute: 60} {
		require.Equal(t, strconv.Itoa(want), answerOf(&fault.Fault{Kind: fault.NoReplica, RetryAfter: asked}).retryAfter())
	}
}

// TestOneLogLineARequest, with all that an operator asks for.
func TestOneLogLineARequest(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(says("a", "b")))
	e.do("POST", pathChat, withMember(pathChat, `"n":2,"stream":true`), "X-Request-Id", "mine")
	lines := logged(t, e.log)
	require.Len(t, lines, 1)
	delete(lines[0], "time")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "request", "request": "mine", "answer": "chatcmpl-0123abcd", "route": "chat", "tenant": "default",
		"model": "org/sim", "status": 200., "outcome": "finished", "stream": true, "n": 2., "replica": "a,b",
		"prompt_tokens": 7., "completion_tokens": 4., "cached_tokens": 4., "seconds": 0., "ttft_seconds": 0.,
	}, lines[0])
	e.do("GET", "/health", "")
	require.Len(t, logged(t, e.log), 1, "probes are for debugging")
	metrics := e.do("GET", "/metrics", "").Body.String()
	require.Contains(t, metrics, `plimsoll_ingress_requests_total{model="org/sim",outcome="finished",route="chat"} 1`)
	require.Contains(t, metrics, `plimsoll_ingress_completion_tokens_total{model="org/sim"} 4`)
	require.Contains(t, metrics, "plimsoll_ingress_open_requests 0\n", "a scrape is no work")
}

// TestLongModelNamesAreCut in what is said about them.
func TestLongModelNamesAreCut(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(nil))
	rec := e.do("POST", pathChat, fmt.Sprintf(`{"model":%q}`, strings.Repeat("x", 1000)))
	require.Equal(t, 404, rec.Code)
	require.Less(t, rec.Body.Len(), 400)
}
