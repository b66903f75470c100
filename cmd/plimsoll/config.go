package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"plimsoll/actors"
	"plimsoll/actors/explain"
	"plimsoll/actors/ingress"
	"plimsoll/actors/managed"
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/engine/wire"
	"plimsoll/tokenizer/simmodel"
)

// Config is everything that `plimsoll serve` can be told. Each field has one setting (settings.go), which gives it the same
// name as a flag, as an environment variable and as a key of the configuration file.
type Config struct {
	Listen   string        // host:port to serve on
	Replicas []ReplicaSpec // what to serve; none, and no launch: four simulated ones with an embedded model
	Launches []LaunchSpec  // what to start and serve
	// LaunchCount is how many engines a launch starts that does not say it.
	LaunchCount        int
	LaunchStartTimeout time.Duration // from an engine's start to its first sign of life
	LaunchGrace        time.Duration // from asking an engine to end to making it
	// Model is the name that clients use; nil: what the engines call it.
	Model *string
	// TokenizerDir holds the model's tokenizer.json and chat template; nil: the embedded model's.
	TokenizerDir *string
	Render       string // who renders chats: "local" or "engine"
	Policy       string // how a replica is chosen
	// ShadowPolicies are tried on the traffic without acting on it.
	ShadowPolicies []shadowPolicy
	Decisions      int     // routed requests that are remembered
	DecisionsBytes int     // likewise
	ReuseWeight    float64 // cache reuse against even load
	TTFTWeight     float64 // time to the first token against the pace of answers
	Admission      string  // how much of the answer is reserved: "expected" or "strict"
	APIKeyFile     *string
	AdminListen    *string // host:port of the operators' edge; nil: none
	AdminKeyFile   *string // keys of operators; nil: those of clients, and orders on loopback alone
	TLSCert        *string // PEM file with the certificate and its chain; nil: clear text
	TLSKey         *string // PEM file with its key

	Origins []origin // whose pages a browser lets call

	BodyBytes         int            // longest request body
	PromptTokens      *int           // longest prompt; nil: what the replicas hold
	Connections       *int           // open connections; nil: as many as usual, or as the limit of open files allows
	BodyTimeout       time.Duration  // how long a body may take to arrive
	FirstTokenTimeout time.Duration  // how long an engine may work on a prompt
	TokenTimeout      time.Duration  // how long an engine may pause between two tokens
	HedgeAfter        float64        // times as long as predicted that a first token may take before another replica is asked too; 0: any
	HangLeast         time.Duration  // the shortest silence of a replica that is suspicious
	HangBlind         time.Duration  // likewise, of a replica whose pace is not known
	HangRestart       *time.Duration // how long an engine of ours may give nothing, a canary included; nil: as long as a first token is waited for
	ProbeTimeout      time.Duration  // how long a probe waits for its answer
	ProbePatience     time.Duration  // how long an idle engine may answer no probe in time
	ShedMost          time.Duration  // how long a replica that sheds may ask to be left alone
	QueueTimeout      time.Duration  // how long a request waits for room
	ResumeWait        time.Duration  // how long an answer whose engine failed waits for another replica
	Tenants           []TenantSpec   // those who have other shares than others
	SLOs              []SLOSpec      // how fast the answers of a class have to come
	PromoteAfter      time.Duration  // how long a request waits before it counts to the class above its own
	QueueRequests     int            // requests that may wait
	QueueTokens       int            // prompt tokens that may wait
	DefaultMaxTokens  int            // tokens that strict admission reserves for an answer without a limit of the client's
	EventsSilence     time.Duration  // how long a replica's cache events may not come after work before they are not relied on
	SpeculationTime   time.Duration  // how long a prompt counts as cached where it was sent, unless the engine says so
	HostCredit        float64        // part of the prefill that a block cached in a replica's host memory saves
	DiskCredit        float64        // likewise on disk or in a remote store
	EarlyHeaders      time.Duration  // when a stream's headers go out though no token has come
	ClientStall       time.Duration  // how long a client may take nothing
	JournalBytes      int            // bytes of one answer kept for a slow client
	ShutdownDelay     time.Duration  // how long requests are taken on after it
	DrainTimeout      time.Duration  // how long running requests may go on after the first SIGTERM

	Record      *string // file for the traffic; nil: none
	RecordBytes int     // at which it is put aside

	LogLevel  string
	LogFormat string
}

