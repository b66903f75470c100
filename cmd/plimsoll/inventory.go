package main

import (
	"errors"
	"log/slog"

	"plimsoll/actors"
	"plimsoll/actors/fault"
	"plimsoll/engine/sim"
)

// inventory makes replicas of what is said of them, and knows which were configured and ordered.
type inventory struct {
	config Config
	model  string          // its name inside the node
	source sim.TokenSource // what simulated replicas say; nil: they have no tokenizer
	getenv func(string) (string, bool)
	log    *slog.Logger

	turn  chan struct{} // holds a value while an order or a reload is carried out: they come one at a time
	specs []ReplicaSpec
	ever  int                    // replicas that were configured or ordered
	there func(name string) bool // says whether the node has a replica of a name
}

// newInventory returns one with the configured replicas.
func newInventory(c Config, replicas []replicaEngine, source sim.TokenSource, t terminal, log *slog.Logger) *inventory {
	v := &inventory{config: c, model: innerName(c), source: source, getenv: t.getenv, log: log, ever: len(replicas), turn: make(chan struct{}, 1)}
	for _, r := range replicas {
		v.specs = append(v.specs, r.ReplicaSpec)
	}
	return v
}

// present are the specs of those replicas that are still there. Each of them has been added.
func (v *inventory) present() []ReplicaSpec {
	specs := make([]ReplicaSpec, 0, len(v.specs)+1)
	for _, spec := range v.specs {
		if v.there(spec.Name) {
			specs = append(specs, spec)
		}
	}
	return specs
}

// order has a replica added that an operator orders, written as for --replica. Nothing of it is waited for. Errors are
// [*fault.Fault].
func (v *inventory) order(text string, add func(actors.Replica) error) error {
	v.turn <- struct{}{}
	defer func() { <-v.turn }()
	v.specs = v.present()
	r, err := v.take(text)
	if err != nil {
		return &fault.Fault{Kind: fault.BadInput, Param: "replica", Message: err.Error(), Err: err}
	}
	if err := add(v.parts(r)); err != nil {
		return errors.Join(err, r.engine.Close())
	}
	v.specs = append(v.specs, r.ReplicaSpec)
	v.ever++
	return nil
}

// take makes what an order names.
func (v *inventory) take(text string) (replicaEngine, error) {
	spec, err := ParseReplica(text, v.ever+1)
	if err != nil {
		return replicaEngine{}, err
	}
	if err := v.config.ValidateOrder(spec, v.getenv); err != nil {
		return replicaEngine{}, err
	}
	if spec.Kind == kindSim && v.source == nil {
		return replicaEngine{}, errNoSource
	}
	if err := errors.Join(checkEngines(v.specs, spec), checkBinds(append(v.specs, spec))); err != nil {
		return replicaEngine{}, err
	}
	return v.openOne(spec)
}

func (v *inventory) openOne(spec ReplicaSpec) (replicaEngine, error) {
	opened, err := openEngines([]ReplicaSpec{spec}, v.source, v.getenv, v.log)
	if err != nil {
		return replicaEngine{}, err
	}
	return opened[0], nil
}

// parts are what the actors are told of a replica.
func (v *inventory) parts(r replicaEngine) actors.Replica {
	parts := v.named(r)
	if r.findsRanks() {
		parts.Rank = func(rank int) (actors.Replica, error) { return v.rank(r.ReplicaSpec, rank) }
	}
	return parts
}

// rank makes the replica of a rank that was found on the engine of another, whose spec names none. It is called from any
// goroutine.
func (v *inventory) rank(of ReplicaSpec, rank int) (actors.Replica, error) {
	if !of.hasEngine() {
		return actors.Replica{}, errors.New("an engine that is started here is one replica: start one for each rank")
	}
	r, err := v.openOne(of.withRank(rank))
	if err != nil {
		return actors.Replica{}, err
	}
	return v.named(r), nil
}

// named says in the log what a name stands for, which nothing else tells.
func (v *inventory) named(r replicaEngine) actors.Replica {
	attrs := []any{slog.String("replica", r.Name), slog.String("kind", r.Kind)}
	if r.Target != "" {
		attrs = append(attrs, slog.String("engine", r.Target))
	}
	if r.Rank != nil {
		attrs = append(attrs, slog.Int("rank", *r.Rank))
	}
	v.log.Info("replica named", attrs...)
	return r.parts(v.model, v.config)
}
