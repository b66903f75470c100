package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/sim"
	"plimsoll/testbench/fakeengine"
	"plimsoll/tokenizer"
)

// simConfig is everything that `plimsoll sim` can be told. Its flags are derived from its settings, as serve's are.
type simConfig struct {
	Listen         string // of the first replica; the others take the ports that follow
	Replicas       int
	Profile        string
	Model          *string // nil: plimsoll-sim, or the name of the tokenizer's folder
	TokenizerDir   *string // nil: the embedded model's
	Speed          float64
	ColdStart      time.Duration // until then connections are refused
	ContextTokens  *int
	CapacityTokens *int
	HostTokens     *int // nil: what is evicted is lost
	Slots          *int
	Overhead       *time.Duration // nil: the profile's
	Entropy        *int           // nil: unseeded answers are random
	Generate       string         // "on" or "off"
	Faults         string         // "on" or "off"
	OnTerm         string         // "drain" or "hang"
	Events         simEvents
	DrainTimeout   time.Duration
	LogLevel       string
	LogFormat      string
}

func defaultSimConfig() simConfig {
	base := DefaultConfig()
	return simConfig{
		Listen: "127.0.0.1:8100", Replicas: 1, Profile: simProfiles()[0], Speed: 1, Generate: "on", Faults: "off", OnTerm: "drain", Events: defaultSimEvents(),
		DrainTimeout: base.DrainTimeout, LogLevel: base.LogLevel, LogFormat: base.LogFormat,
	}
}

func (c *simConfig) settings() []setting {
	tokens := func(name, usage string, p **int) setting {
		return optional(p, func(v *int) setting { return count(name, usage, 1, v) })
	}
	return slices.Concat([]setting{
		text("listen", "serve on `HOST:PORT`; more replicas take the ports that follow (port 0: any free ones)", &c.Listen),
		count("replicas", "serve `N` engines, each with a cache of its own", 1, &c.Replicas),
		choice("profile", "`PROFILE` of model and GPU", &c.Profile, simProfiles()),
		optionalText("model", "the model's `NAME` (default: plimsoll-sim, or that of the tokenizer's folder)", &c.Model),
		optionalText("tokenizer", "`DIR` with a model's tokenizer.json and chat template (default: the embedded model's)", &c.TokenizerDir),
		factor("speed", "run `F` times as fast as the profile's GPU", &c.Speed),
		duration("cold-start", "`TIME` until the engines listen; connections are refused before, as by a server that loads its model", &c.ColdStart),
		tokens("context", "longest prompt plus answer, `N` tokens (default: the profile's)", &c.ContextTokens),
		tokens("capacity-tokens", "`N` tokens of KV cache (default: the profile's)", &c.CapacityTokens),
		tokens("host-tokens", "`N` tokens of host memory, where what leaves the KV cache is kept (default: none)", &c.HostTokens),
		tokens("slots", "`N` requests run at once (default: the profile's)", &c.Slots),
		optional(&c.Overhead, func(v *time.Duration) setting {
			return duration("overhead", "`TIME` that each pass takes beside what the GPU computes (default: the profile's)", v)
		}),
		optional(&c.Entropy, func(v *int) setting {
			return count("entropy", "draw unseeded answers from `N`, so that they can be foretold (default: at random)", 0, v)
		}),
		choice("faults", "`WORD`: whether PUT /faults makes an engine faulty", &c.Faults, []string{"on", "off"}),
		choice("on-term", "let running requests end after SIGTERM or, as a vLLM does without --shutdown-timeout, have them hang, by `WORD`", &c.OnTerm, []string{"drain", "hang"}),
		choice("generate", "`WORD`: whether /inference/v1/generate answers, or 403 as a vLLM without --enable-scale-out", &c.Generate, []string{"on", "off"}),
	}, c.Events.settings(), []setting{
		duration("drain-timeout", "`TIME` that running requests get after the first SIGTERM or SIGINT", &c.DrainTimeout),
		choice("log-level", "least `LEVEL` that is logged", &c.LogLevel, []string{"debug", "info", "warn", "error"}),
		choice("log-format", "`FORM` of the log's lines", &c.LogFormat, []string{"text", "json"}),
	})
}

