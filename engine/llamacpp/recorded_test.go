package llamacpp

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/testbench/shared"
)

// conclusion is what a recorded answer must make the adapter say.
type conclusion struct {
	ids    []uint32
	lost   map[int]int // place in ids: IDs lost before it
	cached []int
	finish engine.FinishReason // if fail is nil
	fail   *engine.FailKind
	status int    // of the failure
	words  string // part of the failure's text
}

func fails(kind engine.FailKind, status int, words string, ids ...uint32) conclusion {
	return conclusion{fail: &kind, status: status, words: words, ids: ids}
}

var (
	capital     = []uint32{506, 5279, 529, 506, 2891, 529, 7001, 236761, 1030, 563, 506, 7488}
	notAStream  = fails(engine.Broken, 0, "content type")
	poolFullIDs = append([]uint32{236743, 236770}, repeated(236771, 60)...)
)

func repeated(id uint32, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = id
	}
	return out
}

// conclusions holds every recorded file of /completion and those of other routes whose status decides.
func conclusions() map[string]conclusion {
	stop, length := engine.FinishStop, engine.FinishLength
	return map[string]conclusion{
		"completion/stream-plain":           {ids: capital, cached: []int{1}, finish: length},
		"completion/stream-tokens":          {ids: capital, cached: []int{1}, finish: length},
		"completion/stream-timings":         {ids: capital[:3], cached: []int{1, 1, 1, 1}, finish: length},
		"completion/stream-nprobs":          {ids: capital[:3], cached: []int{1}, finish: length},
		"completion/n-predict-0-stream":     {ids: capital[:1], cached: []int{1}, finish: length},
		"completion/stop-word-stream":       {ids: capital[:6], cached: []int{1, 1}, finish: stop},
		"completion/eos-stream":             {ids: []uint32{1}, cached: []int{1}, finish: stop},
		"completion/ctx-full-stream":        {ids: []uint32{621, 236749, 8455, 8455, 8455, 8455, 8455, 8455}, cached: []int{1}, finish: length},
		"completion/stream-queued":          {ids: []uint32{108, 818, 5279, 529}, cached: []int{2}, finish: length},
		"completion/stream-ping":            {ids: []uint32{236743, 236770}, cached: []int{0}, finish: length},
		"completion/progress-stream":        {ids: []uint32{236743, 236770}, cached: []int{0, 0}, finish: length},
		"completion/progress-stream-cached": {ids: []uint32{236743, 236770}, cached: []int{701, 701}, finish: length},
		"completion/stream-utf8-split": {
			ids: []uint32{236781, 401, 402, 236762, 1}, lost: map[int]int{1: 2, 2: 2}, cached: []int{2}, finish: stop,
		},
		"completion/stream-utf8-cut": {ids: []uint32{236781}, cached: []int{1}, finish: length},
		"completion/multi-stream":    fails(engine.Broken, 0, "frame for prompt 1"),

		"faults/kill9-mid-stream":        fails(engine.Broken, 0, "unexpected EOF", capital[:5]...),
		"faults/sigterm-mid-stream":      fails(engine.Broken, 0, "unexpected EOF", capital[:5]...),
		"faults/conv-id-stream-cut":      fails(engine.Broken, 0, "unexpected EOF", capital[:2]...),
		"faults/conv-id-stream-resume":   {ids: capital[:8], cached: []int{0}, finish: length},
		"faults/conv-id-unknown":         fails(engine.Operator, 404, ""),
		"faults/kvu-pool-full-prefill":   fails(engine.Broken, 500, "Context size has been exceeded"),
		"faults/kvu-pool-full-decode":    fails(engine.Broken, 500, "Context size has been exceeded", poolFullIDs...),
		"faults/kvu-pool-full-nonstream": fails(engine.Broken, 500, "Context size has been exceeded"),
		"faults/loading-completion":      fails(engine.Shed, 503, "Loading model"),
		"faults/loading-health":          fails(engine.Shed, 503, "Loading model"),
		"faults/loading-metrics":         fails(engine.Shed, 503, "Loading model"),
		"faults/loading-props":           fails(engine.Shed, 503, "Loading model"),
		"faults/loading-v1-models":       fails(engine.Shed, 503, "Loading model"),
		"info/slots-fail-on-no-slot":     fails(engine.Shed, 503, "no slot available"),

		"errors/ctx":                  fails(engine.Client, 400, "request (1101 tokens) exceeds the available context size (1024 tokens)"),
		"errors/ctx-stream":           fails(engine.Client, 400, "request (1101 tokens) exceeds the available context size (1024 tokens)"),
		"errors/ctx-equal":            fails(engine.Client, 400, "request (1024 tokens) exceeds the available context size (1024 tokens)"),
		"errors/ctx-chat":             fails(engine.Client, 400, "request (1209 tokens) exceeds"),
		"errors/bad-json":             fails(engine.Client, 400, "parse error at line 1, column 15"),
		"errors/wrong-type":           fails(engine.Client, 400, "type must be number, but is string"),
		"errors/no-prompt":            fails(engine.Client, 400, "key 'prompt' not found"),
		"errors/empty-prompt":         fails(engine.Client, 400, `"prompt" must not be empty`),
		"errors/token-negative":       fails(engine.Client, 400, "Prompt contains invalid tokens"),
		"errors/token-out-of-range":   fails(engine.Client, 400, "Prompt contains invalid tokens"),
		"errors/chat-no-messages":     fails(engine.Client, 400, "'messages' is required"),
		"errors/chat-roles":           fails(engine.Client, 400, "Conversation roles must alternate"),
		"errors/auth-bad":             fails(engine.Operator, 401, "Invalid API Key"),
		"errors/auth-none":            fails(engine.Operator, 401, "Invalid API Key"),
		"errors/auth-completion-none": fails(engine.Operator, 401, "Invalid API Key"),
		"errors/404":                  fails(engine.Operator, 404, "File Not Found"),
		"errors/405":                  fails(engine.Operator, 404, "File Not Found"),
		"errors/metrics-disabled":     fails(engine.Operator, 501, "does not support metrics"),
		"errors/props-post":           fails(engine.Operator, 501, "does not support changing"),
		"errors/slot-action":          fails(engine.Operator, 501, "does not support slots action"),
		"errors/slots-disabled":       fails(engine.Operator, 501, "does not support slots endpoint"),

		"completion/text": notAStream, "completion/tokens": notAStream, "completion/tokens-no-bos": notAStream,
		"completion/mixed": notAStream, "completion/multi": notAStream, "completion/n-cmpl": notAStream,
		"completion/nprobs": notAStream, "completion/nprobs-post": notAStream, "completion/no-cache": notAStream,
		"completion/n-predict-0": notAStream, "completion/idslot": notAStream, "completion/idslot-again": notAStream,
		"completion/json-schema": notAStream, "completion/response-fields": notAStream,
		"completion/stop-word": notAStream, "completion/utf8-split": notAStream,
		"errors/unknown-slot": notAStream, "errors/empty-string-prompt": notAStream, "errors/slot-unknown": notAStream,
	}
}

