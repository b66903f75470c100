package tokenize

import (
	"errors"
	"fmt"
	"math"
)

// Config holds the limits of a model's pool.
type Config struct {
	Model string
	// SliceBytes is the most text that one step encodes, unless there is no place to cut it at. An input of at most as much is short.
	SliceBytes int
	// ShortBytes and LongBytes bound the short and the longer inputs that wait.
	ShortBytes, LongBytes int
	// TenantWeights are the shares of those who have others than 1, by name.
	TenantWeights map[string]float64
}

// DefaultConfig returns the defaults for a model.
func DefaultConfig(model string) Config {
	return Config{Model: model, SliceBytes: 64 << 10, ShortBytes: 64 << 20, LongBytes: 64 << 20}
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	if c.Model == "" {
		return errors.New("a pool of tokenizer workers needs a model name")
	}
	if c.SliceBytes < 1 || c.ShortBytes < 1 || c.LongBytes < 1 {
		return errors.New("every bound of a pool of tokenizer workers must be at least 1")
	}
	for name, weight := range c.TenantWeights {
		if !(weight > 0) || math.IsInf(weight, 1) {
			return fmt.Errorf("the weight of tenant %q must be a positive number", name)
		}
	}
	return nil
}