// factor is a setting of a number above 0.
func factor(name, usage string, p *float64) setting {
	return setting{
		name: name, usage: usage,
		decode: one(func(text string) error {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || !(v > 0) || v > 1e6 {
				return fmt.Errorf("%q is no factor: write a number above 0, at most a million", text)
			}
			*p = v
			return nil
		}),
		encode: func() []string { return []string{strconv.FormatFloat(*p, 'g', -1, 64)} },
	}
}

func simCommand(t terminal) *cli.Command {
	defaults := defaultSimConfig()
	flags := make([]cli.Flag, 0, len(defaults.settings()))
	for _, s := range defaults.settings() {
		flags = append(flags, &cli.StringFlag{Name: s.name, Usage: s.usage, DefaultText: strings.Join(s.encode(), "")})
	}
	return &cli.Command{
		Name:  "sim",
		Usage: "serve simulated engines with the HTTP API of vLLM, without a GPU",
		Description: "For tests and for a look around: point `plimsoll serve --replica vllm=http://127.0.0.1:8100`, or anything else\n" +
			"that speaks to vLLM, at it. Time, KV cache, batching and metrics are those of the profile's GPU; the text is made up.\n" +
			"The cache's events come over ZeroMQ, live and replayed.\n" +
			"The embedded model's folder, for serve's --tokenizer, is tokenizer/simmodel/model in the source tree.",
		Flags: flags,
		Action: func(c *cli.Context) error {
			config := defaultSimConfig()
			for _, s := range config.settings() {
				if !c.IsSet(s.name) {
					continue
				}
				if err := s.decode([]string{c.String(s.name)}); err != nil {
					return usageError{fmt.Errorf("--%s %w", s.name, err)}
				}
			}
			if err := config.validate(); err != nil {
				return usageError{err}
			}
			signals := make(chan os.Signal, 2)
			signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
			return simulate(config, t, signals)
		},
	}
}

// validate checks what no single setting can.
func (c simConfig) validate() error {
	if err := validateListen(c.Listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	_, port, _ := net.SplitHostPort(c.Listen)
	if first, _ := strconv.Atoi(port); first > 0 && first+c.Replicas-1 > 65535 {
		return fmt.Errorf("--replicas %d has no room from port %d on: the last port is 65535", c.Replicas, first)
	}
	if err := c.Events.validate(c.Replicas); err != nil {
		return err
	}
	_, err := c.engine(0)
	return err
}

// engine is the configuration of the engine of that number, 0 the first.
func (c simConfig) engine(number int) (fakeengine.Config, error) {
	config := fakeengine.DefaultConfig()
	profile, err := simProfile(ReplicaSpec{Target: c.Profile, CapacityTokens: c.CapacityTokens, Slots: c.Slots})
	if err != nil {
		return config, err
	}
	if c.ContextTokens != nil {
		profile.ContextTokens = *c.ContextTokens
	}
	if c.HostTokens != nil {
		profile.HostBlocks = *c.HostTokens / profile.BlockTokens
	}
	if c.Overhead != nil {
		profile.Timing.Overhead = *c.Overhead
	}
	if c.Entropy != nil {
		entropy := uint64(*c.Entropy) //nolint:gosec // a count
		config.Engine.Entropy = &entropy
	}
	config.Faults = c.Faults == "on"
	profile.Model = fallbackName(Config{TokenizerDir: c.TokenizerDir})
	if c.Model != nil {
		profile.Model = *c.Model
	}
	profile.HashSeed = uint64(number) + 1 //nolint:gosec // a number of a replica
	config.Engine.Sim, config.Engine.Speed, config.Generate = profile, c.Speed, c.Generate == "on"
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return config, err
	}
	config.KVEvents = c.Events.publisher(host, number)
	return config, config.Validate()
}

