package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/engine/process"
	"plimsoll/scoring/quota"
)

// environment is a process environment of a test's own.
func environment(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		text, ok := vars[name]
		return text, ok
	}
}

// flagsOf stands for the flags of a command line.
func flagsOf(set map[string][]string) source {
	return func(name string) ([]string, bool) {
		texts, ok := set[name]
		return texts, ok
	}
}

// fileOf writes a configuration file.
func fileOf(t *testing.T, text string) *string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plimsoll.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return &path
}

func TestAFlagBeatsTheEnvironmentWhichBeatsTheFile(t *testing.T) {
	const file = "queue-timeout: 1s\nreplica:\n- llamacpp=http://file:1\n- llamacpp=http://file:2\n"
	env := map[string]string{"PLIMSOLL_QUEUE_TIMEOUT": "2s", "PLIMSOLL_REPLICA": "llamacpp=http://env:1,slots=2 llamacpp=http://env:2"}
	flags := map[string][]string{"queue-timeout": {"3s"}, "replica": {"llamacpp=http://flag:1,slots=4"}}
	for _, c := range []struct {
		name            string
		file, env, flag bool
		timeout         time.Duration
		hosts           string
	}{
		{"nothing", false, false, false, 30 * time.Second, ""},
		{"file", true, false, false, 1 * time.Second, "file:1 file:2"},
		{"env", false, true, false, 2 * time.Second, "env:1 env:2"},
		{"flag", false, false, true, 3 * time.Second, "flag:1"},
		{"file and env", true, true, false, 2 * time.Second, "env:1 env:2"},
		{"file and flag", true, false, true, 3 * time.Second, "flag:1"},
		{"env and flag", false, true, true, 3 * time.Second, "flag:1"},
		{"all", true, true, true, 3 * time.Second, "flag:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var path *string
			var vars map[string]string
			var set map[string][]string
			if c.file {
				path = fileOf(t, file)
			}
			if c.env {
				vars = env
			}
			if c.flag {
				set = flags
			}
			config, err := LoadConfig(path, environment(vars), flagsOf(set))
			require.NoError(t, err)
			require.Equal(t, c.timeout, config.QueueTimeout)
			names := make([]string, len(config.Replicas))
			for i, r := range config.Replicas {
				names[i] = strings.TrimPrefix(r.Target, "http://")
			}
			require.Equal(t, c.hosts, strings.Join(names, " "))
		})
	}
}

func TestEverySettingIsAFieldWithADefault(t *testing.T) {
	config := DefaultConfig()
	for _, s := range config.settings() {
		require.Equal(t, 2, strings.Count(s.usage, "`"), "the help of %s names its value once", s.name)
		if texts := s.encode(); len(texts) > 0 {
			require.NoError(t, s.decode(texts), "the default of %s", s.name)
		}
	}
	require.Equal(t, DefaultConfig(), config)
}

func TestFaultsOfTheFileNameTheLine(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"unknown key", "listen: :80\nlisten-on: :81\n", `:2: there is no setting "listen-on": do you mean listen?`},
		{"a slip", "queu-timeuot: 3s\n", "do you mean queue-timeout?"},
		{"a word left out", "first-timeout: 3s\n", "do you mean first-token-timeout?"},
		{"other spelling", "\nqueue_timeout: 3s\n", "do you mean queue-timeout?"},
		{"plural", "replicas: []\n", "do you mean replica?"},
		{"twice", "model: a\n\nmodel: b\n", ":3: model is already set in line 1"},
		{"no duration", "# waiting\nqueue-timeout: 30\n", `:2: queue-timeout: "30" is no duration: write a number and a unit`},
		{"negative", "client-stall: -1s\n", "cannot be negative"},
		{"no time at all", "early-headers: 0s\n", ":1: early-headers: must be above 0"},
		{"no number", "queue-requests: many\n", `"many" is no whole number`},
		{"too small", "default-max-tokens: 0\n", "must be at least 1"},
		{"less than predicted", "hedge-after: 0.5\n", `hedge-after: cannot be "0.5": write 0 for never, or a number from 1 to 1000`},
		{"no multiple", "hedge-after: NaN\n", "write 0 for never"},
		{"choice", "policy: fastest\n", "write one of token-load, round-robin, random, p2c, least-requests, least-tokens, session-affinity, prefix-affinity, block-cost, lmetric, affinity-filter"},
		{"list", "model: [a, b]\n", ":1: model: takes one value, not a list"},
		{"mapping", "listen: {port: 80}\n", "takes a plain value, not a mapping"},
		{"mapping in a list", "replica:\n- llamacpp=http://a:1\n- {url: http://b:2}\n", ":3: replica: takes a plain value"},
		{"no value", "tokenizer:\n", "has no value"},
		{"top is a list", "- listen\n", "write one setting a line"},
		{"top is a text", "listen\n", "write one setting a line"},
		{"no YAML", "listen: [\n", "yaml: line"},
		{"two documents", "model: a\n---\nmodel: b\n", "more than one YAML document"},
		{"replica", "replica: [http://a:1]\n", "does not say what engine it is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := fileOf(t, c.file)
			_, err := LoadConfig(path, environment(nil), flagsOf(nil))
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, *path)
		})
	}
}

