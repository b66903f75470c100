package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/process"
)

func TestParseLaunch(t *testing.T) {
	two, four, log, model, minute := 2, 4, "/var/log/{name}.log", "org/m", time.Minute
	of := func(kind, name string) ReplicaSpec { return ReplicaSpec{Kind: kind, Name: name} }
	words := []string{"llama-server", "-m", "x.gguf", "--port", "{port}"}
	parsesAs(t, ParseLaunch, map[string]LaunchSpec{
		"llamacpp=llama-server -m x.gguf --port {port}": {Engine: of("llamacpp", "llamacpp-3"), Command: process.Command{Words: words}},
		"llamacpp,name=gpu,count=2,slots=4=llama-server -m x.gguf --port {port}": {
			Engine: ReplicaSpec{Kind: "llamacpp", Name: "gpu", Slots: &four}, Count: &two, Command: process.Command{Words: words},
		},
		`vllm,model=org/m,devices=0+1,folder=/srv,log-file=/var/log/{name}.log,start-timeout=1m=vllm serve 'a b' --port={port} -x '{"a":"b,c"}'`: {
			Engine:  ReplicaSpec{Kind: "vllm", Name: "vllm-3", Model: &model},
			Command: process.Command{Words: []string{"vllm", "serve", "a b", "--port={port}", "-x", `{"a":"b,c"}`}, Folder: "/srv"},
			Devices: []string{"0", "1"}, LogFile: &log, StartTimeout: &minute,
		},
	})
}

func TestParseLaunchSaysWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "write KIND=COMMAND",
		"llama-server":                           "write KIND=COMMAND",
		"sim=tiny":                               `"sim" is no kind of engine that can be started: write one of llamacpp, vllm`,
		"llamacpp=":                              "command has no value",
		"llamacpp=llama-server -m x":             "has no {port}, where the port to serve on is put: add it",
		"llamacpp=llama-server --port {port} 'a": "single quote (') without its end",
		"llamacpp=a --port {port} | tee log":     "there is no shell",
		"llamacpp=CUDA=0 a --port {port}":        "begin with env CUDA=...",
		"llamacpp,count=0=a {port}":              "write a whole number above 0",
		"llamacpp,count=2":                       "there is no command",
		"llamacpp,count=2,count=3=a {port}":      "count is set twice",
		"llamacpp,devices=0+1,count=3=a {port}":  "3 engines and 2 devices: name one for each",
		"llamacpp=a {port} {device}":             "{device} stands for nothing",
		"llamacpp,log-file=x{port}=a {port}":     "another one at every start",
		"llamacpp,start-timeout=0s=a {port}":     "is no time to start",
		"llamacpp,rank=1=a {port}":               "a started engine is one replica",
		"llamacpp,colour=red=a {port}":           "no such option: there are name, count, devices, folder, log-file, start-timeout, environment",
		"vllm,colour=red=a {port}":               "capacity-tokens, slots and api-key-env, and for vllm api and events",
		"llamacpp,name=a b=a {port}":             "is no name",
		"vllm,replay=tcp://a:1=a {port}":         "says by itself where it publishes",
		"vllm,events=tcp://a:1=a {port}":         "write auto or off",
		"vllm,api=grpc=a {port}":                 "write one of completions, generate, auto",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := ParseLaunch(text, 1)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestLaunchesOfTheFile(t *testing.T) {
	const file = `
launch:
- llamacpp=llama-server -m x.gguf --port {port}
- kind: vllm
  command: [vllm, serve, org/m, --port, "{port}", '{"a": 1}']
  name: big
  count: 2
  devices: [0, 1]
  environment: {HF_HOME: /models, NOTHING: ""}
  folder: /srv
  log-file: /var/log/{name}.log
  capacity-tokens: 4096
launch-count: 3
`
	config, err := LoadConfig(fileOf(t, file), environment(nil), flagsOf(nil))
	require.NoError(t, err)
	started := startedEngines(config)
	names := make([]string, len(started))
	for i, e := range started {
		names[i] = e.Name
	}
	require.Equal(t, []string{"llamacpp-1", "llamacpp-2", "llamacpp-3", "big-1", "big-2"}, names)
	last := started[4]
	require.Equal(t, 4096, *last.CapacityTokens)
	require.Equal(t, "1", last.launch.Device)
	require.Equal(t, 1, last.launch.Index)
	filled := last.launch.Command.Fill(process.Values{Port: 81, Index: 1, Name: "big-2", Device: "1"})
	require.Equal(t, process.Command{
		Words:       []string{"vllm", "serve", "org/m", "--port", "81", `{"a": 1}`},
		Environment: []string{"CUDA_VISIBLE_DEVICES=1", "HF_HOME=/models", "NOTHING="}, Folder: "/srv",
	}, filled)

	printed, err := config.YAML()
	require.NoError(t, err)
	again := DefaultConfig()
	require.NoError(t, again.decodeYAML("printed", []byte(printed)), printed)
	require.Equal(t, config, again, printed)
}