// simulate serves until a signal comes. The first lets running requests end, the second ends all at once.
func simulate(c simConfig, t terminal, signals <-chan os.Signal) error {
	log, finish, err := openLog(Config{LogLevel: c.LogLevel, LogFormat: c.LogFormat}, t, nil)
	if err != nil {
		return err
	}
	defer finish()
	if c.ColdStart > 0 {
		log.Info("loading", slog.Duration("cold_start", c.ColdStart))
		select {
		case <-time.After(c.ColdStart):
		case <-signals:
			return nil
		}
	}
	files, folder, err := modelFolder(Config{TokenizerDir: c.TokenizerDir})
	if err != nil {
		return err
	}
	model, err := loadModel(files, folder, true)
	if err != nil {
		return err
	}
	fleet, err := startSims(c, model, log)
	if err == nil {
		err = fleet.run(c, signals, log)
	}
	return errors.Join(err, model.Close())
}

// sims are the engines that run, and where their serving ends.
type sims struct {
	servers []*fakeengine.Server
	served  chan error // one for each server
}

func startSims(c simConfig, model *tokenizer.Model, log *slog.Logger) (*sims, error) {
	fleet := &sims{served: make(chan error, c.Replicas)}
	source := fakeengine.Source(model)
	for i := range c.Replicas {
		if err := fleet.start(c, i, model, source, log); err != nil {
			return nil, errors.Join(err, fleet.close())
		}
	}
	return fleet, nil
}

// start opens the port of one engine and serves there.
func (f *sims) start(c simConfig, number int, model *tokenizer.Model, source sim.TokenSource, log *slog.Logger) error {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return err
	}
	if first, _ := strconv.Atoi(port); first > 0 {
		port = strconv.Itoa(first + number)
	}
	l, err := listen("listen", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	config, err := c.engine(number)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server, err := fakeengine.New(config, fakeengine.Deps{Model: model, Source: source, Entropy: rand.Uint64, Now: time.Now})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	f.servers = append(f.servers, server)
	go func() { f.served <- server.Serve(l) }()
	attrs := []slog.Attr{
		slog.String("url", "http://"+l.Addr().String()), slog.String("model", config.Engine.Sim.Model),
		slog.String("profile", c.Profile), slog.Int("capacity_tokens", config.Engine.Sim.UsableBlocks()*config.Engine.Sim.BlockTokens),
	}
	if events := server.KVEvents(); events != nil {
		attrs = append(attrs, slog.String("kv_events", events.Endpoint()))
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "listening", attrs...)
	return nil
}

// run waits for a signal and goes down.
func (f *sims) run(c simConfig, signals <-chan os.Signal, log *slog.Logger) error {
	select {
	case err := <-f.served:
		return errors.Join(err, f.close())
	case s := <-signals:
		log.Info("shutting down", slog.String("signal", s.String()), slog.Duration("drain_timeout", c.DrainTimeout))
	}
	if c.OnTerm == "hang" {
		for _, s := range f.servers {
			s.Engine().Pause()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.DrainTimeout)
	defer cancel()
	down := make(chan error, len(f.servers))
	for _, s := range f.servers {
		go func() { down <- s.Shutdown(ctx) }()
	}
	ended := make(chan error, 1)
	go func() {
		errs := make([]error, 0, len(f.servers))
		for range f.servers {
			err := <-down
			if errors.Is(err, context.DeadlineExceeded) {
				log.Warn("requests still ran at the end of the drain time; they ended with an error")
				err = nil
			}
			errs = append(errs, err)
		}
		ended <- errors.Join(errs...)
	}()
	if err := endOf(ended, signals, log); err != nil {
		return errors.Join(err, f.close())
	}
	return nil
}

func (f *sims) close() error {
	errs := make([]error, 0, len(f.servers))
	for _, s := range f.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
