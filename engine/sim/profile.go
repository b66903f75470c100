package sim

import (
	"errors"
	"time"
)

// Timing holds the constants of the step time; the package comment has the formula.
type Timing struct {
	Overhead       time.Duration // launching kernels, sampling, scheduling: every pass
	TokenFLOPs     float64       // linear work a token: 2 x parameters
	PairFLOPs      float64       // attention work a pair of query and key: 4 x layers x hidden size
	FLOPS          float64       // arithmetic the device reaches in practice, per second
	WeightBytes    float64       // read from device memory once a pass
	KVBytes        float64       // cache a token: 2 x layers x KV heads x head size x bytes
	BytesPerSecond float64       // memory bandwidth the device reaches in practice
	// HostBytesPerSecond is the rate at which blocks come back from the host's memory.
	HostBytesPerSecond float64
}

// h100x8B: Llama-3-8B's shape (8.03e9 parameters, 32 layers, hidden 4096, 8 KV heads of 128, 16 bit). The rates are
// what serving reaches of the data sheet: 320 of 989 TFLOPS, which is 20,000 prompt tokens a second, and 80 % of
// 3.35 TB/s, which reads the weights in 6 ms. Of PCIe 5's 64 GB/s the same part comes through.
func h100x8B() Timing {
	return Timing{
		Overhead:       1500 * time.Microsecond,
		TokenFLOPs:     2 * 8.03e9,
		PairFLOPs:      4 * 32 * 4096,
		FLOPS:          320e12,
		WeightBytes:    16.06e9,
		KVBytes:        2 * 32 * 8 * 128 * 2,
		BytesPerSecond: 0.8 * 3.35e12,

		HostBytesPerSecond: 0.8 * 64e9,
	}
}

// a10x8B: the same model on an A10, whose data sheet says 125 dense TFLOPS in 16 bit and 600 GB/s. The same parts of it are
// reached: 32 % is 40 TFLOPS, 2,500 prompt tokens a second; 80 % is 480 GB/s, which reads the weights in 33 ms.
func a10x8B() Timing {
	t := h100x8B()
	t.Overhead = 2 * time.Millisecond // a slower host feeds it
	t.FLOPS = 0.32 * 125e12
	t.BytesPerSecond = 0.8 * 600e9
	t.HostBytesPerSecond = 0.8 * 32e9 // PCIe 4
	return t
}

// tiny is the same device with a model about a thousand times smaller.
func tiny() Timing {
	t := h100x8B()
	t.Overhead = 10 * time.Microsecond
	t.TokenFLOPs /= 1000
	t.PairFLOPs /= 100
	t.WeightBytes /= 1000
	t.KVBytes /= 100
	return t
}

func (t Timing) validate() error {
	if t.Overhead < 0 || t.TokenFLOPs < 0 || t.PairFLOPs < 0 || t.WeightBytes < 0 || t.KVBytes < 0 {
		return errors.New("sim: a constant of Timing is negative")
	}
	if t.FLOPS <= 0 || t.BytesPerSecond <= 0 || t.HostBytesPerSecond <= 0 {
		return errors.New("sim: FLOPS, BytesPerSecond and HostBytesPerSecond must be above 0")
	}
	if t.Overhead == 0 && t.WeightBytes == 0 {
		return errors.New("sim: a pass would take no time")
	}
	return nil
}

// batch sums up what a pass computes.
type batch struct {
	tokens   int     // all tokens computed
	pairs    float64 // query-key pairs of prefills
	kvTokens int     // cached tokens read by decoding sequences
	loaded   int     // tokens whose cache comes back from the host
}

func (b *batch) add(computed, tokens int) {
	b.tokens += tokens
	if tokens == 1 {
		b.kvTokens += computed
		return
	}
	n, c := float64(tokens), float64(computed)
	b.pairs += n*c + n*n/2
}

// Pass is how long a pass takes that prefills one chunk of promptTokens after earlier ones and decodes sequences that
// hold kvTokens in sum.
func (t Timing) Pass(promptTokens, earlierTokens, decodes, kvTokens int) time.Duration {
	b := batch{tokens: decodes, kvTokens: kvTokens}
	if promptTokens > 0 {
		b.add(earlierTokens, promptTokens)
	}
	return t.duration(b)
}

func (t Timing) duration(b batch) time.Duration {
	linear := float64(b.tokens) * t.TokenFLOPs / t.FLOPS
	weights := t.WeightBytes / t.BytesPerSecond
	attention := b.pairs * t.PairFLOPs / t.FLOPS
	kv := float64(b.kvTokens) * t.KVBytes / t.BytesPerSecond
	load := float64(b.loaded) * t.KVBytes / t.HostBytesPerSecond
	seconds := max(linear, weights) + attention + kv + load
	return t.Overhead + time.Duration(seconds*float64(time.Second))
}
