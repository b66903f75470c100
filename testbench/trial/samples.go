package trial

import (
	"encoding/json"
	"io"

	"plimsoll/testbench/fleet"
)

// sampleLine is one request of a run. Times are in seconds; they are absent of what was refused or failed.
type sampleLine struct {
	Policy       string   `json:"policy"`
	Seed         uint64   `json:"seed"`
	Number       uint64   `json:"number"` // its place in the trace
	Outcome      string   `json:"outcome"`
	Why          string   `json:"why,omitempty"`
	At           float64  `json:"at"`
	Wait         *float64 `json:"wait,omitempty"` // in the router
	TTFT         *float64 `json:"ttft,omitempty"`
	TPOT         *float64 `json:"tpot,omitempty"` // absent where one token came
	Good         bool     `json:"good"`
	Replica      *int     `json:"replica,omitempty"` // from 0 on
	Attempts     int      `json:"attempts"`
	Preemptions  int      `json:"preemptions"`
	PromptTokens int      `json:"prompt_tokens"`
	CachedTokens int      `json:"cached_tokens"`
	OutputTokens int      `json:"output_tokens"`
	Session      string   `json:"session,omitempty"`
}

// WriteSamples writes what became of every request of the runs that were kept, as JSON lines.
func (r *Report) WriteSamples(w io.Writer) error {
	enc := json.NewEncoder(w)
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Result == nil {
			continue
		}
		for j := range run.Result.Samples {
			if err := enc.Encode(lineOf(run, &run.Result.Samples[j], r.SLO)); err != nil {
				return err
			}
		}
	}
	return nil
}

func lineOf(run *Run, s *fleet.Sample, slo SLO) sampleLine {
	l := sampleLine{
		Policy: run.Policy, Seed: run.Seed, Number: s.Number, Outcome: s.Outcome.String(), Why: s.Why, At: s.At.Seconds(), Good: slo.good(s),
		Attempts: s.Attempts, Preemptions: s.Preemptions, PromptTokens: s.PromptTokens, CachedTokens: s.CachedTokens, OutputTokens: s.Produced, Session: s.Session,
	}
	if s.Replica >= 0 {
		l.Replica = &s.Replica
	}
	if s.Outcome != fleet.Finished {
		return l
	}
	l.Wait, l.TTFT = new((s.Dispatched - s.At).Seconds()), new(s.TTFT().Seconds())
	if v, ok := s.TPOT(); ok {
		l.TPOT = new(v.Seconds())
	}
	return l
}
