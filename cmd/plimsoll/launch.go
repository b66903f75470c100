package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/actors/managed"
	"plimsoll/engine"
	"plimsoll/engine/llamacpp"
	"plimsoll/engine/process"
	"plimsoll/engine/vllm"
)

// LaunchSpec is what one --launch says: engines that plimsoll starts itself.
type LaunchSpec struct {
	Engine       ReplicaSpec // of each; no Target, no Rank. With Count above 1 its Name is what their names begin with
	Command      process.Command
	Count        *int           // how many; nil: one for each device, or what launch-count says
	Devices      []string       // one for each engine: its CUDA_VISIBLE_DEVICES and {device}
	LogFile      *string        // nil: the engine's output goes to the log, at level debug
	StartTimeout *time.Duration // nil: what launch-start-timeout says
}

const launchExample = "e.g. --launch 'llamacpp=llama-server -m x.gguf --port {port}'"

// launchKinds lists the kinds of engines that can be started.
func launchKinds() []string { return []string{llamacpp.Kind, vllm.Kind} }

// ParseLaunch reads KIND[,KEY=VALUE..]=COMMAND. The number of the launch in its list, from 1, names its engines if it says
// no name.
func ParseLaunch(text string, number int) (LaunchSpec, error) {
	at := strings.IndexAny(text, ",=")
	if at < 0 {
		return LaunchSpec{}, fmt.Errorf("%q does not say what engine its command is: write KIND=COMMAND, %s", text, launchExample)
	}
	spec, err := newLaunch(text[:at], number)
	if err != nil {
		return LaunchSpec{}, err
	}
	seen := map[string]bool{}
	for text = text[at:]; text[0] == ','; {
		key, rest, ok := strings.Cut(text[1:], "=")
		end := strings.IndexAny(rest, ",=")
		if !ok || end < 0 {
			return LaunchSpec{}, fmt.Errorf("launch %s: there is no command: write KIND,KEY=VALUE=COMMAND, %s", spec.Engine.Kind, launchExample)
		}
		if seen[key] {
			return LaunchSpec{}, fmt.Errorf("launch %s: %s is set twice", spec.Engine.Kind, key)
		}
		seen[key] = true
		if err := spec.set(key, rest[:end]); err != nil {
			return LaunchSpec{}, fmt.Errorf("launch %s: %s: %w", spec.Engine.Kind, key, err)
		}
		text = rest[end:]
	}
	if err := spec.set("command", text[1:]); err != nil {
		return LaunchSpec{}, fmt.Errorf("launch %s: the command %w", spec.Engine.Kind, err)
	}
	return spec, spec.validate()
}

func newLaunch(kind string, number int) (LaunchSpec, error) {
	if !slices.Contains(launchKinds(), kind) {
		return LaunchSpec{}, fmt.Errorf("%q is no kind of engine that can be started: write one of %s, %s", kind,
			strings.Join(launchKinds(), ", "), launchExample)
	}
	name := kind
	if number > 1 {
		name += "-" + strconv.Itoa(number)
	}
	return LaunchSpec{Engine: ReplicaSpec{Kind: kind, Name: name}}, nil
}

// set sets what a key names. Environment has no form of one value.
func (l *LaunchSpec) set(key, value string) (err error) {
	if value == "" {
		return errors.New("has no value: write one or leave it out")
	}
	switch key {
	case "command":
		l.Command.Words, err = process.Split(value)
	case "count":
		l.Count, err = positive(value)
	case "devices":
		l.Devices = strings.Split(value, "+")
	case "folder":
		l.Command.Folder = value
	case "log-file":
		l.LogFile = &value
	case "start-timeout":
		var timeout time.Duration
		if timeout, err = time.ParseDuration(value); err != nil || timeout <= 0 {
			return fmt.Errorf("%q is no time to start: write a number and a unit, e.g. 90s or 10m", value)
		}
		l.StartTimeout = &timeout
	case "rank":
		return errors.New("a started engine is one replica: leave it out")
	case "events-bind", "replay":
		return errors.New("a started engine says by itself where it publishes its cache's events: leave it out")
	default:
		if err = l.Engine.set(key, value); errors.Is(err, errNoOption) {
			return errors.New(launchOptions(l.Engine.Kind))
		}
	}
	return err
}

// launchOptions says what can be set.
func launchOptions(kind string) string {
	const common = "no such option: there are name, count, devices, folder, log-file, start-timeout, environment (in the file), " +
		"model, capacity-tokens, slots and api-key-env"
	if kind == vllm.Kind {
		return common + ", and for vllm api and events"
	}
	return common
}

// validate checks how the parts fit together.
func (l LaunchSpec) validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("launch %s: %w", l.Engine.Name, fmt.Errorf(format, args...))
	}
	uses := func(mark string) bool {
		texts := slices.Concat(l.Command.Words, l.Command.Environment, []string{l.Command.Folder})
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, mark) })
	}
	switch {
	case !nameRule.MatchString(l.Engine.Name):
		return fail("%q is no name, which has at most 64 letters, digits and ._:-", l.Engine.Name)
	case l.Count != nil && l.Devices != nil && *l.Count != len(l.Devices):
		return fail("%d engines and %d devices: name one for each, e.g. devices=0+1, or leave count out", *l.Count, len(l.Devices))
	case l.Devices == nil && uses("{device}"):
		return fail("{device} stands for nothing: name the devices, e.g. devices=0+1")
	case l.LogFile != nil && strings.Contains(*l.LogFile, "{port}"):
		return fail("log-file has {port}, which is another one at every start: use {name} or {index}")
	}
	if events := l.Engine.Events; events != nil && *events != eventsAuto && *events != eventsOff {
		return fail("events is %q: a started engine says by itself where it publishes them: write %s or %s", *events, eventsAuto, eventsOff)
	}
	if err := l.Command.Validate(); err != nil {
		return fail("%w", err)
	}
	return nil
}

