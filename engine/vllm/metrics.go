package vllm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// rankLabel is the label that names the data-parallel rank.
const rankLabel = "engine"

// scrape is what one GET /metrics says of one rank. nil is what it does not say.
type scrape struct {
	blockTokens *int
	blocks      *int // usable ones
	load        engine.Load
	asleep      bool
	started     *float64 // of the API server's process, on the wall clock
	counters    []float64
	unread      bool // all but the load is an earlier probe's
}

// scrape asks for the metrics. A server without them is served without a load.
func (e *Engine) scrape(ctx context.Context) (scrape, error) {
	m, err := metricsOf(ctx, e.client)
	if err != nil || m == nil {
		return scrape{}, err
	}
	rank, err := e.rankOf(ranksIn(*m))
	if err != nil {
		return scrape{}, err
	}
	return read(*m, rank), nil
}

// metricsOf returns nil where the route is off.
func metricsOf(ctx context.Context, client *wire.Client) (*wire.Metrics, error) {
	_, body, err := client.Get(ctx, "metrics")
	var f *engine.Failure
	switch {
	case errors.As(err, &f) && f.Status == http.StatusNotFound:
		return nil, nil //nolint:nilnil // no metrics is no error
	case err != nil:
		return nil, err
	}
	m, err := wire.ParseMetrics(body)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

const cacheInfo = "vllm:cache_config_info"

// ranksIn lists the ranks of the server, sorted; none if it does not tell.
func ranksIn(m wire.Metrics) []int {
	var ranks []int
	for _, label := range m.Series(cacheInfo).Labels(rankLabel) {
		if rank, err := strconv.Atoi(label); err == nil && rank >= 0 {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}

// rankOf returns the rank to read of, nil for the only one there is.
func (e *Engine) rankOf(ranks []int) (*int, error) {
	switch {
	case e.cfg.Rank != nil && len(ranks) > 0 && !slices.Contains(ranks, *e.cfg.Rank):
		err := fmt.Errorf("the server has no data-parallel rank %d, but %v", *e.cfg.Rank, ranks)
		return nil, &engine.Failure{Kind: engine.Operator, Err: err}
	case e.cfg.Rank != nil && len(ranks) > 0:
		return e.cfg.Rank, nil
	case len(ranks) > 1:
		e.pinned.Store(int64(ranks[0]))
		return &ranks[0], nil
	}
	return nil, nil //nolint:nilnil // the server's only rank has no name
}

// Ranks asks a server which data-parallel ranks it has; none if it does not tell. An [Engine] is to be made for each.
func Ranks(ctx context.Context, cfg Config, deps Deps) ([]int, error) {
	e, err := New(cfg, deps)
	if err != nil {
		return nil, err
	}
	defer e.client.Close()
	call, done := e.client.Begin(ctx)
	defer done()
	m, err := metricsOf(call, e.client)
	if err != nil {
		return nil, e.client.Verdict(ctx, err)
	}
	if m == nil {
		return nil, nil
	}
	return ranksIn(*m), nil
}

// read takes one rank's part of the metrics; rank nil where there is only one.
func read(m wire.Metrics, rank *int) scrape {
	of := func(name string) wire.Series {
		s := m.Series(name)
		if rank == nil {
			return s
		}
		return s.With(rankLabel, strconv.Itoa(*rank))
	}
	c := scrape{load: engine.Load{
		RunningSequences: wire.Count[int](of("vllm:num_requests_running")),
		WaitingSequences: wire.Count[int](of("vllm:num_requests_waiting")),
		Steps:            wire.Count[uint64](of("vllm:iteration_tokens_total")),
	}}
	c.blockTokens, c.blocks = capacity(of(cacheInfo))
	usage, ok := of("vllm:kv_cache_usage_perc").Number()
	if !ok {
		usage, ok = of("vllm:gpu_cache_usage_perc").Number() // its older name
	}
	if ok && c.blocks != nil && usage <= 1 {
		used := int(math.Round(usage * float64(*c.blocks)))
		c.load.UsedBlocks = &used
	}
	if awake, ok := of("vllm:engine_sleep_state").With("sleep_state", "awake").Number(); ok {
		c.asleep = awake == 0
	}
	if started, ok := m.Series("process_start_time_seconds").Number(); ok {
		c.started = &started
	}
	for _, name := range []string{"vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:iteration_tokens_total"} {
		count, _ := of(name).Number()
		c.counters = append(c.counters, count)
	}
	return c
}

// tokensMax is the most that a cache is believed to hold: a million times the largest. What claims more is misread.
const tokensMax = 1 << 40

// capacity reads the labels of the cache's configuration. One block of the total is the null block, which holds nothing.
func capacity(info wire.Series) (blockTokens, usable *int) {
	number := func(label string) int {
		values := info.Labels(label)
		if len(values) != 1 {
			return 0
		}
		n, err := strconv.Atoi(values[0]) // "None" is none
		if err != nil {
			return 0
		}
		return n
	}
	size := number("block_size")
	if size < 1 || size > tokensMax {
		return nil, nil
	}
	total := number("kv_cache_size_tokens") / size
	if total < 1 {
		total = number("num_gpu_blocks")
	}
	if total < 1 || total > tokensMax/size {
		return &size, nil
	}
	total--
	return &size, &total
}
