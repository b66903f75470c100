package trial

import (
	"errors"
	"time"

	"plimsoll/testbench/fleet"
)

// SLO is what a good answer keeps to.
type SLO struct {
	TTFT         time.Duration `json:"ttft"` // plus
	TTFTPerToken time.Duration `json:"ttft_per_token"`
	TPOT         time.Duration `json:"tpot"` // mean time per output token after the first
}

// DefaultSLO is the first token within 2 s and 0.1 ms a prompt token, and at most 50 ms a token after it.
func DefaultSLO() SLO {
	return SLO{TTFT: 2 * time.Second, TTFTPerToken: 100 * time.Microsecond, TPOT: 50 * time.Millisecond}
}

// Validate reports what makes no sense.
func (s SLO) Validate() error {
	if s.TTFT < 0 || s.TTFTPerToken < 0 || s.TPOT <= 0 {
		return errors.New("the times of an SLO must not be negative, and the time a token takes must be positive")
	}
	return nil
}

// good says whether an answer kept to it.
func (s SLO) good(x *fleet.Sample) bool {
	if x.Outcome != fleet.Finished || x.TTFT() > s.TTFT+time.Duration(x.PromptTokens)*s.TTFTPerToken {
		return false
	}
	tpot, ok := x.TPOT()
	return !ok || tpot <= s.TPOT
}
