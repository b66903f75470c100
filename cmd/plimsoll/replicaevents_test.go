package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/kvevents"
	"plimsoll/engine/vllm"
)

// TestWhereEventsComeFrom: addresses are rank 0's, to which the rank is added.
func TestWhereEventsComeFrom(t *testing.T) {
	listening := func(endpoint, replay string, bind bool, rank *int) *kvevents.Config {
		c := kvevents.DefaultConfig()
		c.Endpoint, c.ReplayEndpoint, c.Bind, c.Rank = endpoint, replay, bind, rank
		return &c
	}
	for options, want := range map[string]struct {
		mode      vllm.EventsMode
		publisher *kvevents.Config
	}{
		"":             {vllm.EventsAsk, nil},
		",events=auto": {vllm.EventsAsk, nil},
		",events=off":  {vllm.EventsOff, nil},
		",events=tcp://h:5557,replay=tcp://h:5657":        {vllm.EventsSet, listening("tcp://h:5557", "tcp://h:5657", false, nil)},
		",events=tcp://h:5557,replay=tcp://h:5657,rank=2": {vllm.EventsSet, listening("tcp://h:5559", "tcp://h:5659", false, new(2))},
		",events-bind=tcp://*:5557,rank=1":                {vllm.EventsSet, listening("tcp://*:5558", "", true, new(1))},
	} {
		t.Run(options, func(t *testing.T) {
			spec, err := ParseReplica("vllm=http://a:1"+options, 1)
			require.NoError(t, err)
			mode, publisher, err := spec.publisher()
			require.NoError(t, err)
			require.Equal(t, want.mode, mode)
			require.Equal(t, want.publisher, publisher)
		})
	}
}

func TestReplicasDoNotListenOnTheSameAddress(t *testing.T) {
	spec := func(text string) ReplicaSpec {
		s, err := ParseReplica(text, 1)
		require.NoError(t, err)
		return s
	}
	a, b := spec("vllm=http://a:1,name=a,events-bind=tcp://*:5557"), spec("vllm=http://b:1,name=b,events-bind=tcp://*:5557")
	next := spec("vllm=http://c:1,name=c,events-bind=tcp://*:5557,rank=1")
	require.NoError(t, checkBinds([]ReplicaSpec{a, next, spec("vllm=http://d:1")}))
	require.ErrorContains(t, checkBinds([]ReplicaSpec{a, next, b}), "replicas a and b listen for events on the same address tcp://*:5557")
}
