package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBuiltinPlansAreValid(t *testing.T) {
	plans, err := Builtin()
	require.NoError(t, err)
	names := make([]string, 0, len(plans))
	for _, p := range plans {
		names = append(names, p.Name)
		require.NotEmpty(t, p.About)
		if p.faulty() {
			require.NotEmpty(t, schedule(p), p.Name)
		}
		again, err := Named(p.Name)
		require.NoError(t, err)
		require.Equal(t, p, again)
	}
	require.Contains(t, names, "default")
	_, err = Named("nothing")
	require.ErrorContains(t, err, "default")
}

// The default plan is what is promised: half of 60 faults are kill -9.
func TestTheDefaultPlan(t *testing.T) {
	p, err := Named("default")
	require.NoError(t, err)
	require.Equal(t, 8, p.Fleet.Size())
	require.Equal(t, 200, p.Traffic.Streams)
	list := schedule(p)
	require.Len(t, list, 60)
	kinds := map[Kind]int{}
	for i, d := range list {
		require.Equal(t, time.Duration(i)*5*time.Second, d.at)
		kinds[d.Kind]++
	}
	require.Equal(t, map[Kind]int{Kill: 30, Stop: 10, Term: 10, Cut: 10}, kinds)
	require.Equal(t, list, schedule(p), "the same plan, the same faults")
	p.Seed++
	require.NotEqual(t, list, schedule(p))
}

const smallest = "name: a\nduration: 1s\nfleet: {engines: 2}\n"

func TestParsePlan(t *testing.T) {
	p, err := ParsePlan([]byte(smallest + `
seed: 7
faults:
  at:
    - {at: 3s, kind: flap, engine: 1, times: 3, back: 1s, for: [1s, 2s]}
    - {at: 1s, kind: events, for: 2s, events: {seed: 1, lose: 0.5}}
`))
	require.NoError(t, err)
	require.Equal(t, uint64(7), p.Seed)
	list := schedule(p)
	require.Equal(t, []Kind{Events, Flap}, []Kind{list[0].Kind, list[1].Kind}, "in the order of their times")
	require.Equal(t, 2*time.Second, list[0].lasts)
	require.GreaterOrEqual(t, list[1].lasts, time.Second)
	require.LessOrEqual(t, list[1].lasts, 2*time.Second)
	require.InDelta(t, 0.5, list[0].Events.Lose, 0)
}

// twoReal has an engine of which nothing is known, and one that can be started.
const twoReal = "name: a\nduration: 1s\nfleet: {tokenizer: t, real: [{kind: vllm, url: 'http://a:1'}, {kind: vllm, url: 'http://b:1', command: [c, d]}]}\n"

func TestWhatRealEnginesTake(t *testing.T) {
	for _, fault := range []string{"kill, engine: 1", "term, engine: 1", "stop, engine: 1", "cut", "delay, latency: 1ms", "partition"} {
		_, err := ParsePlan([]byte(twoReal + "faults: {at: [{kind: " + fault + "}]}"))
		require.NoError(t, err, fault)
	}
	_, err := ParsePlan([]byte("name: a\nduration: 1s\nfleet: {tokenizer: t, real: [{kind: a, url: u, pid: 1}, {kind: a, url: v, pid: 2}]}\nfaults: {at: [{kind: stop}]}"))
	require.NoError(t, err)
}

func TestWhatIsNoPlan(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "says nothing",
		"duration: 1s":                   "needs a name",
		"name: a":                        "duration",
		"name: a\nduratoin: 1s":          "line 2",
		smallest + "---\nname: b":        "one plan",
		smallest + "faults: {every: 1s}": "mix",
		smallest + "faults: {at: [{kind: krill}]}":                           `"krill" is no kind of fault`,
		smallest + "faults: {at: [{kind: kill, engine: 2}]}":                 "no engine 2",
		smallest + "faults: {at: [{kind: slow}]}":                            "factor",
		smallest + "faults: {at: [{kind: status, status: 200}]}":             "status",
		smallest + "faults: {at: [{kind: hang-after}]}":                      "tokens",
		smallest + "faults: {at: [{kind: flap}]}":                            "times",
		smallest + "faults: {at: [{kind: delay}]}":                           "latency",
		smallest + "faults: {at: [{kind: events}]}":                          "events",
		smallest + "faults: {at: [{kind: clock}]}":                           "jump",
		smallest + "faults: {at: [{kind: kill, back: [2s, 1s]}]}":            "no span",
		smallest + "faults: {at: [{kind: kill}], healthy: 2}":                "left healthy",
		smallest + "faults: {at: [{kind: slow, factor: .nan}]}":              "factor",
		smallest + "faults: {at: [{kind: kill, for: -1s}]}":                  "must not be below 0",
		smallest + "faults: {at: [{kind: delay, latency: 1s, jitter: -1s}]}": "must not be below 0",
		smallest + "traffic: {mix: {greedy: 0}}":                             "a weight above 0",
		smallest + "traffic: {mix: {polite: 1}}":                             "no class",
		smallest + "traffic: {prompt-tokens: [10, 20]}":                      "prompts of at least",
		"name: a\nduration: 1s\nfleet: {profile: z80}":                       "z80",
		"name: a\nduration: 1s\nfleet: {speed: 0}":                           "speed",
		"name: a\nduration: 1s\nfleet: {engines: 2, tokenizer: x}":           "and they alone",
		"name: a\nduration: 1s\nfleet: {real: [{kind: vllm, url: 'u'}]}":     "tokenizer's folder",
		twoReal + "faults: {at: [{kind: hang, engine: 1}]}":                  "only simulated",
		twoReal + "faults: {at: [{kind: kill, engine: 0}]}":                  "needs its command",
		twoReal + "faults: {at: [{kind: flap, times: 1}]}":                   "needs its command",
		twoReal + "faults: {at: [{kind: stop, engine: 0}]}":                  "pid",
	} {
		_, err := ParsePlan([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestVictim(t *testing.T) {
	one := 1
	for _, c := range []struct {
		d       due
		healthy []int
		want    int
		ok      bool
	}{
		{due{victimise: 5}, []int{0, 2, 3}, 3, true},         // 3 or 0, which has less
		{due{victimise: 1<<32 + 1}, []int{0, 2, 3}, 3, true}, // 3 or 2
		{due{victimise: 1<<32 + 2}, []int{0, 2, 3}, 2, true}, // 0 or 2
		{due{victimise: 5}, []int{0}, 0, false},
		{due{Fault: Fault{Engine: &one}}, []int{1}, 1, true},
		{due{Fault: Fault{Engine: &one}}, []int{0, 2}, 1, true}, // a script is done as it says
	} {
		got, ok := victim(c.d, c.healthy, 1, func(e int) int { return e })
		require.Equal(t, c.ok, ok)
		if ok {
			require.Equal(t, c.want, got)
		}
	}
}

func TestKindsAreNamed(t *testing.T) {
	for k := range NumKinds {
		var back Kind
		text, err := k.MarshalText()
		require.NoError(t, err)
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, k, back)
		require.False(t, k.silent() && !k.breaks(), "%s: what hangs strikes", k)
	}
	require.Equal(t, "unknown", NumKinds.String())
	require.False(t, slices.Contains(kindNames[:], ""))
}
