package trial

import (
	"encoding/json"
	"math"
	"time"

	"plimsoll/testbench/fleet"
	"plimsoll/testbench/report"
)

// Seconds is a time in seconds that may be infinite, which JSON says as null.
type Seconds float64

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(s), 0) || math.IsNaN(float64(s)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*s = Seconds(math.Inf(1))
		return nil
	}
	return json.Unmarshal(text, (*float64)(s))
}

// Summary is what one run has come to. Times are in seconds; what was refused or failed counts as infinite.
type Summary struct {
	Requests    int     `json:"requests"`
	Refused     int     `json:"refused"`
	Failed      int     `json:"failed"`
	Preemptions int     `json:"preemptions"`
	Good        float64 `json:"good"`         // share of all requests within the SLO
	GoodRate    float64 `json:"good_rate"`    // of them a second, while requests came
	HitShare    float64 `json:"hit_share"`    // of the prompt tokens of what finished
	BusiestPart float64 `json:"busiest_part"` // the busiest replica's prompt tokens, of the mean of all
	WaitP99     Seconds `json:"wait_p99"`     // in the router
	TTFTP50     Seconds `json:"ttft_p50"`
	TTFTP90     Seconds `json:"ttft_p90"`
	TTFTP99     Seconds `json:"ttft_p99"`
	TPOTP50     Seconds `json:"tpot_p50"`
	TPOTP99     Seconds `json:"tpot_p99"`
	EndP99      Seconds `json:"end_p99"` // from arrival to the last token
}

// never is how long what does not happen takes.
const never = time.Duration(math.MaxInt64)

// Summarize sums samples up.
func Summarize(samples []fleet.Sample, slo SLO, replicas int) Summary {
	s := Summary{Requests: len(samples)}
	var wait, ttft, tpot, end []time.Duration
	work := make([]int, replicas)
	good, hits, prompts, span := 0, 0, 0, time.Duration(0)
	for i := range samples {
		x := &samples[i]
		span = max(span, x.At)
		s.Preemptions += x.Preemptions
		switch x.Outcome {
		case fleet.Finished:
		case fleet.Refused:
			s.Refused++
		case fleet.Failed, fleet.NumOutcomes:
			s.Failed++
		}
		if x.Outcome != fleet.Finished {
			wait, ttft, tpot, end = append(wait, never), append(ttft, never), append(tpot, never), append(end, never)
			continue
		}
		wait, ttft, end = append(wait, x.Dispatched-x.At), append(ttft, x.TTFT()), append(end, x.Last-x.At)
		if v, ok := x.TPOT(); ok {
			tpot = append(tpot, v)
		}
		hits, prompts = hits+x.CachedTokens, prompts+x.PromptTokens
		if x.Replica >= 0 && x.Replica < replicas {
			work[x.Replica] += x.PromptTokens
		}
		if slo.good(x) {
			good++
		}
	}
	s.WaitP99 = quantile(wait, 0.99)
	s.TTFTP50, s.TTFTP90, s.TTFTP99 = quantile(ttft, 0.5), quantile(ttft, 0.9), quantile(ttft, 0.99)
	s.TPOTP50, s.TPOTP99, s.EndP99 = quantile(tpot, 0.5), quantile(tpot, 0.99), quantile(end, 0.99)
	if len(samples) > 0 {
		s.Good = float64(good) / float64(len(samples))
	}
	if span > 0 {
		s.GoodRate = float64(good) / span.Seconds()
	}
	if prompts > 0 {
		s.HitShare = float64(hits) / float64(prompts)
		for _, n := range work {
			s.BusiestPart = max(s.BusiestPart, float64(n)*float64(replicas)/float64(prompts))
		}
	}
	return s
}

// quantile is a quantile of times in seconds; there is none of nothing.
func quantile(times []time.Duration, q float64) Seconds {
	v, ok := report.Quantile(times, q)
	if !ok || v == never {
		return Seconds(math.Inf(1))
	}
	return Seconds(v.Seconds())
}
