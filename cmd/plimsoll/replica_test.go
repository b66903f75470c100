package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// parsesAs checks what texts are read as, the third of their list, and that what is printed reads the same.
func parsesAs[S fmt.Stringer](t *testing.T, parse func(text string, number int) (S, error), cases map[string]S) {
	t.Helper()
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			spec, err := parse(text, 3)
			require.NoError(t, err)
			require.Equal(t, want, spec)
			again, err := parse(spec.String(), 1)
			require.NoError(t, err)
			require.Equal(t, spec, again)
		})
	}
}

func TestParseReplica(t *testing.T) {
	four, many, key := 4, 32768, "ENGINE_KEY"
	zero, model, api := 0, "org/m", "generate"
	named := func(spec ReplicaSpec) ReplicaSpec {
		spec.Name = spec.defaultName()
		return spec
	}
	parsesAs(t, ParseReplica, map[string]ReplicaSpec{
		"llamacpp=http://127.0.0.1:8081":                  named(ReplicaSpec{Kind: "llamacpp", Target: "http://127.0.0.1:8081"}),
		"llamacpp=http://127.0.0.1:8081/":                 named(ReplicaSpec{Kind: "llamacpp", Target: "http://127.0.0.1:8081"}),
		"llamacpp=https://gpu.example/llama/":             named(ReplicaSpec{Kind: "llamacpp", Target: "https://gpu.example/llama"}),
		"llamacpp=http://[::1]:8081,name=here":            {Kind: "llamacpp", Target: "http://[::1]:8081", Name: "here"},
		"sim=h100-8b":                                     {Kind: "sim", Target: "h100-8b", Name: "sim-3"},
		"sim=tiny,name=slow,slots=4":                      {Kind: "sim", Target: "tiny", Name: "slow", Slots: &four},
		"llamacpp=http://a:1,slots=4,name=a":              {Kind: "llamacpp", Target: "http://a:1", Name: "a", Slots: &four},
		"llamacpp=http://a:1,api-key-env=" + key:          named(ReplicaSpec{Kind: "llamacpp", Target: "http://a:1", APIKeyEnv: &key}),
		"vllm=http://a:1,model=org/m,api=generate,rank=0": named(ReplicaSpec{Kind: "vllm", Target: "http://a:1", Model: &model, API: &api, Rank: &zero}),
		"llamacpp=http://a:1,capacity-tokens=32768":       named(ReplicaSpec{Kind: "llamacpp", Target: "http://a:1", CapacityTokens: &many}),
		"vllm=http://a:1,events=off":                      named(ReplicaSpec{Kind: "vllm", Target: "http://a:1", Events: new("off")}),
		"vllm=http://a:1,events=tcp://a:5557,replay=tcp://a:5657": named(ReplicaSpec{
			Kind: "vllm", Target: "http://a:1", Events: new("tcp://a:5557"), Replay: new("tcp://a:5657"),
		}),
		"llamacpp=http://a:1,model=m.gguf":         named(ReplicaSpec{Kind: "llamacpp", Target: "http://a:1", Model: new("m.gguf")}),
		"sim=tiny,model=m":                         {Kind: "sim", Target: "tiny", Name: "sim-3", Model: new("m")},
		"vllm=http://a:1/v1":                       named(ReplicaSpec{Kind: "vllm", Target: "http://a:1"}),
		"vllm=http://a:1//":                        named(ReplicaSpec{Kind: "vllm", Target: "http://a:1"}),
		"vllm=http://a:1//gpu//v1/":                named(ReplicaSpec{Kind: "vllm", Target: "http://a:1/gpu"}),
		"vllm=http://a:1/v1/v1":                    named(ReplicaSpec{Kind: "vllm", Target: "http://a:1"}),
		"vllm=http://a:1/gpu/v10":                  named(ReplicaSpec{Kind: "vllm", Target: "http://a:1/gpu/v10"}),
		"vllm=http://a:1,events-bind=tcp://*:5557": named(ReplicaSpec{Kind: "vllm", Target: "http://a:1", EventsBind: new("tcp://*:5557")}),
	})
}

func TestParseReplicaSaysWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                        "write KIND=URL",
		"http://127.0.0.1:8081":                                   "write KIND=URL",
		"http://127.0.0.1:8081/?a=b":                              "write KIND=URL",
		"127.0.0.1:8081":                                          "write KIND=URL",
		"cuda=http://a:1":                                         `"cuda" is no kind of engine: write one of llamacpp`,
		"llamacpp=":                                               "write http://HOST:PORT",
		"llamacpp=a:1":                                            "write http://HOST:PORT",
		"llamacpp=127.0.0.1:8081":                                 "write http://HOST:PORT",
		"llamacpp=ftp://a:1":                                      "write http://HOST:PORT",
		"llamacpp=http://":                                        "write http://HOST:PORT",
		"llamacpp=http://:8081":                                   "write http://HOST:PORT",
		"llamacpp=http://a:1?x=1":                                 "no query",
		"llamacpp=http://user:secret@a:1":                         "api-key-env=VAR",
		"sim=b200":                                                "write one of sim=h100-8b",
		"llamacpp=http://a:1,name":                                `"name" has no value`,
		"llamacpp=http://a:1,name=":                               `"name=" has no value`,
		"llamacpp=http://a:1,":                                    `"" has no value`,
		"llamacpp=http://a:1,name=a b":                            "at most 64 letters",
		"llamacpp=http://a:1,slots=0":                             "slots=0: write a whole number above 0",
		"llamacpp=http://a:1,capacity-tokens=8k":                  "write a whole number above 0",
		"llamacpp=http://a:1,slot=4":                              "no such option",
		"llamacpp=http://a:1,slots=4,slots=5":                     "slots is set twice",
		"llamacpp=http://a:1,rank=0":                              "no such option",
		"vllm=http://a:1,rank=-1":                                 "the first rank is 0",
		"vllm=http://a:1,api=grpc":                                "write one of completions, generate, auto",
		"vllm=http://a:1,events=yes":                              "write tcp://HOST:PORT, or auto or off",
		"vllm=http://a:1,events=tcp://a":                          "write tcp://HOST:PORT",
		"vllm=http://a:1,events=tcp://*:5557":                     "a wildcard is no host to connect to",
		"vllm=http://a:1,events=tcp://a:65535,rank=1":             "no port for rank 1",
		"vllm=http://a:1,replay=tcp://a:5657":                     "replay goes with the publisher's address",
		"vllm=http://a:1,events=auto,replay=tcp://a:5657":         "replay goes with the publisher's address",
		"vllm=http://a:1,events=tcp://a:5557,replay=tcp://*:5657": "a wildcard",
		"vllm=http://a:1,events=tcp://a:5557,events-bind=tcp://*:5557": "exclude each other",
		"llamacpp=http://a:1,events=off":                               "no such option",
		"vllm=http://a:1,lora=x":                                       "for vllm api, rank, events",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := ParseReplica(text, 1)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// Whatever is taken is printed so that it is taken again, and means the same.
func FuzzParseReplica(f *testing.F) {
	for _, seed := range []string{
		"llamacpp=http://127.0.0.1:8081", "llamacpp=https://[::1]/x/,name=a,slots=2", "sim=tiny,capacity-tokens=64", "llamacpp=http://a=b:1,api-key-env=K",
		"vllm=http://a:1,model=m,api=auto,rank=7", "vllm=http://a:1,events=tcp://h:1,replay=tcp://h:2", "vllm=http://a:1,events-bind=tcp://[::]:1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseReplica(text, 1)
		if err != nil {
			return
		}
		again, err := ParseReplica(spec.String(), 2)
		require.NoError(t, err)
		require.Equal(t, spec, again)
	})
}
