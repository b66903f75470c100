package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"plimsoll/actors"
	"plimsoll/actors/admin"
	"plimsoll/actors/explain"
	"plimsoll/actors/host"
	"plimsoll/actors/ingress"
	"plimsoll/actors/meter"
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
	"plimsoll/engine/sim"
	"plimsoll/scoring"
	"plimsoll/scoring/quota"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/simmodel"
)

// serve runs a node until a signal ends it. The first signal is graceful, the second ends the process at once.
func serve(c Config, again fresh, t terminal, ends, reloads <-chan os.Signal) error {
	metrics := meter.DefaultConfig()
	metrics.Version = ownVersion()
	m, err := meter.New(metrics)
	if err != nil {
		return err
	}
	log, finish, err := openLog(c, t, m)
	if err != nil {
		return err
	}
	defer finish()
	text, err := c.YAML()
	if err != nil {
		return err
	}
	log.Debug("configuration", slog.String("yaml", text))
	for _, s := range strayVariables(t.environ(), c) {
		log.Warn("an environment variable is none of the settings and has no effect", slog.String("variable", s.name),
			slog.String("nearest", s.nearest))
	}
	host.LimitMemory(log)
	n, err := startNode(c, t, log, m)
	if err != nil {
		return err
	}
	n.fresh, n.listed = again, newListed(nil)
	if again.listed {
		n.listed = newListed(c.Replicas)
	}
	return n.run(ends, reloads)
}

// node is what runs.
type node struct {
	config      Config
	log         *slog.Logger
	meter       *meter.Meter
	listener    net.Listener
	server      *ingress.Server
	admin       *adminPort           // nil: none
	operators   *ingress.Keyring     // keys of operators; nil: none of their own
	certificate *ingress.Certificate // of both ports; nil: clear text
	fresh       fresh                // what a reload reads again
	stock       *inventory
	listed      *listed // by the configuration file
	system      *actors.System
	recording   *recording
	tokenizer   *tokenizer.Model
}

// startNode puts a node together and opens its port; nothing is served before run.
func startNode(c Config, t terminal, log *slog.Logger, m *meter.Meter) (*node, error) {
	edge, err := edgeConfig(c)
	if err != nil {
		return nil, err
	}
	if err := findCommands(c); err != nil {
		return nil, err
	}
	if edge.ConnectionsMax, err = connections(c, edge.ConnectionsMax, log); err != nil {
		return nil, err
	}
	files, folder, err := modelFolder(c)
	if err != nil {
		return nil, err
	}
	model, err := loadModel(files, folder, c.Render == actors.RenderLocal.String())
	if err != nil {
		return nil, err
	}
	n := &node{config: c, log: log, meter: m, tokenizer: model, certificate: edge.TLS}
	if c.AdminKeyFile != nil {
		keys, err := keysOf("--admin-key-file", *c.AdminKeyFile)
		if err != nil {
			return nil, errors.Join(err, model.Close())
		}
		n.operators = ingress.NewKeyring(keys)
	}
	// The port is taken before anything is started, so that a busy one is said at once.
	if n.listener, err = listen("listen", c.Listen); err != nil {
		return nil, errors.Join(err, model.Close())
	}
	if c.AdminListen != nil {
		if n.admin, err = listenAdmin(*c.AdminListen, edge.TLS, log); err != nil {
			return nil, errors.Join(err, n.listener.Close(), model.Close())
		}
	}
	if err = n.start(edge, t); err != nil {
		return nil, errors.Join(err, n.admin.close(), n.listener.Close(), model.Close())
	}
	return n, nil
}

