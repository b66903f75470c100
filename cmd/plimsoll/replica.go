package main

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine/vllm"
)

// kindSim is the kind of the replicas that live in this process.
const kindSim = "sim"

// ReplicaSpec is what one --replica says.
type ReplicaSpec struct {
	Kind           string  // the engine's protocol
	Target         string  // the engine's base URL without a slash at the end; of a simulated replica, its profile
	Name           string  // in logs, metrics and headers; unique. It tells nobody where the engine is, unless the operator wants
	CapacityTokens *int    // KV capacity, where the engine does not tell or tells too much
	Slots          *int    // sequences decoded at once, likewise
	APIKeyEnv      *string // environment variable that holds the engine's API key
	Model          *string // the engine's own name of the model; nil: what the replica listed first says
	API            *string // the route that token IDs take (vllm)
	Rank           *int    // data-parallel rank; unset: the first, and every other that is found becomes a replica (vllm)
	Events         *string // "auto", "off" or where rank 0 publishes its cache's events (vllm)
	EventsBind     *string // or where we listen for rank 0 to connect and publish them (vllm)
	Replay         *string // where rank 0 publishes them again, with a publisher's address (vllm)
}

// nameRule keeps names fit for logs, metric labels and headers.
var nameRule = regexp.MustCompile(`^[A-Za-z0-9\[][A-Za-z0-9._:\[\]-]{0,63}$`)

const replicaExample = "e.g. --replica llamacpp=http://127.0.0.1:8081,name=a"

// ParseReplica reads KIND=URL[,name=..][,capacity-tokens=..][,slots=..][,api-key-env=..]. The number of the replica in its
// list, from 1, names a simulated one that has no name; others are named after what they are, see [ReplicaSpec.identity].
func ParseReplica(text string, number int) (spec ReplicaSpec, err error) {
	head, options, hasOptions := strings.Cut(text, ",")
	kind, target, ok := strings.Cut(head, "=")
	if !ok || strings.ContainsAny(kind, ":/") {
		return ReplicaSpec{}, fmt.Errorf("%q does not say what engine it is: write KIND=URL, %s", head, replicaExample)
	}
	spec = ReplicaSpec{Kind: kind, Target: target}
	switch {
	case !slices.Contains(engineKinds(), kind):
		return ReplicaSpec{}, fmt.Errorf("%q is no kind of engine: write one of %s, %s", kind,
			strings.Join(engineKinds(), ", "), replicaExample)
	case kind == kindSim:
		spec.Name = "sim-" + strconv.Itoa(number)
		if !slices.Contains(simProfiles(), target) {
			return ReplicaSpec{}, fmt.Errorf("%q is no profile of a simulated replica: write one of sim=%s", target,
				strings.Join(simProfiles(), ", sim="))
		}
	default:
		if spec.Target, err = parseEngineURL(target); err != nil {
			return ReplicaSpec{}, err
		}
	}
	if hasOptions {
		if err := spec.parseOptions(strings.Split(options, ",")); err != nil {
			return ReplicaSpec{}, fmt.Errorf("replica %s: %w", head, err)
		}
	}
	if spec.Name == "" {
		spec.Name = spec.defaultName()
	}
	if !nameRule.MatchString(spec.Name) {
		return ReplicaSpec{}, fmt.Errorf("replica %s: %q is no name, which has at most 64 letters, digits and ._:-; set one with name=",
			head, spec.Name)
	}
	return spec, nil
}

// parseEngineURL returns an engine's base URL without a slash at the end. Slashes too many are none, and so is the /v1 that
// clients' base URLs end in: every path of ours begins with what the engine puts before that.
func parseEngineURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// url.Parse repeats the text, which may hold a password.
		return "", errors.New("the replica's URL cannot be read: write http://HOST:PORT or https://HOST:PORT")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return "", fmt.Errorf("%q is no URL of an engine: write http://HOST:PORT or https://HOST:PORT", text)
	case u.User != nil:
		return "", errors.New("a replica's URL holds no user or password: " +
			"put the engine's API key in an environment variable and name it with api-key-env=VAR")
	case u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("a replica's URL has no query and no fragment: %q", text)
	}
	root := &url.URL{Scheme: u.Scheme, Host: u.Host}
	base := strings.TrimSuffix(path.Clean("/"+u.EscapedPath()), "/")
	for strings.HasSuffix(base, "/v1") {
		base = strings.TrimSuffix(base, "/v1")
	}
	return root.String() + base, nil
}

