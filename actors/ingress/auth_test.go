package ingress

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryRouteButTheOpenOnesNeedsAKey walks the route table, and some paths that are none.
func TestEveryRouteButTheOpenOnesNeedsAKey(t *testing.T) {
	cfg := testConfig()
	cfg.APIKeys = Keys{"team-a": {"secret-key-a"}, "team-b": {"secret-key-b"}}
	front := newFront(says("x"))
	e := newEdge(t, cfg, front)
	paths := append(make([]string, 0, 32),
		"/nowhere", "/v1", "/v1/", "/v1/models/x/y", "/health/x", "/ready/x", "//v1/models", "/health/../metrics", "/health//../metrics", "/x/../health", "/HEALTH",
		"/v1/chat/completions/", "/invocations",
	)
	for _, r := range e.routes() {
		paths = append(paths, strings.NewReplacer("{id...}", "org/sim", "{$}", "").Replace(r.pattern))
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
				if slices.Contains([]string{"/", "/health", "/ready"}, path) || method == "OPTIONS" {
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
	require.Equal(t, 4*5*7+(len(paths)-4)*7, open, "/ is that page's pattern, and that of all other paths")
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
	keys, err := ParseKeys(strings.NewReader("\ufeff# who may call\n\nteam-a: secret-key-a\r\n  secret-key-b  \nteam-a: secret-key-c"))
	require.NoError(t, err)
	require.Equal(t, Keys{"team-a": {"secret-key-a", "secret-key-c"}, "key-4": {"secret-key-b"}}, keys)
	for _, c := range []struct{ file, want string }{
		{"", "no key"},
		{"# only this\n", "no key"},
		{"\nshort\n", "line 2"},
		{"a: secret-key-a\na: secret-key-a\n", "line 2: the key is that of line 1"},
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

// TestKeysAreChangedWhileTheyAreInUse: a name's new key is taken beside its old one, and then alone.
func TestKeysAreChangedWhileTheyAreInUse(t *testing.T) {
	cfg := testConfig()
	cfg.APIKeys = Keys{"team": {"old-secret"}}
	e := newEdge(t, cfg, newFront(says("x")))
	takes := func(key string) bool {
		code := e.do("GET", "/v1/models", "", "x-api-key", key).Code
		require.Contains(t, []int{200, 401}, code)
		return code == 200
	}
	require.True(t, takes("old-secret"))
	require.False(t, takes("new-secret"))
	e.SetKeys(Keys{"team": {"old-secret", "new-secret"}})
	require.True(t, takes("old-secret"))
	require.True(t, takes("new-secret"))
	require.Equal(t, 200, e.do("POST", pathChat, withMember(pathChat, ""), "x-api-key", "new-secret").Code)
	require.Equal(t, "team", e.front.submitted()[0].Tenant, "both are the team's")
	e.SetKeys(Keys{"team": {"new-secret"}})
	require.False(t, takes("old-secret"))
	require.True(t, takes("new-secret"))
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
	cfg.APIKeys = Keys{"team-a": {"secret-key-a"}}
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
