package explain

import "errors"

// Config bounds what a watch holds.
type Config struct {
	// Records is how many are remembered, Bytes about how much they take; 0 records: none, and no prediction is compared with its
	// outcome.
	Records, Bytes int
	// BatchesMax is how many batches may wait for the watch, BatchBytesMax about how much they may hold.
	BatchesMax, BatchBytesMax int
	// OpenMax is how many predictions may wait for their outcome.
	OpenMax int
}

// DefaultConfig remembers what a fleet of eight replicas decides in some minutes.
func DefaultConfig() Config {
	return Config{Records: 4096, Bytes: 16 << 20, BatchesMax: 256, BatchBytesMax: 16 << 20, OpenMax: 1 << 16}
}

// None remembers nothing.
func None() Config {
	cfg := DefaultConfig()
	cfg.Records = 0
	return cfg
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Records < 0 || c.Bytes < 0:
		return errors.New("what is remembered of decisions must not be negative")
	case c.BatchesMax < 1 || c.BatchBytesMax < 1 || c.OpenMax < 1:
		return errors.New("every bound of what is noted of decisions must be at least 1")
	}
	return nil
}