func TestRecordedAnswers(t *testing.T) {
	table := conclusions()
	seen := 0
	for _, rec := range recordings(t) {
		want, listed := table[rec.name]
		if listed {
			seen++
		}
		t.Run(rec.name, func(t *testing.T) {
			require.True(t, listed || strings.HasPrefix(rec.name, "info/") || strings.HasPrefix(rec.name, "faults/sleep-"),
				"a recording of /completion without a conclusion")
			h := generate(t, engineOf(t, rec.replay), rec.request())
			if !listed {
				failureIn(t, h.err, engine.Broken)
				return
			}
			want.check(t, h)
		})
	}
	require.Len(t, table, seen, "a conclusion without its recording")
}

// check compares what was heard with the conclusion.
func (want conclusion) check(t *testing.T, h heard) {
	t.Helper()
	require.Equal(t, want.ids, h.ids())
	for i, token := range h.tokens {
		require.Equal(t, want.lost[i], token.LostIDs, "token %d", i)
		require.Equal(t, want.lost[i] > 0, token.Text != nil, "only a token after lost ones carries text")
	}
	require.Equal(t, want.cached, h.cached)
	if want.fail == nil {
		require.NoError(t, h.err)
		require.Equal(t, want.finish, h.finish.Reason)
		return
	}
	failure := failureIn(t, h.err, *want.fail)
	require.Equal(t, want.status, failure.Status)
	require.Equal(t, want.status != 0, failure.FromEngine)
	require.Contains(t, h.err.Error(), want.words)
}