// start starts the actors and makes the edge in front of them.
func (n *node) start(edge ingress.Config, t terminal) error {
	specs := toServe(n.config)
	source, err := simText(specs, n.tokenizer)
	if err != nil {
		return err
	}
	replicas, err := openEngines(specs, source, t.getenv, n.log)
	if err != nil {
		return err
	}
	launched, err := startEngines(n.config, t.getenv, n.log)
	if err != nil {
		return errors.Join(err, closeEngines(replicas))
	}
	replicas = append(replicas, launched...)
	stock := newInventory(n.config, replicas, source, t, n.log)
	system, err := systemConfig(n.config, stock, n.tokenizer, replicas)
	if err != nil {
		return errors.Join(err, closeEngines(replicas))
	}
	if n.recording, err = startRecording(n.config, n.meter, n.log); err != nil {
		return errors.Join(err, closeEngines(replicas))
	}
	deps := actors.Deps{Log: n.log, Meter: n.meter, Seed: rand.Uint64(), Boot: rand.Uint64()}
	if n.recording != nil {
		deps.Recorder = n.recording.recorder
	}
	n.system, err = actors.Start(system, deps)
	if err != nil {
		return errors.Join(err, n.recording.close(), closeEngines(replicas))
	}
	n.stock = stock
	stock.there = func(name string) bool { return n.system.Has(scoring.ReplicaID(name)) }
	n.server, err = ingress.New(edge, ingress.Deps{
		Front: n.system, Log: n.log, Meter: n.meter.Ingress(), Metrics: n.meter.Handler(), Now: time.Now, NewID: ingress.RandomID,
	})
	if err != nil {
		return errors.Join(err, n.system.Stop(), n.recording.close())
	}
	authorized, orders := n.server.Authorized, n.admin.loopback()
	if n.operators != nil {
		authorized, orders = n.operators.Authorized, true
	}
	n.admin.handle(admin.New(admin.Deps{
		Replicas: n.system.Replicas, NameOf: n.system.NameOf, Metrics: n.meter.Handler(), Authorized: authorized, Orders: orders, Now: time.Now,
		Add: func(text string) error {
			return stock.order(text, func(r actors.Replica) error { return n.system.Add(stock.model, r) })
		},
		Decisions: n.system.Decisions, DecisionsOf: n.system.DecisionsOf, Suppose: n.system.Suppose, Urgency: edge.Urgency,
		Remove: func(name string) error { return n.system.Remove(scoring.ReplicaID(name)) },
		Drain: func(name string, wait *time.Duration) error {
			if wait == nil {
				wait = &n.config.DrainTimeout
			}
			return n.system.DrainReplica(scoring.ReplicaID(name), *wait)
		},
		Undrain: func(name string) error { return n.system.UndrainReplica(scoring.ReplicaID(name)) },
	}))
	n.log.Info("serving", slog.String("model", stock.model), slog.Int("replicas", len(replicas)), slog.String("policy", n.config.Policy),
		slog.String("admission", n.config.Admission), slog.String("version", ownVersion()))
	return nil
}

// parts are what the actors are told of a replica of a model.
func (r replicaEngine) parts(model string, c Config) actors.Replica {
	config := replica.DefaultConfig(scoring.ReplicaID(r.Name), model)
	config.FeedSilence = c.EventsSilence
	config.HangLeast, config.HangBlind = c.HangLeast, c.HangBlind
	config.ShedMost = c.ShedMost
	config.ProbeTimeout, config.ProbePatience = c.ProbeTimeout, c.ProbePatience
	config.FirstTokenTimeout, config.HangRestart = c.FirstTokenTimeout, c.FirstTokenTimeout
	if c.HangRestart != nil {
		config.HangRestart = *c.HangRestart
	}
	if r.hasEngine() { // whatever it is called, and all its ranks: they live in one process
		config.Process, config.Identity = r.process(), r.identity()
	}
	if r.Model != nil {
		config.EngineModel = *r.Model
	}
	if r.CapacityTokens != nil {
		capacity := scoring.Tokens(*r.CapacityTokens)
		config.CapacityTokens = &capacity
	}
	config.Seats = r.Slots
	if r.Target == "" { // of ours: it comes up when we know that it does, and an idle port costs nobody a probe
		config.ProbeCap = config.ProbeInterval
	}
	return actors.Replica{Config: config, Engine: r.engine}
}

// listen opens the port that a flag names.
func listen(flag, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use: end what listens there, or choose another address with --%s HOST:PORT", address, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return l, nil
}

// modelFolder returns the files of the configured model, and the name that errors give them.
func modelFolder(c Config) (files fs.FS, name string, err error) {
	if c.TokenizerDir == nil {
		return simmodel.FS(), "embedded " + simmodel.Name, nil
	}
	return os.DirFS(*c.TokenizerDir), *c.TokenizerDir, checkFolder(*c.TokenizerDir)
}

// loadModel loads a model's folder. renders: its chats are rendered here, so that its template must compile.
func loadModel(files fs.FS, folder string, renders bool) (*tokenizer.Model, error) {
	model, err := tokenizer.Load(files, folder, time.Now)
	if err != nil || !renders || model.TemplateError() == nil {
		return model, err
	}
	return nil, errors.Join(
		fmt.Errorf("the chat template cannot be used; with --render engine the engines render chats instead, if they can (vllm): %w",
			model.TemplateError()), model.Close())
}

// simText returns what simulated replicas say; nil where there are none.
func simText(specs []ReplicaSpec, model *tokenizer.Model) (sim.TokenSource, error) {
	for _, spec := range specs {
		if spec.Kind != kindSim {
			continue
		}
		source, err := simmodel.NewSource(model.Tokenizer)
		if err != nil {
			return nil, fmt.Errorf("the simulated replicas cannot speak with this tokenizer: %w", err)
		}
		return source, nil
	}
	return nil, nil
}

// connections is how many of clients there may be beside what the fleet needs.
func connections(c Config, usual int, log *slog.Logger) (int, error) {
	files, err := fleetFiles(c)
	if err != nil {
		return 0, err
	}
	most, fewer, err := files.Connections(c.Connections, usual)
	if err != nil {
		return 0, err
	}
	if fewer != "" {
		log.Warn("there are too few open files for as many connections as usual", slog.String("reason", fewer))
	}
	return most, nil
}

