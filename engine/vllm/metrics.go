package vllm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

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
	made        *float64 // when the process made a counter of the rank, on the wall clock: finer than started, and no two do at once
	counters    []float64
	ranks       []int // that the server has, if it has several
	rank        *int  // that this is of, likewise
	none        bool  // the route is off
	own         bool  // some metric is of vLLM's own
	unread      bool  // all but the load is an earlier probe's
}

// scrape asks for the metrics. A server without them is served without a load, and so is one that takes longer for them than half of
// what is left of the probe's time: it is busy, and a probe that ran out of time would take it for a dead one.
func (e *Engine) scrape(ctx context.Context) (scrape, error) {
	before := e.before()
	soon := ctx
	if until, bounded := ctx.Deadline(); bounded && before != nil {
		var cancel context.CancelFunc
		soon, cancel = context.WithTimeout(ctx, time.Until(until)/2)
		defer cancel()
	}
	header, body, err := e.client.Get(soon, pathMetrics)
	var f *engine.Failure
	switch {
	case err != nil && ctx.Err() == nil && soon.Err() != nil:
		return *before, nil
	case errors.As(err, &f) && f.Status == http.StatusNotFound:
		return scrape{none: true}, nil
	case err != nil:
		return scrape{}, err
	}
	m, err := wire.ParseMetrics(body)
	if err != nil {
		return scrape{}, e.client.Unreadable(pathMetrics, header, err)
	}
	ranks := ranksIn(m)
	rank, err := e.rankOf(ranks)
	if err != nil {
		return scrape{}, err
	}
	c := read(m, rank)
	if c.rank = rank; len(ranks) > 1 {
		c.ranks = ranks
	}
	return c, nil
}

// process names the process that a scrape was answered by. peer is where the connection ended: processes on two machines may
// have begun within the hundredth of a second that the start time is told to.
func (c scrape) process(peer string) string {
	of := ""
	if c.rank != nil {
		of = "#" + strconv.Itoa(*c.rank)
	}
	switch {
	case c.made != nil:
		return "made:" + strconv.FormatFloat(*c.made, 'f', -1, 64) + of
	case c.started != nil && peer != "":
		return "start:" + strconv.FormatFloat(*c.started, 'f', -1, 64) + "@" + peer + of
	}
	return ""
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
	if made, ok := of("vllm:prompt_tokens_created").Number(); ok {
		c.made = &made
	}
	c.own = m.HasPrefix("vllm:")
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
