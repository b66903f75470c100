package main

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine/vllm"
)

// identity is what tells a replica from others, whatever it is called: its kind, where it is, and its data-parallel rank. Equal
// ones are the same engine. It holds an address, which is for operators' eyes alone.
func (r ReplicaSpec) identity() string {
	if r.Rank == nil {
		return r.Kind + "=" + normalURL(r.Target)
	}
	return r.Kind + "=" + normalURL(r.Target) + "#" + strconv.Itoa(*r.Rank)
}

// process names what the replica's engine runs in, with all its ranks.
func (r ReplicaSpec) process() string { return r.Kind + "=" + normalURL(r.Target) }

// nameLetters is how many letters of the hash of its identity name a replica: the odds that two of a hundred are named alike
// are one in two hundred thousand, and then the start says so.
const nameLetters = 6

// defaultName names a replica after what it is, and tells nobody where that is. It is the same at every start.
func (r ReplicaSpec) defaultName() string {
	sum := sha256.Sum256([]byte(r.identity()))
	return r.Kind + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:nameLetters]
}

// hasEngine says whether the replica names an engine that somebody else has started.
func (r ReplicaSpec) hasEngine() bool { return r.Kind != kindSim && r.Target != "" }

// findsRanks says whether all data-parallel ranks of the engine are to be replicas, as soon as it says which they are.
func (r ReplicaSpec) findsRanks() bool { return r.Kind == vllm.Kind && r.Rank == nil }

// withRank is the replica of a rank that was found on an engine of which the spec names no rank.
func (r ReplicaSpec) withRank(rank int) ReplicaSpec {
	r.Name += "-dp" + strconv.Itoa(rank)
	r.Rank = &rank
	return r
}

// same says whether two replicas name the same engine. One without a rank is all ranks of its engine.
func (r ReplicaSpec) same(other ReplicaSpec) bool {
	if !r.hasEngine() || !other.hasEngine() || normalURL(r.Target) != normalURL(other.Target) {
		return false
	}
	return r.Rank == nil || other.Rank == nil || *r.Rank == *other.Rank
}

// checkEngines says whether a replica names the same engine as one that is there: its cache, its load and its seats would be
// counted twice. Ranks of one engine are replicas of their own. Names of a machine that only look different are found out
// later, by the process that answers.
func checkEngines(there []ReplicaSpec, spec ReplicaSpec) error {
	if i := slices.IndexFunc(there, spec.same); i >= 0 {
		return fmt.Errorf("replicas %s and %s are the same engine, at %s and %s: leave one of them out",
			there[i].Name, spec.Name, there[i].Target, spec.Target)
	}
	return nil
}

// thisMachine is how every name of the loopback interface is written.
const thisMachine = "localhost"

// normalURL writes equal URLs alike: the host in small letters, the loopback interface by one name, no port that is the scheme's,
// no slash at the end. Other names of one machine stay several.
func normalURL(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return target // no engine's
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	case u.Scheme == "https":
		port = "443"
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip := net.ParseIP(host); ip != nil {
		if host = ip.String(); ip.Equal(net.IPv4(127, 0, 0, 1)) || ip.Equal(net.IPv6loopback) {
			host = thisMachine
		}
	}
	return u.Scheme + "://" + net.JoinHostPort(host, port) + strings.TrimRight(u.Path, "/")
}
