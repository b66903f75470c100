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