// Bodies that are not ours, old or new, end in a finish or a failure; those we know conclude the same.
func TestSharedRecordings(t *testing.T) {
	table := conclusions()
	for _, rec := range readRecordings(t, shared.Path(t, "testdata", "engines", "llamacpp")) {
		t.Run(rec.name, func(t *testing.T) {
			h := generate(t, engineOf(t, rec.replay), rec.request())
			if want, listed := table[rec.name]; listed {
				want.check(t, h)
			}
		})
	}
}

func TestOtherProtocolsAreBroken(t *testing.T) {
	for _, body := range []string{
		"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n",
		"event: message_start\ndata: {\"type\":\"message_start\"}\n\n",
		"data: []\n\n",
		"data: 7\n\n",
		"data: {\n\n",
		"data: {\"tokens\":[-1],\"stop\":false}\n\n",
		"data: {\"tokens\":[4294967296],\"stop\":false}\n\n",
		"data: {\"tokens\":\"x\",\"stop\":false}\n\n",
		"data: {\"stop\":\"yes\"}\n\n",
		"data: [DONE]\n\n",
		"data: null\n\n",
		"",
		": ping\n\n",
	} {
		h := generate(t, engineOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, body)
		}), requestOf(4))
		failureIn(t, h.err, engine.Broken)
		require.Empty(t, h.tokens)
	}
}

// streamOf runs a body through the decoder without a server.
func streamOf(body io.Reader, req engine.Request) (h heard) {
	cfg := DefaultConfig()
	e := &Engine{cfg: cfg}
	refused, err := e.stream(body, req, h.take)
	if refused != nil {
		panic(refused)
	}
	h.err = err
	return h
}

func TestStreamsConcludeTheSameHoweverTheyAreCut(t *testing.T) {
	const smallBytes = 2300 // longer ones, whose last frame repeats a long prompt, show nothing more for a lot of time
	streams, small := 0, 0
	for _, rec := range recordings(t) {
		if rec.Response.BodyFile == "" {
			continue
		}
		streams++
		t.Run(rec.name, func(t *testing.T) {
			whole := streamOf(bytes.NewReader(rec.body), rec.request())
			require.Equal(t, whole, streamOf(iotest.OneByteReader(bytes.NewReader(rec.body)), rec.request()))
			if len(rec.body) > smallBytes {
				return
			}
			small++
			for cut := range len(rec.body) + 1 {
				halves := io.MultiReader(bytes.NewReader(rec.body[:cut]), bytes.NewReader(rec.body[cut:]))
				require.Equal(t, whole, streamOf(halves, rec.request()), "cut at %d", cut)
			}
		})
	}
	require.Greater(t, streams, 15)
	require.Greater(t, small, 7)
}

// Whatever part of a stream is missing at its end, the answer is a prefix of the whole and never complete.
func TestATruncatedStreamIsNeverComplete(t *testing.T) {
	rec := named(t, "completion/stream-utf8-split")
	whole := streamOf(bytes.NewReader(rec.body), rec.request())
	require.NoError(t, whole.err)
	end := len(rec.body) - 1 // the blank line's last byte completes the last frame
	for cut := range end {
		h := streamOf(bytes.NewReader(rec.body[:cut]), rec.request())
		failureIn(t, h.err, engine.Broken)
		require.Nil(t, h.finish)
		require.Equal(t, whole.ids()[:len(h.tokens)], append([]uint32{}, h.ids()...), "cut at %d", cut)
	}
}
