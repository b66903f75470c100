package ingress

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/stream"
)

// A request that names no model means the only one that is served; its adapters do not make it ambiguous, and must be named.
func TestAdaptersDoNotCountWhereNoModelIsNamed(t *testing.T) {
	front := newFront(func(*stream.Request, *stream.Response) {})
	adapter := front.models[0]
	adapter.Name, adapter.Parent = "poet", front.models[0].Name
	front.models = append(front.models, adapter)
	s := &Server{deps: Deps{Front: front}}
	m, f := s.lookUp(nil)
	require.Nil(t, f)
	require.Equal(t, "org/sim", m.Name)
	name := "poet"
	m, f = s.lookUp(&name)
	require.Nil(t, f)
	require.Equal(t, "poet", m.Name)
	other := front.models[0]
	other.Name = "org/other"
	front.models = append(front.models, other)
	_, f = s.lookUp(nil)
	require.NotNil(t, f, "two models are served")
	require.Len(t, front.models, 3, "the list is the front's")
}

// The model comes first, then its other names, then its adapters, whatever the alphabet says; each says what it is of.
func TestTheListOfModelsBeginsWithTheModel(t *testing.T) {
	front := newFront(func(*stream.Request, *stream.Response) {})
	base := front.models[0]
	base.Name, base.Root = "zephyr", "org/zephyr-7b"
	alias, adapter := base, base
	alias.Name, alias.Alias = "org/zephyr-7b", true
	adapter.Name, adapter.Parent = "a-poet", "zephyr"
	front.models = []Model{base, alias, adapter}
	e := newEdge(t, testConfig(), front)
	require.JSONEq(t, `{"object":"list","data":[
		{"id":"zephyr","object":"model","created":1700000000,"owned_by":"plimsoll","root":"org/zephyr-7b","parent":null,"max_model_len":4096},
		{"id":"org/zephyr-7b","object":"model","created":1700000000,"owned_by":"plimsoll","root":"org/zephyr-7b","parent":null,"max_model_len":4096},
		{"id":"a-poet","object":"model","created":1700000000,"owned_by":"plimsoll","root":"org/zephyr-7b","parent":"zephyr","max_model_len":4096}
	]}`, e.do("GET", "/v1/models", "").Body.String())
	m, f := e.lookUp(nil)
	require.Nil(t, f, "other names make no other model")
	require.Equal(t, "zephyr", m.Name)
}

// Before an engine has said what its model is called no name can be told from a wrong one.
func TestANameThatMayBeRightIsNotRefusedForGood(t *testing.T) {
	front := newFront(says("x"))
	e := newEdge(t, testConfig(), front)
	const body = `{"model":"llama","prompt":"x"}`
	require.Equal(t, 404, e.do("POST", "/v1/completions", body).Code)
	front.health.Unnamed = true
	rec := e.do("POST", "/v1/completions", body)
	require.Equal(t, 503, rec.Code)
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	require.Contains(t, rec.Body.String(), "no engine has said yet")
}
