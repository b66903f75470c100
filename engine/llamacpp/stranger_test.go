package llamacpp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/enginetest"
)

// A server of another kind is told by what was asked, what came, and which kinds there are to choose from.
func TestAServerOfAnotherKindIsNamedByPathStatusAndKind(t *testing.T) {
	const question = ": is this a llamacpp server? (kinds: llamacpp, vllm)"
	want := map[string]string{
		"Ollama":       "asked GET /health, got 404" + question,
		"TGI":          "asked GET /props, got 404" + question,
		"SGLang":       "asked GET /props, got 404" + question,
		"TensorRT-LLM": "asked GET /props, got 404" + question,
		"a page":       `asked GET /props, got 200 with "text/html; charset=utf-8", which cannot be read`,
		"a redirect":   "asked GET /health, got 302: which sends us elsewhere" + question,
	}
	strangers := enginetest.Strangers()
	require.Len(t, want, len(strangers))
	for name, stranger := range strangers {
		t.Run(name, func(t *testing.T) {
			e := engineAt(t, enginetest.Serve(t, stranger.Serve), func(c *Config) { c.Kinds = []string{"llamacpp", "vllm"} })
			_, err := e.Probe(t.Context())
			require.ErrorContains(t, err, want[name])
			require.ErrorContains(t, err, question)
		})
	}
}

func TestTheServerIsAskedOnceALifeWhatItsModelIs(t *testing.T) {
	asked := 0
	site := siteOf(t)
	describe := site["/v1/models"]
	site["/v1/models"] = func(s *enginetest.Session) {
		asked++
		describe(s)
	}
	e := engineAt(t, site.Serve(t))
	for range 3 {
		st, err := e.Probe(t.Context())
		require.NoError(t, err)
		require.Equal(t, 262144, *st.VocabTokens)
		*st.VocabTokens = 0 // what a probe gives is the caller's own
	}
	require.Equal(t, 1, asked)
}

func TestAStartTimeNamesAProcessTogetherWithItsPlace(t *testing.T) {
	require.Equal(t, "marker:x", processOf("marker:x", "10.0.0.1:8080"))
	require.Equal(t, "start:7@10.0.0.1:8080", processOf("start:7", "10.0.0.1:8080"))
	require.Empty(t, processOf("start:7", ""), "two machines may have begun as long ago")
	require.Empty(t, processOf("", "10.0.0.1:8080"))
}