func (r *ReplicaSpec) parseOptions(options []string) error {
	seen := map[string]bool{}
	for _, option := range options {
		key, value, ok := strings.Cut(option, "=")
		switch {
		case !ok || value == "":
			return fmt.Errorf("%q has no value: write it as KEY=VALUE", option)
		case seen[key]:
			return fmt.Errorf("%s is set twice", key)
		}
		seen[key] = true
		if err := r.set(key, value); err != nil {
			return fmt.Errorf("%s: %w", option, err)
		}
	}
	_, _, err := r.publisher()
	return err
}

// set sets what an option names.
func (r *ReplicaSpec) set(key, value string) (err error) {
	switch key {
	case "name":
		r.Name = value
	case "capacity-tokens":
		r.CapacityTokens, err = positive(value)
	case "slots":
		r.Slots, err = positive(value)
	case "api-key-env":
		r.APIKeyEnv = &value
	case "model":
		r.Model = &value
	default:
		err = r.parseOwn(key, value)
	}
	return err
}

// errNoOption is of options that no replica of a kind has.
var errNoOption = errors.New("no such option: there are name, model, capacity-tokens, slots and api-key-env")

// parseOwn takes the options that only one kind of engine has.
func (r *ReplicaSpec) parseOwn(key, value string) error {
	if r.Kind != vllm.Kind {
		return errNoOption
	}
	switch key {
	case "api":
		if !slices.Contains(vllm.APIs(), value) {
			return fmt.Errorf("write one of %s", strings.Join(vllm.APIs(), ", "))
		}
		r.API = &value
	case "rank":
		rank, err := strconv.Atoi(value)
		if err != nil || rank < 0 {
			return errors.New("write a whole number, the first rank is 0")
		}
		r.Rank = &rank
	case "events":
		r.Events = &value
	case "events-bind":
		r.EventsBind = &value
	case "replay":
		r.Replay = &value
	default:
		return fmt.Errorf("%w, and for vllm api, rank, events, events-bind and replay", errNoOption)
	}
	return nil
}

func positive(text string) (*int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return nil, errors.New("write a whole number above 0")
	}
	return &n, nil
}

// address is the part of the spec that says what and where the engine is.
func (r ReplicaSpec) address() string { return r.Kind + "=" + r.Target }

// String is the inverse of [ParseReplica].
func (r ReplicaSpec) String() string {
	options := r.options()
	parts := make([]string, 0, 1+len(options))
	parts = append(parts, r.address()+",name="+r.Name)
	for _, option := range options {
		parts = append(parts, option[0]+"="+option[1])
	}
	return strings.Join(parts, ",")
}

// options are all but address and name, as key and value.
func (r ReplicaSpec) options() [][2]string {
	var options [][2]string
	number := func(key string, value *int) {
		if value != nil {
			options = append(options, [2]string{key, strconv.Itoa(*value)})
		}
	}
	text := func(key string, value *string) {
		if value != nil {
			options = append(options, [2]string{key, *value})
		}
	}
	number("capacity-tokens", r.CapacityTokens)
	number("slots", r.Slots)
	text("api-key-env", r.APIKeyEnv)
	text("model", r.Model)
	text("api", r.API)
	number("rank", r.Rank)
	text("events", r.Events)
	text("events-bind", r.EventsBind)
	text("replay", r.Replay)
	return options
}

// checkKey says what is wrong if the environment lacks the engine's key.
func (r ReplicaSpec) checkKey(getenv func(string) (string, bool)) error {
	if r.APIKeyEnv == nil {
		return nil
	}
	if key, ok := getenv(*r.APIKeyEnv); !ok || key == "" {
		return fmt.Errorf("replica %s: the environment has no %s: put the engine's API key in it or leave api-key-env out",
			r.Name, *r.APIKeyEnv)
	}
	return nil
}
