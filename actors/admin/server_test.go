package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/ingress"
	"plimsoll/actors/stream"
	"plimsoll/engine"
)

// still is an engine that is never asked anything.
type still struct{}

func (still) Capabilities() engine.Capabilities { return engine.Capabilities{Kind: "still"} }

func (still) Probe(context.Context) (engine.Status, error) { return engine.Status{}, nil }

func (still) Generate(context.Context, engine.Request, func(engine.Event) error) error { return nil }

func (still) Close() error { return nil }

func edge(authorized bool) http.Handler { return edgeWith(authorized, true) }

func edgeWith(authorized, orders bool) http.Handler {
	refs := []*fleet.Ref{
		fleet.NewRef("b", "m", still{}, nil), fleet.NewRef("a", "m", still{}, nil), fleet.NewRef("z", "l", still{}, nil),
	}
	return New(Deps{
		Replicas: func() []*fleet.Ref { return refs },
		NameOf:   func(model string) string { return "org/" + model },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("plimsoll_up 1\n"))
		}),
		Add: func(spec string) error {
			if spec != "good" {
				return fault.New(fault.BadInput, "no such kind")
			}
			return nil
		},
		Remove: func(name string) error {
			if name != "a/b" {
				return fault.New(fault.NotFound, "there is no replica %q", name)
			}
			return nil
		},
		Drain: func(name string, wait *time.Duration) error {
			if name != "a/b" {
				return fault.New(fault.NotFound, "there is no replica %q", name)
			}
			if wait != nil && *wait != 7*time.Second {
				return fault.New(fault.BadInput, "waits %s", *wait)
			}
			return nil
		},
		Undrain: func(name string) error {
			if name != "a/b" {
				return fault.New(fault.NotFound, "there is no replica %q", name)
			}
			return nil
		},
		Decisions: func(most int) []explain.Record { return make([]explain.Record, min(most, 30)) },
		DecisionsOf: func(request string) []explain.Record {
			if request != "known/1" {
				return nil
			}
			return []explain.Record{{Request: request}}
		},
		Suppose: func(_ context.Context, req *stream.Request) (explain.Record, error) {
			if req.Model == "gone" {
				return explain.Record{}, fault.New(fault.ModelNotFound, "there is no model %q", req.Model)
			}
			said, err := json.Marshal(req)
			return explain.Record{Summary: string(said)}, err
		},
		Urgency:    ingress.DefaultConfig().Urgency,
		Authorized: func(http.Header) bool { return authorized },
		Now:        time.Now,
		Orders:     orders,
	})
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