// String is the inverse of [ParseLaunch]. It has no word for an environment.
func (l LaunchSpec) String() string {
	options := l.options()
	parts := make([]string, 0, 1+len(options))
	parts = append(parts, l.Engine.Kind+",name="+l.Engine.Name)
	for _, option := range options {
		parts = append(parts, option[0]+"="+option[1])
	}
	return strings.Join(parts, ",") + "=" + process.Join(l.Command.Words)
}

// options are all but kind, name, command and environment, as key and value.
func (l LaunchSpec) options() [][2]string {
	var options [][2]string
	add := func(key, value string) { options = append(options, [2]string{key, value}) }
	if l.Count != nil {
		add("count", strconv.Itoa(*l.Count))
	}
	if l.Devices != nil {
		add("devices", strings.Join(l.Devices, "+"))
	}
	if l.Command.Folder != "" {
		add("folder", l.Command.Folder)
	}
	if l.LogFile != nil {
		add("log-file", *l.LogFile)
	}
	if l.StartTimeout != nil {
		add("start-timeout", l.StartTimeout.String())
	}
	return append(options, l.Engine.options()...)
}

// startedEngine is one engine of a launch.
type startedEngine struct {
	ReplicaSpec
	launch managed.Config
}

// launchMax is how many engines one plimsoll starts at the most: each is a process with a guard, on this machine.
const launchMax = 256

// count is how many engines the launch starts.
func (l LaunchSpec) count(c Config) int {
	switch {
	case l.Count != nil:
		return *l.Count
	case l.Devices != nil:
		return len(l.Devices)
	}
	return c.LaunchCount
}

// validateCounts checks that no more engines are to be started than a machine can hold.
func (c Config) validateCounts() error {
	all := 0
	for _, l := range c.Launches {
		n := l.count(c)
		if n > launchMax-all {
			return fmt.Errorf("launch %s: %d engines, with those before it, are more than the %d that one plimsoll starts: lower count", l.Engine.Name, n, launchMax)
		}
		all += n
	}
	return nil
}

// startedEngines lists what the configuration has started, one for each engine.
func startedEngines(c Config) []startedEngine {
	var started []startedEngine
	for _, l := range c.Launches {
		count := l.count(c)
		for i := range count {
			started = append(started, l.engine(c, i, count))
		}
	}
	return started
}

// engine is the i-th of a launch.
func (l LaunchSpec) engine(c Config, i, count int) startedEngine {
	spec := l.Engine
	if count > 1 {
		spec.Name += "-" + strconv.Itoa(i+1)
	}
	config := managed.DefaultConfig()
	config.Name, config.Index, config.Command = spec.Name, i, l.Command
	config.StartTimeout, config.Grace = c.LaunchStartTimeout, c.LaunchGrace
	if l.StartTimeout != nil {
		config.StartTimeout = *l.StartTimeout
	}
	if l.LogFile != nil {
		config.LogFile = *l.LogFile
	}
	if l.Devices != nil {
		config.Device = l.Devices[i]
		config.Command.Environment = append([]string{"CUDA_VISIBLE_DEVICES={device}"}, l.Command.Environment...)
	}
	return startedEngine{spec, config}
}

// validateLaunches checks what no single launch can know.
func (c Config) validateLaunches() error {
	if len(c.Launches) == 0 {
		return nil
	}
	logs := map[string]string{}
	for _, e := range startedEngines(c) {
		if err := e.launch.Validate(); err != nil {
			return fmt.Errorf("launch %s: %w", e.Name, err)
		}
		if e.launch.LogFile == "" {
			continue
		}
		path := process.Values{Index: e.launch.Index, Name: e.Name, Device: e.launch.Device}.Fill(e.launch.LogFile)
		if other, taken := logs[path]; taken {
			return fmt.Errorf("engines %s and %s would share the log-file %s: put {name} into it", other, e.Name, path)
		}
		logs[path] = e.Name
	}
	return process.Supported()
}

// findCommands says which command of the configuration cannot be started here.
func findCommands(c Config) error {
	for _, e := range startedEngines(c) {
		if err := e.launch.Command.Find(process.Values{Index: e.launch.Index, Name: e.Name, Device: e.launch.Device}); err != nil {
			return fmt.Errorf("launch %s: %w", e.Name, err)
		}
	}
	return nil
}

// startEngines starts the engines of the configuration. None of them is waited for.
func startEngines(c Config, getenv func(string) (string, bool), log *slog.Logger) ([]replicaEngine, error) {
	started := startedEngines(c)
	replicas := make([]replicaEngine, 0, len(started))
	ports := process.NewPorts(rand.Uint64())
	for _, s := range started {
		e, err := managed.New(s.launch, managed.Deps{
			Guard: guardWords(), Ports: ports, Log: log, Seed: rand.Uint64(),
			Connect: func(url string) (engine.Engine, error) {
				spec := s.ReplicaSpec
				spec.Target = url
				return openEngine(spec, 0, nil, getenv, log)
			},
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("launch %s: %w", s.Name, err), closeEngines(replicas))
		}
		replicas = append(replicas, replicaEngine{s.ReplicaSpec, e})
	}
	return replicas, nil
}

// guardWords are the command line of this binary as a guard. The link names the running binary even where its file has been
// replaced by a newer one.
func guardWords() []string {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); errors.Is(err, fs.ErrNotExist) {
		return []string{os.Args[0], guardCommandName}
	}
	return []string{self, guardCommandName}
}