// DefaultConfig returns what applies where nothing is set: what the rooms take as their defaults.
func DefaultConfig() Config {
	edge, route, streams := ingress.DefaultConfig(), router.DefaultConfig(simmodel.Name), stream.DefaultConfig()
	started, remembered := managed.DefaultConfig(), explain.DefaultConfig()
	watch := replica.DefaultConfig("", simmodel.Name)
	return Config{
		Listen:      "127.0.0.1:8080",
		LaunchCount: 1, LaunchStartTimeout: started.StartTimeout, LaunchGrace: started.Grace,
		Render:      actors.RenderLocal.String(),
		Policy:      route.Policy.Name,
		ReuseWeight: route.Policy.Weights.Reuse, TTFTWeight: route.Policy.Weights.TTFT,
		Decisions: remembered.Records, DecisionsBytes: remembered.Bytes,
		Admission:        route.Admission.String(),
		QueueTimeout:     route.QueueTimeout,
		ResumeWait:       route.ResumeWait,
		PromoteAfter:     route.Queue.PromoteAfter,
		QueueRequests:    route.Queue.RequestsMax,
		QueueTokens:      int(route.Queue.TokensMax),
		DefaultMaxTokens: int(route.DefaultMaxTokens),
		EventsSilence:    replica.DefaultConfig("", "").FeedSilence,
		SpeculationTime:  route.SpeculationTTL,
		HostCredit:       route.Credit.Host, DiskCredit: route.Credit.Disk,
		EarlyHeaders: edge.EarlyHeaders,
		ClientStall:  edge.ClientStall,
		JournalBytes: streams.JournalBytes,
		BodyBytes:    int(edge.BodyBytes), BodyTimeout: edge.BodyTimeout,
		FirstTokenTimeout: streams.FirstTokenTimeout, TokenTimeout: streams.TokenTimeout,
		HedgeAfter: streams.HedgeAfter,
		HangLeast:  watch.HangLeast, HangBlind: watch.HangBlind, ProbeTimeout: watch.ProbeTimeout, ProbePatience: watch.ProbePatience,
		ShedMost:     watch.ShedMost,
		DrainTimeout: 30 * time.Second,
		RecordBytes:  1 << 30,
		LogLevel:     "info",
		LogFormat:    "text",
	}
}

// Validate checks what no single setting can: how they fit together. getenv looks up the variables that hold engines' keys.
func (c Config) Validate(getenv func(string) (string, bool)) error {
	if err := validateListen(c.Listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if c.AdminListen != nil {
		if err := validateListen(*c.AdminListen); err != nil {
			return fmt.Errorf("admin-listen: %w", err)
		}
	}
	if (c.TLSCert == nil) != (c.TLSKey == nil) {
		return errors.New("--tls-cert and --tls-key go together: give both PEM files, or neither for clear text")
	}
	if c.TokenizerDir == nil && needsTokenizer(c.Replicas) {
		return errNoTokenizer
	}
	if c.TokenizerDir == nil && len(c.Launches) > 0 {
		return fmt.Errorf("--launch as %w", errNoTokenizer)
	}
	if err := c.validateTimes(); err != nil {
		return err
	}
	if err := c.validateCounts(); err != nil {
		return err
	}
	if err := checkShadows(c.ShadowPolicies); err != nil {
		return err
	}
	for i, r := range c.Replicas { // before the names, which two of one engine share
		if err := checkEngines(c.Replicas[:i], r); err != nil {
			return err
		}
	}
	names := map[string]bool{}
	replicas := slices.Clone(c.Replicas)
	for _, e := range startedEngines(c) {
		replicas = append(replicas, e.ReplicaSpec)
	}
	for _, r := range replicas {
		if names[r.Name] {
			return fmt.Errorf("two replicas are named %q: give each its own, e.g. --replica %s,name=%s-2", r.Name, r.address(), r.Name)
		}
		names[r.Name] = true
		if err := r.checkKey(getenv); err != nil {
			return err
		}
	}
	return c.validateLaunches()
}

// validateTimes checks those that each replica is given, once for all of them.
func (c Config) validateTimes() error {
	switch {
	case c.EventsSilence <= 0:
		return errors.New("--kv-events-silence must be above 0: events that were never waited for could not be relied on")
	case c.HangLeast <= 0:
		return errors.New("--hang-least must be above 0: no engine answers without a pause")
	case c.HangBlind < c.HangLeast:
		return fmt.Errorf("--hang-blind is %s: it must not be below --hang-least, %s", c.HangBlind, c.HangLeast)
	case c.ProbeTimeout > wire.DefaultConfig().ProbeTimeout:
		return fmt.Errorf("--probe-timeout is %s: no probe takes longer than %s", c.ProbeTimeout, wire.DefaultConfig().ProbeTimeout)
	}
	return nil
}

// errNoTokenizer: the binary holds no other model's tokenizer than the simulated ones'.
var errNoTokenizer = errors.New("--replica needs --tokenizer DIR: the folder with the model's tokenizer.json and its chat template " +
	"(tokenizer_config.json or chat_template.jinja), as the model's publisher ships them")

// ValidateOrder checks a replica that an operator adds to a running node. An order comes over the network: it names no other
// variable of the environment than the configuration does, since what the variable holds is sent to the replica's URL.
func (c Config) ValidateOrder(r ReplicaSpec, getenv func(string) (string, bool)) error {
	if c.TokenizerDir == nil && needsTokenizer([]ReplicaSpec{r}) {
		return errNoTokenizer
	}
	named := func(configured ReplicaSpec) bool {
		return configured.APIKeyEnv != nil && *configured.APIKeyEnv == *r.APIKeyEnv
	}
	if r.APIKeyEnv != nil && !slices.ContainsFunc(c.Replicas, named) {
		return fmt.Errorf("api-key-env=%s: an order can name only a variable that a --replica of the start names", *r.APIKeyEnv)
	}
	return r.checkKey(getenv)
}

func validateListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address: write HOST:PORT, e.g. 127.0.0.1:8080, or :8080 for all interfaces", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q is no port: write a number from 0 (any free one) to 65535", port)
	}
	return nil
}

// needsTokenizer says whether some replica serves a model that the binary does not hold. Simulated ones take any tokenizer,
// the embedded one by default.
func needsTokenizer(replicas []ReplicaSpec) bool {
	for _, r := range replicas {
		if r.Kind != kindSim {
			return true
		}
	}
	return false
}