func TestReplicasAreReportedInOrder(t *testing.T) {
	w := get(t, edge(true), "/admin/replicas")
	require.Equal(t, http.StatusOK, w.Code)
	var body struct {
		Replicas []Replica `json:"replicas"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	names := make([]string, 0, len(body.Replicas))
	for _, r := range body.Replicas {
		names = append(names, r.Model+"/"+r.Name)
		require.Equal(t, "starting", r.State)
		require.Equal(t, "still", r.Engine)
		require.Nil(t, r.Capacity, "it has told nothing yet")
		require.Equal(t, Index{State: "none", Void: true}, r.Index)
	}
	require.Equal(t, []string{"org/l/z", "org/m/a", "org/m/b"}, names)
}

func TestOrders(t *testing.T) {
	for _, tc := range []struct {
		method, path, body string
		want               int
		says               string
	}{
		{http.MethodPost, "/admin/replicas", `{"replica":"good"}`, http.StatusCreated, "ok"},
		{http.MethodPost, "/admin/replicas", `{"replica":"bad"}`, http.StatusBadRequest, "no such kind"},
		{http.MethodPost, "/admin/replicas", `{}`, http.StatusBadRequest, "--replica"},
		{http.MethodPost, "/admin/replicas", `{"replicas":"good"}`, http.StatusBadRequest, "--replica"},
		{http.MethodPost, "/admin/replicas", `{`, http.StatusBadRequest, "--replica"},
		{http.MethodPost, "/admin/replicas", `{"replica":"good"} {}`, http.StatusBadRequest, "--replica"},
		{http.MethodDelete, "/admin/replicas/a/b", "", http.StatusAccepted, "ok"},
		{http.MethodDelete, "/admin/replicas/c", "", http.StatusNotFound, "c"},
		{http.MethodPost, "/admin/replicas/a/b/drain", "", http.StatusAccepted, "ok"},
		{http.MethodPost, "/admin/replicas/a/b/drain?timeout=7s", "", http.StatusAccepted, "ok"},
		{http.MethodPost, "/admin/replicas/a/b/drain?timeout=0s", "", http.StatusBadRequest, "waits 0s"},
		{http.MethodPost, "/admin/replicas/a/b/drain?timeout=soon", "", http.StatusBadRequest, "no time to wait"},
		{http.MethodPost, "/admin/replicas/a/b/drain?timeout=-1s", "", http.StatusBadRequest, "no time to wait"},
		{http.MethodPost, "/admin/replicas/a/b/undrain", "", http.StatusAccepted, "ok"},
		{http.MethodPost, "/admin/replicas/c/drain", "", http.StatusNotFound, "c"},
		{http.MethodPost, "/admin/replicas/c/undrain", "", http.StatusNotFound, "c"},
		{http.MethodPost, "/admin/replicas/a/b", "", http.StatusNotFound, "there is no POST"},
	} {
		for _, authorized := range []bool{true, false} {
			w := httptest.NewRecorder()
			edge(authorized).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, strings.NewReader(tc.body)))
			if !authorized {
				require.Equal(t, http.StatusUnauthorized, w.Code)
				continue
			}
			require.Equal(t, tc.want, w.Code, "%s %s %s", tc.method, tc.path, tc.body)
			require.Contains(t, w.Body.String(), tc.says)
		}
	}
}

// TestPagesOfOthersGiveNoOrders, whoever reads them in a browser that reaches the port.
func TestPagesOfOthersGiveNoOrders(t *testing.T) {
	for _, order := range []struct{ method, path, body string }{
		{http.MethodPost, "/admin/replicas", `{"replica":"good"}`},
		{http.MethodDelete, "/admin/replicas/a/b", ""},
		{http.MethodPost, "/admin/replicas/a/b/drain", ""},
	} {
		for _, header := range []struct{ name, value string }{
			{"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://elsewhere.example"},
		} {
			r := httptest.NewRequestWithContext(t.Context(), order.method, order.path, strings.NewReader(order.body))
			r.Header.Set(header.name, header.value)
			w := httptest.NewRecorder()
			edge(true).ServeHTTP(w, r)
			require.Equal(t, http.StatusForbidden, w.Code)
			require.Contains(t, w.Body.String(), "pages of other origins")
		}
	}
}

func TestWhatIsNotThereIsSaidInJSON(t *testing.T) {
	for _, path := range []string{"/", "/nowhere", "/admin"} {
		w := get(t, edge(true), path)
		require.Equal(t, http.StatusNotFound, w.Code)
		require.JSONEq(t, `{"error":{"message":"there is no GET `+path+`","type":"not_found"}}`, w.Body.String())
	}
}

func TestOrdersCanBeClosed(t *testing.T) {
	for method, path := range map[string]string{http.MethodPost: "/admin/replicas", http.MethodDelete: "/admin/replicas/a/b"} {
		w := httptest.NewRecorder()
		edgeWith(true, false).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(`{"replica":"good"}`)))
		require.Equal(t, http.StatusForbidden, w.Code)
		require.Contains(t, w.Body.String(), "--admin-key-file")
	}
	require.Equal(t, http.StatusOK, get(t, edgeWith(true, false), "/admin/replicas").Code)
}

func TestOnlyTheProbeIsOpen(t *testing.T) {
	for path, want := range map[string]int{
		"/health": http.StatusOK, "/metrics": http.StatusUnauthorized, "/admin/replicas": http.StatusUnauthorized,
		"/debug/decisions": http.StatusUnauthorized, "/debug/decisions/x": http.StatusUnauthorized,
		"/nowhere": http.StatusNotFound,
	} {
		w := get(t, edge(false), path)
		require.Equal(t, want, w.Code, path)
		if want == http.StatusUnauthorized {
			require.NotEmpty(t, w.Header().Get("WWW-Authenticate"))
		}
	}
	require.Equal(t, "plimsoll_up 1\n", get(t, edge(true), "/metrics").Body.String())
}
