package host

import (
	"log/slog"
	"math"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// memoryPart is what the Go heap may have of the memory that the process has: the tokenizers' is beside it.
const memoryPart = 0.8

// LimitMemory has the garbage collector keep the heap below a part of what the control group (v1 or v2) gives the process, so that
// it collects more often before the kernel ends it. GOMEMLIMIT, where it is set, says it instead.
func LimitMemory(log *slog.Logger) { limitMemory(log, memlimit.FromCgroup) }

func limitMemory(log *slog.Logger, from memlimit.Provider) {
	if given, ok := os.LookupEnv("GOMEMLIMIT"); ok {
		log.Debug("the memory limit is the environment's", slog.String("gomemlimit", given))
		return
	}
	limit, err := memlimit.Set(memlimit.WithRatio(memoryPart), memlimit.WithProvider(from))
	switch {
	case err != nil:
		log.Debug("no control group says how much memory there is", slog.Any("reason", err))
	case limit < math.MaxInt64:
		log.Info("the heap is held below the control group's memory; set GOMEMLIMIT to choose its size",
			slog.Int64("gomemlimit_bytes", limit), slog.Float64("part", memoryPart))
	}
}