func TestFaultsNameTheVariableOrTheFlag(t *testing.T) {
	_, err := LoadConfig(nil, environment(map[string]string{"PLIMSOLL_QUEUE_TOKENS": "1e6"}), flagsOf(nil))
	require.ErrorContains(t, err, "PLIMSOLL_QUEUE_TOKENS: ")
	_, err = LoadConfig(nil, environment(nil), flagsOf(map[string][]string{"queue-tokens": {"1e6"}}))
	require.ErrorContains(t, err, "--queue-tokens: ")
	missing := filepath.Join(t.TempDir(), "none.yaml")
	_, err = LoadConfig(&missing, environment(nil), flagsOf(nil))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAnEmptyFileSetsNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# only a comment\n"} {
		config, err := LoadConfig(fileOf(t, text), environment(nil), flagsOf(nil))
		require.NoError(t, err)
		require.Equal(t, DefaultConfig(), config)
	}
}

// What is printed is a file that gives the same configuration again, whatever was set.
func TestPrintedConfigurationsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := DefaultConfig()
		word := rapid.StringMatching(`[a-zA-Z0-9~#:'"{}&*!|>% ./_-]{1,20}|null|true|1e3`)
		number := rapid.IntRange(1, 1<<30)
		config.Listen = word.Draw(t, "listen")
		config.Model = rapid.Ptr(word, true).Draw(t, "model")
		config.TokenizerDir = rapid.Ptr(word, true).Draw(t, "tokenizer")
		config.APIKeyFile = rapid.Ptr(word, true).Draw(t, "api-key-file")
		config.Render = rapid.SampledFrom([]string{"local", "engine"}).Draw(t, "render")
		config.Admission = rapid.SampledFrom([]string{"expected", "strict"}).Draw(t, "admission")
		config.HedgeAfter = rapid.SampledFrom([]float64{0, 1, 2.5, 1000}).Draw(t, "hedge-after")
		config.ResumeWait = time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "resume-wait"))
		config.QueueTimeout = time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "queue-timeout"))
		config.PromoteAfter = time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "queue-promote-after"))
		config.Tenants = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) TenantSpec {
			spec := TenantSpec{
				Name: rapid.StringMatching(`[a-z0-9][a-z0-9._:-]{0,10}`).Draw(t, "name"), Weight: rapid.Ptr(rapid.Float64Range(0.001, 1000), true).Draw(t, "weight"),
				Quota: quota.Limits{TokensPerMinute: rapid.Ptr(number, true).Draw(t, "tokens")},
			}
			if spec.Weight == nil && spec.Quota.TokensPerMinute == nil {
				spec.Quota.RequestsPerMinute = new(number.Draw(t, "requests"))
			}
			return spec
		}), 1, 3).Draw(t, "tenants")
		config.QueueRequests = rapid.IntRange(1, 1<<40).Draw(t, "queue-requests")
		config.DefaultMaxTokens = number.Draw(t, "default-max-tokens")
		config.Replicas = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ReplicaSpec {
			return ReplicaSpec{
				Kind:           "llamacpp",
				Target:         rapid.StringMatching(`https?://[a-z0-9.-]{1,10}:[1-9][0-9]{0,3}(/[a-z]{1,5})?`).Draw(t, "url"),
				Name:           rapid.StringMatching(`[a-z0-9][a-z0-9._:-]{0,10}`).Draw(t, "name"),
				CapacityTokens: rapid.Ptr(number, true).Draw(t, "capacity"),
				Slots:          rapid.Ptr(number, true).Draw(t, "slots"),
				APIKeyEnv:      rapid.Ptr(rapid.StringMatching(`[A-Z_]{1,8}`), true).Draw(t, "key"),
			}
		}), 1, 4).Draw(t, "replicas")
		config.LaunchCount = number.Draw(t, "launch-count")
		config.Launches = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) LaunchSpec {
			text := rapid.StringMatching(`[a-zA-Z0-9~#:'"{}&*!|>% ./_=,$-]{1,10}|null|true|1e3`)
			return LaunchSpec{
				Engine: ReplicaSpec{Kind: "vllm", Name: rapid.StringMatching(`[a-z0-9][a-z0-9._:-]{0,10}`).Draw(t, "name"), Slots: rapid.Ptr(number, true).Draw(t, "slots")},
				Command: process.Command{
					Words: append(rapid.SliceOfN(text, 1, 3).Draw(t, "words"), "{port}"), Folder: text.Draw(t, "folder"),
					Environment: []string{"A=" + text.Draw(t, "variable")},
				},
				Devices: rapid.SliceOfN(text, 1, 2).Draw(t, "devices"), LogFile: rapid.Ptr(text, true).Draw(t, "log-file"),
			}
		}), 1, 3).Draw(t, "launches")

		printed, err := config.YAML()
		require.NoError(t, err)
		again := DefaultConfig()
		require.NoError(t, again.decodeYAML("printed", []byte(printed)), printed)
		require.Equal(t, config, again, printed)
	})
}

