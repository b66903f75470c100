package fakeengine

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"plimsoll/engine"
	"plimsoll/engine/openai"
)

// counters are what the server counts itself; the rest of /metrics is the engine's status. They outlive the engine's lives,
// as the API server's do not: a killed engine takes a real server with it.
type counters struct {
	queries, hits       atomic.Int64 // prompt tokens of admitted requests, and those found in the cache
	generated           atomic.Int64
	stopped, lengthened atomic.Int64
}

// tally counts for one leg.
type tally struct {
	of           *counters
	promptTokens int
	admitted     bool
}

func (c *counters) begin(promptTokens int) *tally { return &tally{of: c, promptTokens: promptTokens} }

func (t *tally) event(e engine.Event) {
	if e.CachedTokens != nil && !t.admitted {
		t.admitted = true
		t.of.queries.Add(int64(t.promptTokens))
		t.of.hits.Add(int64(*e.CachedTokens))
	}
	t.of.generated.Add(int64(len(e.Tokens)))
}

func (t *tally) finished(reason string) {
	if reason == openai.FinishStop {
		t.of.stopped.Add(1)
	} else {
		t.of.lengthened.Add(1)
	}
}

// exposition writes the text format of Prometheus.
type exposition struct {
	bytes.Buffer
	labels string // of every sample of the engine
}

// family begins a metric.
func (x *exposition) family(name, kind, help string) {
	x.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// sample writes a value; labels are name="value" pairs.
func (x *exposition) sample(name string, value float64, labels ...string) {
	x.WriteString(name)
	if len(labels) > 0 {
		x.WriteString("{" + strings.Join(labels, ",") + "}")
	}
	x.WriteString(" " + strconv.FormatFloat(value, 'f', -1, 64) + "\n")
}

// of writes a metric of the engine with one value.
func (x *exposition) of(name, kind, help string, value float64) {
	x.family(name, kind, help)
	x.sample(name, value, x.labels)
}

// label writes one name="value" pair.
func label(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}

// metrics answers GET /metrics with vLLM's names, labels and units.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	sim, status, c := s.cfg.Engine.Sim, s.engine.Status(), s.counters
	x := &exposition{labels: label("engine", "0") + "," + label("model_name", sim.Model)}
	x.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.")
	x.sample("process_start_time_seconds", float64(s.began.UnixMilli())/1000)
	x.of("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", float64(status.Running))
	x.of("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", float64(status.Waiting))
	reasons := "vllm:num_requests_waiting_by_reason"
	x.family(reasons, "gauge", "Number of waiting requests by reason.")
	x.sample(reasons, float64(status.Waiting), x.labels, label("reason", "capacity"))
	x.sample(reasons, 0, x.labels, label("reason", "deferred"))
	x.of("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.",
		float64(status.UsedBlocks)/float64(sim.UsableBlocks()))
	queries, hits, generated := float64(c.queries.Load()), float64(c.hits.Load()), float64(c.generated.Load())
	x.of("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", queries)
	x.of("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", hits)
	x.of("vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", float64(status.Preemptions))
	x.of("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", queries)
	x.of("vllm:prompt_tokens_cached_total", "counter", "Number of cached prompt tokens.", hits)
	x.of("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", generated)
	success := "vllm:request_success_total"
	x.family(success, "counter", "Count of successfully processed requests.")
	for _, reason := range []struct {
		name  string
		value int64
	}{{openai.FinishStop, c.stopped.Load()}, {openai.FinishLength, c.lengthened.Load()}, {finishAbort, 0}, {"error", 0}} {
		x.sample(success, float64(reason.value), label("engine", "0"), label("finished_reason", reason.name), label("model_name", sim.Model))
	}
	steps := "vllm:iteration_tokens_total"
	x.family(steps, "histogram", "Histogram of number of tokens per engine_step.")
	x.sample(steps+"_bucket", float64(status.Steps), label("engine", "0"), label("le", "+Inf"), label("model_name", sim.Model))
	x.sample(steps+"_count", float64(status.Steps), x.labels)
	x.sample(steps+"_sum", queries-hits+generated, x.labels)
	s.cacheConfig(x)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(x.Bytes()) // a client that has gone misses nothing
}

// cacheConfig writes the capacity. The null block is in it, as vLLM counts.
func (s *Server) cacheConfig(x *exposition) {
	sim := s.cfg.Engine.Sim
	tokens := sim.KVBlocks * sim.BlockTokens
	name := "vllm:cache_config_info"
	x.family(name, "gauge", "Information of the LLMEngine CacheConfig")
	x.sample(name, 1,
		label("block_size", strconv.Itoa(sim.BlockTokens)), label("cache_dtype", "auto"), label("enable_prefix_caching", "True"),
		label("engine", "0"), label("kv_cache_max_concurrency", strconv.FormatFloat(float64(tokens)/float64(sim.SequenceTokens()), 'f', 2, 64)),
		label("kv_cache_size_tokens", strconv.Itoa(tokens)), label("num_cpu_blocks", "None"),
		label("num_gpu_blocks", strconv.Itoa(sim.KVBlocks)), label("prefix_caching_hash_algo", "sha256"))
}
