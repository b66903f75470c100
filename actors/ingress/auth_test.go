package ingress

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryRouteButTheProbesNeedsAKey walks the route table, and some paths that are none.
func TestEveryRouteButTheProbesNeedsAKey(t *testing.T) {
	cfg := testConfig()
	cfg.APIKeys = map[string]string{"team-a": "secret-key-a", "team-b": "secret-key-b"}
	front := newFront(says("x"))
	e := newEdge(t, cfg, front)
	paths := append(make([]string, 0, 32),
		"/nowhere", "/v1", "/v1/", "/v1/models/x/y", "/health/x", "/ready/x", "//v1/models", "/health/../metrics", "/health//../metrics", "/x/../health", "/HEALTH",
		"/v1/chat/completions/", "/invocations",
	)
	for _, r := range e.routes() {
		paths = append(paths, strings.ReplaceAll(r.pattern, "{id...}", "org/sim"))
	}
	open := 0
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "DELETE"} {
			for _, header := range [][]string{
				nil,
				{"Authorization", "Bearer wrong"},
				{"Authorization", "Bearer "},
				{"Authorization", "secret-key-a"},
				{"Authorization", "Basic secret-key-a"},
				{"x-api-key", "secret-key-"},
				{"x-api-key", "secret-key-aa"},
			} {
				rec := e.do(method, path, "", header...)
				if isProbePath(path) {
					require.NotEqual(t, 401, rec.Code)
					open++
					continue
				}
				require.Equal(t, 401, rec.Code, "%s %s %v", method, path, header)
				require.Contains(t, rec.Header().Get("WWW-Authenticate"), "Bearer")
				require.Contains(t, rec.Body.String(), `"code":"invalid_api_key"`)
				require.NotContains(t, rec.Body.String(), "secret")
			}
		}
	}
	require.Equal(t, 2*5*7, open)
	require.Empty(t, front.submitted())

	for _, c := range []struct {
		tenant string
		header []string
	}{
		{"team-a", []string{"Authorization", "Bearer secret-key-a"}},
		{"team-b", []string{"Authorization", "bearer  secret-key-b"}},
		{"team-b", []string{"x-api-key", "secret-key-b"}},
		{"team-a", []string{"Authorization", "Bearer wrong", "x-api-key", "secret-key-a"}},
	} {
		rec := e.do("POST", pathChat, withMember(pathChat, ""), c.header...)
		require.Equal(t, 200, rec.Code, "%v", c.header)
		all := front.submitted()
		require.Equal(t, c.tenant, all[len(all)-1].Tenant)
	}
	require.Equal(t, 200, e.do("GET", "/metrics", "", "x-api-key", "secret-key-a").Code)
}

func TestParseKeys(t *testing.T) {
	keys, err := ParseKeys(strings.NewReader("\ufeff# who may call\n\nteam-a: secret-key-a\r\n  secret-key-b  \n"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"team-a": "secret-key-a", "key-4": "secret-key-b"}, keys)
	for _, c := range []struct{ file, want string }{
		{"", "no key"},
		{"# only this\n", "no key"},
		{"\nshort\n", "line 2"},
		{"a: secret-key-a\na: secret-key-b\n", `line 2: the name "a" comes twice`},
		{"a: secret-key-a\nb: secret-key-a\n", "line 2: the key is that of line 1"},
		{": secret-key-a\n", "line 1: the name"},
		{"a b: secret-key-a\n", "line 1: the name"},
		{"a: secret key a\n", "line 1: a key"},
		{"a: secret-key-ä\n", "line 1: a key"},
		{strings.Repeat("x", 1<<17), "read the keys"},
	} {
		_, err := ParseKeys(strings.NewReader(c.file))
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "secret", "an error never prints a key")
	}
}

func TestRequestIDs(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(nil))
	for id, want := range map[string]string{
		"abc-DEF_1.2:/+=@":       "abc-DEF_1.2:/+=@",
		"":                       "0123abcd",
		"a b":                    "0123abcd",
		"a\"b":                   "0123abcd",
		"é":                      "0123abcd",
		strings.Repeat("x", 128): strings.Repeat("x", 128),
		strings.Repeat("x", 129): "0123abcd",
	} {
		rec := e.do(http.MethodGet, "/health", "", "X-Request-Id", id)
		require.Equal(t, want, rec.Header().Get("X-Request-Id"))
	}
}

// Probes need no key. Who shows none learns how many replicas there are, and nothing of where they are.
func TestWithoutAKeyReadySaysHowManyReplicasThereAreAndNotWhich(t *testing.T) {
	cfg := testConfig()
	cfg.APIKeys = map[string]string{"team-a": "secret-key-a"}
	front := newFront(says("x"))
	front.health = Health{Ready: true, Replicas: []Replica{
		{Name: "gpu-7.internal:8000", Model: "m", State: "ready"},
		{Name: "gpu-8.internal:8000", Model: "m", State: "ready"},
		{Name: "gpu-9.internal:8000", Model: "m", State: "down"},
	}}
	e := newEdge(t, cfg, front)
	for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}} {
		rec := e.do("GET", "/ready", "", header...)
		require.Equal(t, 200, rec.Code)
		require.JSONEq(t, `{"status":"ready","states":{"ready":2,"down":1}}`, rec.Body.String())
	}
	rec := e.do("GET", "/ready", "", "Authorization", "Bearer secret-key-a")
	require.Equal(t, 200, rec.Code)
	require.Contains(t, rec.Body.String(), `{"name":"gpu-9.internal:8000","model":"m","state":"down"}`)
	open := newEdge(t, testConfig(), front).do("GET", "/ready", "")
	require.Contains(t, open.Body.String(), "gpu-7", "where no key is needed, all may be asked")
}
