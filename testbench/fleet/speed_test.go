package fleet_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"plimsoll/engine/sim"
	"plimsoll/testbench/fleet"
	"plimsoll/testbench/report"
	"plimsoll/testbench/shared"
	"plimsoll/testbench/trace"
)

func TestSpeed(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	f, _ := strconv.ParseFloat(os.Getenv("F"), 64)
	bt, _ := strconv.Atoi(os.Getenv("BT"))
	engines := make([]sim.Config, 8)
	for i := range engines {
		engines[i] = sim.DefaultConfig()
		engines[i].HashSeed = uint64(i + 1)
		if bt > 0 {
			engines[i].BlockTokens = bt
			engines[i].KVBlocks = 400000/bt + 1
		}
	}
	cfg := fleet.DefaultConfig(engines)
	if p := os.Getenv("POLICY"); p != "" {
		cfg.Router.Policy = p
	}
	if os.Getenv("SAT") != "" {
		b := 32
		cfg.Backlog = &b
	}
	src := trace.Mooncake(shared.Open(t, shared.Path(t, "testdata", "traces", "mooncake-conversation.jsonl.gz")))
	src = trace.Spread(trace.Cut(src, 0, n), 3*time.Second, 1)
	src, _ = trace.Scaled(src, f)
	began := time.Now()
	r, err := fleet.Run(cfg, src, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ttft, tpot []time.Duration
	ends := map[string]int{}
	cached, prompt := 0, 0
	for i := range r.Samples {
		s := &r.Samples[i]
		ends[s.Outcome.String()+s.Why]++
		ttft = append(ttft, s.TTFT())
		if v, ok := s.TPOT(); ok {
			tpot = append(tpot, v)
		}
		cached += s.CachedTokens
		prompt += s.PromptTokens
	}
	t.Log(time.Since(began), r.Virtual, r.Events, ends, report.Milliseconds(ttft, 0.5), report.Milliseconds(ttft, 0.99), report.Milliseconds(tpot, 0.5), report.Milliseconds(tpot, 0.99), float64(cached)/float64(prompt))
	t.Logf("%+v", r.Replicas)
}
