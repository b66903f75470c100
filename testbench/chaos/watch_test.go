package chaos

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/engine/wire"
)

// post is a request as Plimsoll's adapter sends it.
func post(path string, body string) string {
	return fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func prompted(number, tokens int) string {
	a := newAsk(rand.New(rand.NewPCG(1, 2)), Traffic{
		PromptTokens: [2]int{tokens, tokens}, OutputTokens: [2]int{5, 5}, Mix: map[Class]int{Greedy: 1},
	}, number)
	return string(wire.AppendIDs([]byte(`{"prompt":`), a.prompt)) + `,"model":"m","max_tokens":5}`
}

const (
	streamed = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	probed   = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
)

// exchanges is what goes over one connection: requests, and answers to them.
var exchanges = []struct {
	up, down     string
	number       int // -2: it is no request to generate
	promptTokens int
}{
	{"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", probed, -2, 0},
	{post("v1/completions", "{}"), "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", -2, 0},
	{post("v1/completions", prompted(4_123_456, 300)), streamed + "5\r\na\r\n0\r\r\n1\r\nb\r\n0\r\n\r\n", 4_123_456, 300},
	{post("v1/completions", `{"prompt":[1],"max_tokens":1}`), streamed + "1\r\nb\r\n0\r\n\r\n", -1, 1},
	{post("inference/v1/generate", `{"token_ids":[7,8],"sampling_params":{"seed":1099511627781}}`), streamed + "1\r\nb\r\n0\r\n\r\n", 5, 2},
	{post("completion", prompted(3999, 250)), streamed + "1\r\nb\r\n0\r\n\r\n", 3999, 250},
	{post("v1/completions", prompted(3999, 242)), "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy", 3999, 242},
	{"GET /health HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", -2, 0},
}

// However the bytes are cut, each request is seen when it is whole, and each answer's end.
func TestWatchAtAllCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &watch{}
		cut := func(text string, take func([]byte) bool) (times int) {
			for rest := text; rest != ""; {
				n := rapid.IntRange(1, min(len(rest), 400)).Draw(t, "bytes")
				if take([]byte(rest[:n])) {
					times++
					require.Equal(t, n, len(rest), "not before the end")
				}
				rest = rest[n:]
			}
			return times
		}
		for i, e := range exchanges {
			var seen *opening
			cut(e.up, func(data []byte) bool {
				if o := w.request(data); o != nil {
					seen = o
				}
				return false
			})
			if e.number == -2 {
				require.Nil(t, seen, "exchange %d", i)
			} else {
				require.Equal(t, &opening{e.number, e.promptTokens}, seen, "exchange %d", i)
			}
			begun := 0
			ended := cut(e.down, func(data []byte) bool {
				first, last := w.answer(data)
				if first {
					begun++
				}
				return last
			})
			require.Equal(t, 1, ended, "exchange %d", i)
			_, body, _ := strings.Cut(e.down, "\r\n\r\n")
			require.Equal(t, min(len(body), 1), begun)
			require.Equal(t, e.down[9:12], strconv.Itoa(w.status))
		}
	})
}

func TestWatchIsBounded(t *testing.T) {
	w := &watch{}
	require.Nil(t, w.request([]byte("POST /v1/completions HTTP/1.1\r\nX: "+strings.Repeat("a", 2*headBytes))))
	require.LessOrEqual(t, len(w.up.head), headBytes)
	body := `{"prompt":[` + strings.Repeat("1,", bodyBytes) + `1]}`
	w = &watch{}
	require.Equal(t, &opening{number: -1}, w.request([]byte(post("v1/completions", body))), "it is seen, not read")
}