func TestValidate(t *testing.T) {
	engines := func(texts ...string) func(*Config) {
		return func(c *Config) {
			dir := "models/x"
			c.TokenizerDir = &dir
			for i, text := range texts {
				spec, err := ParseReplica(text, i+1)
				require.NoError(t, err)
				c.Replicas = append(c.Replicas, spec)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string // "": fine
	}{
		{"defaults", func(*Config) {}, ""},
		{"any port", func(c *Config) { c.Listen = "127.0.0.1:0" }, ""},
		{"all interfaces", func(c *Config) { c.Listen = ":8080" }, ""},
		{"IPv6", func(c *Config) { c.Listen = "[::1]:8080" }, ""},
		{"no port", func(c *Config) { c.Listen = "127.0.0.1" }, "write HOST:PORT"},
		{"port too large", func(c *Config) { c.Listen = "127.0.0.1:99999" }, "is no port"},
		{"port by name", func(c *Config) { c.Listen = "127.0.0.1:http" }, "is no port"},
		{"simulated ones need no tokenizer", func(c *Config) {
			c.Replicas = []ReplicaSpec{{Kind: kindSim, Target: "tiny", Name: "sim-1"}}
		}, ""},
		{"engines", engines("llamacpp=http://a:1", "llamacpp=http://a:2"), ""},
		{"no tokenizer", func(c *Config) { engines("llamacpp=http://a:1")(c); c.TokenizerDir = nil }, "--replica needs --tokenizer DIR"},
		{"same engine twice", engines("llamacpp=http://a:1", "llamacpp=http://a:1/"), "are the same engine, at http://a:1 and http://a:1"},
		{"same engine under two names", engines("llamacpp=http://Gpu:80,name=a", "vllm=http://gpu/,name=b"), "replicas a and b are the same engine"},
		{"same engine over TLS", engines("llamacpp=https://a:443/x/,name=a", "llamacpp=https://A/x,name=b"), "the same engine"},
		{"other ports", engines("llamacpp=http://a:443,name=a", "llamacpp=https://a:443,name=b", "llamacpp=http://a:80,name=c"), ""},
		{"other paths", engines("llamacpp=http://a/x,name=a", "llamacpp=http://a/X,name=b"), ""},
		{"other names of a machine", engines("llamacpp=http://localhost:1,name=a", "llamacpp=http://127.0.0.1:1,name=b"), "replicas a and b are the same engine"},
		{"other names of this machine", engines("llamacpp=http://[::1]:1,name=a", "vllm=http://LOCALHOST.:1,name=b"), "the same engine"},
		{"names that may be of one machine", engines("llamacpp=http://gpu:1,name=a", "llamacpp=http://10.0.0.1:1,name=b"), ""},
		{"IPv6 twice", engines("llamacpp=http://[::1]:80,name=a", "llamacpp=http://[::1],name=b"), "the same engine"},
		{"ranks of an engine", engines("vllm=http://a:1,name=a,rank=0", "vllm=http://a:1/,name=b,rank=1"), ""},
		{"a rank twice", engines("vllm=http://a:1,name=a,rank=1", "vllm=http://a:1/,name=b,rank=1"), "the same engine"},
		{"a rank and all", engines("vllm=http://a:1,name=a,rank=1", "vllm=http://a:1/,name=b"), "the same engine"},
		{"all and a rank", engines("vllm=http://a:1,name=b", "vllm=http://a:1/,name=a,rank=1"), "the same engine"},
		{"simulated ones of one profile", func(c *Config) {
			c.Replicas = []ReplicaSpec{{Kind: kindSim, Target: "tiny", Name: "a"}, {Kind: kindSim, Target: "tiny", Name: "b"}}
		}, ""},
		{"no silence", func(c *Config) { c.EventsSilence = 0 }, "--kv-events-silence must be above 0"},
		{"no least silence", func(c *Config) { c.HangLeast = 0 }, "--hang-least must be above 0"},
		{"blind below least", func(c *Config) { c.HangBlind = c.HangLeast - 1 }, "--hang-blind is"},
		{"same name", engines("llamacpp=http://a:1,name=x", "llamacpp=http://a:2,name=x"), `two replicas are named "x"`},
		{"key in the environment", engines("llamacpp=http://a:1,api-key-env=KEY"), ""},
		{"key is empty", engines("llamacpp=http://a:1,api-key-env=EMPTY"), "the environment has no EMPTY"},
		{"key is missing", engines("llamacpp=http://a:1,api-key-env=NONE"), "the environment has no NONE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := DefaultConfig()
			c.change(&config)
			err := config.Validate(environment(map[string]string{"KEY": "secret", "EMPTY": ""}))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// An order that names any variable could have its value sent to any URL.
func TestValidateOrder(t *testing.T) {
	getenv := environment(map[string]string{"KEY": "engine-key", "SECRET": "other-secret"})
	dir := "models/x"
	for _, c := range []struct{ order, want string }{
		{"llamacpp=http://b:1", ""},
		{"sim=tiny", ""},
		{"llamacpp=http://b:1,api-key-env=KEY", ""},
		{"llamacpp=http://b:1,api-key-env=SECRET", "an order can name only a variable that a --replica of the start names"},
		{"llamacpp=http://b:1,api-key-env=NONE", "an order can name only a variable"},
	} {
		t.Run(c.order, func(t *testing.T) {
			configured, err := ParseReplica("llamacpp=http://a:1,api-key-env=KEY", 1)
			require.NoError(t, err)
			order, err := ParseReplica(c.order, 2)
			require.NoError(t, err)
			config := DefaultConfig()
			config.Replicas, config.TokenizerDir = []ReplicaSpec{configured}, &dir
			if c.want == "" {
				require.NoError(t, config.ValidateOrder(order, getenv))
				return
			}
			require.ErrorContains(t, config.ValidateOrder(order, getenv), c.want)
		})
	}
	engine, err := ParseReplica("llamacpp=http://b:1", 2)
	require.NoError(t, err)
	require.ErrorIs(t, DefaultConfig().ValidateOrder(engine, getenv), errNoTokenizer)
}
