package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"plimsoll/actors"
	"plimsoll/actors/fleet"
)

// listed are the replicas that the configuration file lists. A reload goes by what the file says now and did not say before, or
// did say and does no more: what operators have added or removed meanwhile is theirs.
type listed struct {
	said  []ReplicaSpec
	added map[string]bool // by key: those of said that are there because the file said so
}

func newListed(specs []ReplicaSpec) *listed {
	l := &listed{said: specs, added: map[string]bool{}}
	for _, spec := range specs {
		l.added[spec.key()] = true
	}
	return l
}

// key tells a listed replica from others, whatever is said of it beside what it is.
func (r ReplicaSpec) key() string {
	if r.hasEngine() {
		return r.identity()
	}
	return r.address() + " " + r.Name
}

// change is what a file that was read again wants changed.
type change struct {
	add, remove []ReplicaSpec
	others      []ReplicaSpec // of which something else is said than before
}

// change holds a list against what was said before.
func (l *listed) change(now []ReplicaSpec) (c change) {
	for _, spec := range now {
		before := l.find(l.said, spec)
		switch {
		case before == nil:
			c.add = append(c.add, spec)
		case before.String() != spec.String():
			c.others = append(c.others, spec)
		}
	}
	for _, spec := range l.said {
		if l.find(now, spec) == nil && l.added[spec.key()] {
			c.remove = append(c.remove, spec)
		}
	}
	return c
}

func (l *listed) find(in []ReplicaSpec, spec ReplicaSpec) *ReplicaSpec {
	i := slices.IndexFunc(in, func(other ReplicaSpec) bool { return other.key() == spec.key() })
	if i < 0 {
		return nil
	}
	return &in[i]
}

// relist returns what has the replicas used that the file lists now.
func (n *node) relist(now Config) (use func(), err error) {
	if !n.fresh.listed {
		return func() {}, nil
	}
	if len(now.Replicas)+len(now.Launches) == 0 && len(n.listed.said) > 0 {
		return nil, errors.New("the configuration file lists no replica any more: plimsoll would begin with simulated ones")
	}
	c := n.listed.change(now.Replicas)
	opened, err := n.stock.open(c.add, n.refs())
	if err != nil {
		return nil, err
	}
	return func() {
		for _, spec := range c.others {
			n.log.Warn("a replica keeps the options that it has: to change them take it out of the file, send SIGHUP, and put it in again",
				slog.String("replica", spec.Name))
		}
		n.listed.said = now.Replicas
		for _, r := range opened { // before any is removed, so that somebody serves
			if err := n.stock.add(r, n.system.Add); err != nil {
				n.log.Error("a replica that the file lists could not be added", slog.String("replica", r.Name), slog.Any("reason", err))
				continue
			}
			n.listed.added[r.key()] = true
		}
		for _, spec := range c.remove {
			delete(n.listed.added, spec.key())
			n.removeListed(spec)
		}
	}, nil
}

// removeListed drains a replica, and those that were found to be other ranks of its engine, and forgets them.
func (n *node) removeListed(spec ReplicaSpec) {
	for _, ref := range n.refs() {
		rank := spec.findsRanks() && spec.hasEngine() && ref.Process == spec.process()
		if string(ref.ID) != spec.Name && !rank {
			continue
		}
		if err := n.system.Remove(ref.ID); err != nil {
			n.log.Error("a replica that the file lists no more could not be removed", slog.String("replica", string(ref.ID)), slog.Any("reason", err))
		}
	}
}

func (n *node) refs() []*fleet.Ref { return n.system.Replicas() }

// open makes the engines of replicas that the file lists, but not of those that are there already. It makes none if one of them
// cannot be.
func (v *inventory) open(specs []ReplicaSpec, refs []*fleet.Ref) (opened []replicaEngine, err error) {
	v.turn <- struct{}{}
	defer func() { <-v.turn }()
	there := v.present()
	var missing []ReplicaSpec
	for _, spec := range specs {
		i := slices.IndexFunc(there, func(other ReplicaSpec) bool { return other.key() == spec.key() })
		switch {
		case i >= 0 && leaves(refs, there[i].Name):
			return nil, fmt.Errorf("replica %s is still leaving: send SIGHUP again when it is gone", there[i].Name)
		case i >= 0:
			v.log.Info("a replica that the file lists is there already", slog.String("replica", there[i].Name))
			continue
		case v.there(spec.Name):
			return nil, fmt.Errorf("there is a replica %q already: give the one that the file lists another name", spec.Name)
		case spec.Kind == kindSim && v.source == nil:
			return nil, errNoSource
		}
		if err := checkEngines(there, spec); err != nil {
			return nil, err
		}
		missing = append(missing, spec)
	}
	if err := checkBinds(slices.Concat(there, missing)); err != nil {
		return nil, err
	}
	return openEngines(missing, v.source, v.getenv, v.log)
}

// leaves says whether a replica is drained.
func leaves(refs []*fleet.Ref, name string) bool {
	return slices.ContainsFunc(refs, func(ref *fleet.Ref) bool {
		return string(ref.ID) == name && ref.Snapshot().State == fleet.Draining
	})
}

// add takes in a replica that was opened.
func (v *inventory) add(r replicaEngine, add func(model string, parts actors.Replica) error) error {
	v.turn <- struct{}{}
	defer func() { <-v.turn }()
	if err := add(v.model, v.parts(r)); err != nil {
		return errors.Join(err, r.engine.Close())
	}
	v.specs = append(v.specs, r.ReplicaSpec)
	v.ever++
	return nil
}

// errNoSource: what simulated replicas say is made of the model's tokenizer, at the start.
var errNoSource = errors.New("a simulated replica needs a tokenizer of its own: start serve with one, or without --replica")
