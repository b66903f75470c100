package main

import (
	"errors"
	"fmt"

	"plimsoll/engine/kvevents"
	"plimsoll/engine/vllm"
)

// Words of events= that are no address.
const (
	eventsAuto = "auto"
	eventsOff  = "off"
)

// publisher says how a replica's cache events are found: the address is nil unless it is set. Ports are those of rank 0, to
// which engines add the rank.
func (r ReplicaSpec) publisher() (vllm.EventsMode, *kvevents.Config, error) {
	given, bind := r.Events, false
	switch {
	case r.Events != nil && r.EventsBind != nil:
		return "", nil, errors.New("events and events-bind exclude each other: the engine listens, or it connects")
	case r.EventsBind != nil:
		given, bind = r.EventsBind, true
	case r.Replay != nil && (r.Events == nil || *r.Events == eventsAuto || *r.Events == eventsOff):
		return "", nil, errors.New("replay goes with the publisher's address: write events=tcp://HOST:PORT or events-bind=tcp://HOST:PORT too")
	case r.Events == nil || *r.Events == eventsAuto:
		return vllm.EventsAsk, nil, nil
	case *r.Events == eventsOff:
		return vllm.EventsOff, nil, nil
	}
	config := kvevents.DefaultConfig()
	config.Bind, config.Rank = bind, r.Rank
	var err error
	if config.Endpoint, err = r.ofRank(*given); err == nil && r.Replay != nil {
		config.ReplayEndpoint, err = r.ofRank(*r.Replay)
	}
	if err == nil {
		err = config.Validate()
	}
	if err != nil {
		return "", nil, fmt.Errorf("the events' address: write tcp://HOST:PORT, or auto or off: %w", err)
	}
	return vllm.EventsSet, &config, nil
}

// ofRank is an address of rank 0 as that of the replica's rank.
func (r ReplicaSpec) ofRank(endpoint string) (string, error) {
	rank := 0
	if r.Rank != nil {
		rank = *r.Rank
	}
	return kvevents.OffsetPort(endpoint, rank)
}

// checkBinds says which replicas would have to listen on the same address: each subscription takes one engine's events.
func checkBinds(specs []ReplicaSpec) error {
	taken := map[string]string{} // name by address
	for _, spec := range specs {
		if spec.EventsBind == nil {
			continue
		}
		_, publisher, err := spec.publisher()
		if err != nil {
			return fmt.Errorf("replica %s: %w", spec.Name, err)
		}
		if other, ok := taken[publisher.Endpoint]; ok {
			return fmt.Errorf("replicas %s and %s listen for events on the same address %s: give each its own with events-bind",
				other, spec.Name, publisher.Endpoint)
		}
		taken[publisher.Endpoint] = spec.Name
	}
	return nil
}