// fleetFiles says how many open files there may be, and how many of them the configured replicas need.
func fleetFiles(c Config) (files host.Files, err error) {
	if files.Limit, err = host.OpenFiles(); err != nil {
		return files, err
	}
	need := func(r ReplicaSpec) int {
		if r.Slots != nil {
			return *r.Slots + host.EngineFiles
		}
		return host.SeatsUnknown + host.EngineFiles
	}
	for _, r := range c.Replicas {
		if r.Kind != kindSim { // that lives in this process
			files.Fleet += need(r)
		}
	}
	for _, e := range startedEngines(c) {
		files.Fleet += need(e.ReplicaSpec) + host.ProcessFiles
	}
	return files, nil
}

// edgeConfig derives the HTTP edge's configuration; the keys are read from their file.
func edgeConfig(c Config) (ingress.Config, error) {
	edge := ingress.DefaultConfig()
	edge.EarlyHeaders, edge.ClientStall = c.EarlyHeaders, c.ClientStall
	edge.BodyBytes, edge.BodyTimeout = int64(c.BodyBytes), c.BodyTimeout
	edge.BodiesBytes = max(edge.BodiesBytes, edge.BodyBytes)
	if c.TLSCert != nil && c.TLSKey != nil {
		var err error
		if edge.TLS, err = ingress.LoadCertificate(*c.TLSCert, *c.TLSKey); err != nil {
			return edge, err
		}
	}
	edge.Origins = textsOf(c.Origins)
	if c.APIKeyFile != nil {
		var err error
		if edge.APIKeys, err = keysOf("--api-key-file", *c.APIKeyFile); err != nil {
			return edge, err
		}
	}
	if err := checkTenants(c.Tenants, edge.APIKeys); err != nil {
		return edge, err
	}
	edge.Quotas = map[string]quota.Limits{}
	for _, t := range c.Tenants {
		edge.Quotas[t.Name] = t.Quota
	}
	var err error
	if edge.SLOs, err = slosOf(c.SLOs); err != nil {
		return edge, err
	}
	return edge, edge.Validate()
}

// keysOf reads the keys in the file of a flag.
func keysOf(flag, name string) (ingress.Keys, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the file of %s cannot be read: %w", flag, err)
	}
	defer f.Close() //nolint:errcheck // only read from
	keys, err := ingress.ParseKeys(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return keys, nil
}

// systemConfig derives the actors' configuration.
func systemConfig(c Config, stock *inventory, model *tokenizer.Model, replicas []replicaEngine) (actors.Config, error) {
	route := router.DefaultConfig(stock.model)
	admission, err := router.ParseAdmission(c.Admission)
	if err != nil {
		return actors.Config{}, err
	}
	route.Policy.Weights.Reuse, route.Policy.Weights.TTFT = c.ReuseWeight, c.TTFTWeight
	route.Policy.Name, route.Admission, route.QueueTimeout, route.ResumeWait = c.Policy, admission, c.QueueTimeout, c.ResumeWait
	route.Queue.RequestsMax, route.Queue.TokensMax, route.Queue.PromoteAfter = c.QueueRequests, scoring.Tokens(c.QueueTokens), c.PromoteAfter
	route.TenantWeights = map[string]float64{}
	for _, t := range c.Tenants {
		if t.Weight != nil {
			route.TenantWeights[t.Name] = *t.Weight
		}
	}
	route.SpeculationTTL, route.Credit = c.SpeculationTime, router.TierCredit{Host: c.HostCredit, Disk: c.DiskCredit}
	route.DefaultMaxTokens = scoring.Tokens(c.DefaultMaxTokens)
	if c.PromptTokens != nil {
		most := scoring.Tokens(*c.PromptTokens)
		route.PromptTokensMax = &most
	}
	render, err := actors.ParseRendering(c.Render)
	if err != nil {
		return actors.Config{}, err
	}
	served := actors.Model{Tokenizer: model, Router: route, Named: c.Model != nil, Render: render}
	for _, name := range c.ShadowPolicies {
		shadow := route.Policy
		shadow.Name = name.String()
		served.Shadows = append(served.Shadows, shadow)
	}
	for _, r := range replicas {
		served.Replicas = append(served.Replicas, stock.parts(r))
	}
	streams := stream.DefaultConfig()
	streams.JournalBytes = c.JournalBytes
	streams.FirstTokenTimeout, streams.TokenTimeout, streams.HedgeAfter = c.FirstTokenTimeout, c.TokenTimeout, c.HedgeAfter
	decisions := explain.DefaultConfig()
	decisions.Records, decisions.Bytes = c.Decisions, c.DecisionsBytes
	return actors.Config{
		Decisions: &decisions,
		Models:    []actors.Model{served}, Stream: streams, Supervise: supervise.DefaultConfig(),
		TokenizeMax: runtime.GOMAXPROCS(0), DrainWait: c.DrainTimeout,
	}, nil
}
