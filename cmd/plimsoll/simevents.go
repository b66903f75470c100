package main

import (
	"fmt"
	"net"
	"strconv"

	"plimsoll/testbench/kvpub"
)

// simEvents says how `plimsoll sim` publishes its engines' cache events.
type simEvents struct {
	Form    string  // "map", "array" or "off"
	Port    int     // of the first replica; its replay has the next one, the others those that follow; 0: any free ones
	Connect *string // HOST:PORT of a bound subscriber, the others' the ports that follow; nil: it listens
	Topic   string
}

func defaultSimEvents() simEvents {
	return simEvents{Form: "map", Topic: kvpub.DefaultConfig().Topic}
}

func (e *simEvents) settings() []setting {
	return []setting{
		choice("kv-events", "publish the cache's events over ZeroMQ, as vLLM does from 0.24 on or as it did before, or not at all, by `FORM`", &e.Form, []string{"map", "array", "off"}),
		count("kv-events-port", "publish on `PORT` of --listen's host and replay on the next; more replicas take the ports that follow "+
			"(port 0: any free ones; GET /kv_event_sources tells them)", 0, &e.Port),
		optionalText("kv-events-connect", "publish by connecting out to the subscriber that listens on `HOST:PORT`; more replicas take the ports that follow", &e.Connect),
		text("kv-events-topic", "publish under `TOPIC`", &e.Topic),
	}
}

func (e *simEvents) validate(replicas int) error {
	if last := e.Port + 2*replicas - 1; e.Port > 0 && last > 65535 {
		return fmt.Errorf("--kv-events-port %d has no room for %d replicas: the last port is 65535", e.Port, replicas)
	}
	if e.Connect == nil {
		return nil
	}
	_, port, err := net.SplitHostPort(*e.Connect)
	first, wrong := strconv.Atoi(port)
	switch {
	case err != nil || wrong != nil:
		return fmt.Errorf("--kv-events-connect: %q is not of the form HOST:PORT", *e.Connect)
	case first < 1 || first+replicas-1 > 65535:
		return fmt.Errorf("--kv-events-connect: there is no subscriber for each of %d replicas from port %d on", replicas, first)
	}
	return nil
}

// publisher is how the engine of that number, 0 the first, publishes on a host; nil: it does not.
func (e *simEvents) publisher(host string, number int) *kvpub.Config {
	if e.Form == "off" {
		return nil
	}
	cfg := kvpub.DefaultConfig()
	if e.Form == "array" {
		cfg.Form = kvpub.Array
	}
	cfg.Topic = e.Topic
	live, replay := 0, 0
	if e.Port > 0 {
		live, replay = e.Port+2*number, e.Port+2*number+1
	}
	endpoint := func(host string, port int) string { return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port)) }
	cfg.Endpoint, *cfg.ReplayEndpoint = endpoint(host, live), endpoint(host, replay)
	if e.Connect != nil {
		to, port, _ := net.SplitHostPort(*e.Connect) // validate has seen it
		first, _ := strconv.Atoi(port)
		cfg.Endpoint, cfg.Connect = endpoint(to, first+number), true
	}
	return &cfg
}