func TestFaultsOfLaunchesNameTheLine(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"no mapping":       {"launch: [[a]]\n", ":1: launch: takes KIND=COMMAND or a mapping"},
		"nothing":          {"launch:\n", "has no value"},
		"no command":       {"launch:\n- kind: vllm\n", ":2: launch: a launch needs kind, one of llamacpp, vllm, and command"},
		"kind":             {"launch:\n- command: x {port}\n  kind: sim\n", `:3: launch: "sim" is no kind`},
		"unknown key":      {"launch:\n- kind: vllm\n  command: x {port}\n  comand: y\n", ":4: launch: comand: no such option: there are name, count, devices, folder"},
		"twice":            {"launch:\n- kind: vllm\n  command: x {port}\n  kind: vllm\n", ":4: launch: kind is set twice"},
		"environment":      {"launch:\n- kind: vllm\n  command: x {port}\n  environment: A=1\n", "takes a mapping from variables"},
		"nested words":     {"launch:\n- kind: vllm\n  command: [x, [y]]\n", "takes plain values alone"},
		"no port":          {"launch:\n- kind: vllm\n  command: [x]\n", "has no {port}"},
		"text":             {"launch:\n- vllm=x {port}\n- nothing\n", ":3: launch: "},
		"mapping in value": {"launch:\n- kind: vllm\n  command: x {port}\n  folder: {a: b}\n", "takes one plain value"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadConfig(fileOf(t, c.file), environment(nil), flagsOf(nil))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Commands have blanks, so that the variable has one a line.
func TestLaunchesOfTheEnvironment(t *testing.T) {
	config, err := LoadConfig(nil, environment(map[string]string{
		"PLIMSOLL_LAUNCH": "llamacpp=a --port {port}\n\n  vllm,count=2=b --port {port}\n",
	}), flagsOf(nil))
	require.NoError(t, err)
	require.Len(t, config.Launches, 2)
	require.Equal(t, "vllm-2", config.Launches[1].Engine.Name)
}

func TestValidateLaunches(t *testing.T) {
	for name, c := range map[string]struct {
		launches []string
		change   func(*Config)
		want     string // "": fine
	}{
		"two kinds":       {[]string{"llamacpp=a {port}", "vllm=a {port}"}, nil, ""},
		"beside replicas": {[]string{"llamacpp=a {port}"}, func(c *Config) { c.Replicas = []ReplicaSpec{{Kind: kindSim, Target: "tiny", Name: "sim-1"}} }, ""},
		"no tokenizer":    {[]string{"llamacpp=a {port}"}, func(c *Config) { c.TokenizerDir = nil }, "needs --tokenizer DIR"},
		"one name":        {[]string{"llamacpp,name=x=a {port}", "llamacpp,name=x=a {port}"}, nil, `two replicas are named "x"`},
		"name of a replica": {
			[]string{"llamacpp,name=x=a {port}"},
			func(c *Config) {
				c.Replicas = []ReplicaSpec{{Kind: kindSim, Target: "tiny", Name: "x-2"}}
				c.LaunchCount = 2
			}, `two replicas are named "x-2"`,
		},
		"one log":           {[]string{"llamacpp,count=2,log-file=x=a {port}"}, nil, "would share the log-file x: put {name} into it"},
		"two logs":          {[]string{"llamacpp,count=2,log-file=x{index}=a {port}"}, nil, ""},
		"a million":         {[]string{"llamacpp,count=1000000=a {port}"}, nil, "1000000 engines, with those before it, are more than the 256"},
		"by the flag":       {[]string{"llamacpp=a {port}"}, func(c *Config) { c.LaunchCount = 257 }, "257 engines"},
		"in sum":            {[]string{"llamacpp,count=200=a {port}", "vllm,count=57=a {port}"}, nil, "launch vllm-2: 57 engines"},
		"as many as may be": {[]string{"llamacpp,count=200=a {port}", "vllm,count=56=a {port}"}, nil, ""},
		"missing key":       {[]string{"llamacpp,api-key-env=NONE=a {port}"}, nil, "the environment has no NONE"},
		"no time":           {[]string{"llamacpp=a {port}"}, func(c *Config) { c.LaunchGrace = 0 }, "must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			config, dir := DefaultConfig(), "models/x"
			config.TokenizerDir = &dir
			for i, text := range c.launches {
				spec, err := ParseLaunch(text, i+1)
				require.NoError(t, err)
				config.Launches = append(config.Launches, spec)
			}
			if c.change != nil {
				c.change(&config)
			}
			err := config.Validate(environment(nil))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Whatever is taken is printed so that it is taken again, and means the same.
func FuzzParseLaunch(f *testing.F) {
	for _, seed := range []string{
		"llamacpp=llama-server --port {port}", "vllm,name=a,count=2,devices=0+1,log-file=l{name}=x 'a b' {port}", "vllm,folder=/a,slots=3=x {port}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseLaunch(text, 1)
		if err != nil {
			return
		}
		again, err := ParseLaunch(spec.String(), 2)
		require.NoError(t, err, spec.String())
		require.Equal(t, spec, again)
	})
}

// The guard is nobody's to call, and not in the help.
func TestTheGuardIsHidden(t *testing.T) {
	_, stdout, _ := plimsoll(t, "", "--help")
	require.NotContains(t, stdout, guardCommandName)
	for _, args := range []string{"guard", "guard 1s x", "guard --help x"} {
		code, _, stderr := plimsoll(t, "", strings.Fields(args)...)
		require.Equal(t, 2, code, args)
		require.Contains(t, stderr, "for plimsoll serve --launch alone", args)
	}
}
