package vllm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// A server of another kind is told by what was asked, what came, and which kinds there are to choose from.
func TestAServerOfAnotherKindIsNamedByPathStatusAndKind(t *testing.T) {
	const question = ": is this a vllm server? (kinds: llamacpp, vllm)"
	want := map[string]string{
		"Ollama":       "asked GET /health, got 404" + question,
		"TGI":          `asked GET /v1/models, got 200 and models that are owned by "org/m"` + question,
		"SGLang":       "asked GET /metrics, got 404" + question,
		"TensorRT-LLM": `asked GET /metrics, got 200 with "application/json", which cannot be read`,
		"a page":       `asked GET /v1/models, got 200 with "text/html; charset=utf-8", which cannot be read`,
		"a redirect":   "asked GET /health, got 302: which sends us elsewhere" + question,
	}
	strangers := enginetest.Strangers()
	require.Len(t, want, len(strangers))
	for name, stranger := range strangers {
		t.Run(name, func(t *testing.T) {
			url := enginetest.Serve(t, stranger.Serve)
			e := engineAt(t, url, func(c *Config) { c.Kinds = []string{"llamacpp", "vllm"} })
			for range 2 {
				_, err := e.Probe(t.Context())
				require.ErrorContains(t, err, want[name])
				require.ErrorContains(t, err, question)
				require.NotContains(t, err.Error(), "127.0.0.1", "an address")
				require.NotContains(t, err.Error(), "login.example", "where it sends us")
			}
		})
	}
}

// Forks and gateways of vLLM may lack one of the two things by which it is known.
func TestAServerThatShowsToBeVLLMIsTakenForIt(t *testing.T) {
	const list = `{"data":[{"id":"m","max_model_len":64,"owned_by":"somebody"}]}`
	for name, change := range map[string]func(enginetest.Site){
		"by its metrics":             func(s enginetest.Site) { s["/v1/models"] = enginetest.Saying(200, list) },
		"by its models' owner":       func(s enginetest.Site) { s["/metrics"] = enginetest.Saying(404, "") },
		"without its log statistics": func(s enginetest.Site) { s["/metrics"] = enginetest.Saying(200, "process_open_fds 3\n") },
		"by nothing that says it not": func(s enginetest.Site) {
			s["/v1/models"] = enginetest.Saying(200, `{"data":[{"id":"m","max_model_len":64}]}`)
		},
	} {
		site := siteOf(t, "metrics-idle")
		change(site)
		_, err := engineAt(t, site.Serve(t)).Probe(t.Context())
		require.NoError(t, err, name)
	}
}

func TestAKeyThatIsWantedIsAskedFor(t *testing.T) {
	site := siteOf(t, "metrics-idle")
	site["/v1/models"] = recordedAnswer(t, "variants/05-open-v1-models")
	_, err := engineAt(t, site.Serve(t)).Probe(t.Context())
	enginetest.FailureIn(t, err, engine.Operator)
	require.ErrorContains(t, err, "asked GET /v1/models, got 401: Unauthorized: does it want an API key?")
	require.ErrorContains(t, err, "api-key-env=")
}

// One process is one engine under all its names; two are two, though they may have begun in the same hundredth of a second.
func TestOneProcessIsKnownUnderAllItsNames(t *testing.T) {
	const started = "process_start_time_seconds 1.79598270176e+09\n"
	site := siteOf(t, "metrics-idle")
	site["/metrics"] = enginetest.Saying(200, started)
	process := func(url string) string {
		st, err := engineAt(t, url).Probe(t.Context())
		require.NoError(t, err)
		return st.Process
	}
	one, other := site.Serve(t), site.Serve(t)
	local := func(host string) string { return "http://" + host + one[len("http://127.0.0.1"):] }
	require.Equal(t, process(one), process(local("localhost")))
	require.Contains(t, process(one), "start:1795982701.76@")
	require.NotEqual(t, process(one), process(other), "begun at once, at two ports")
	site["/metrics"] = enginetest.Saying(200, started+"vllm:prompt_tokens_created{engine=\"0\"} 1.795982926856558e+09\n")
	require.Equal(t, process(one), process(other), "the same moment in all digits, whatever way led there")
	site["/metrics"] = enginetest.Saying(200, "vllm:prompt_tokens_total 1\n")
	require.Empty(t, process(one), "nothing tells")
}
