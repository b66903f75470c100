package kvmodel_test

import (
	"math/rand/v2"
	"testing"

	"plimsoll/testbench/kvmodel"
)

// BenchmarkStep is what a block operation costs the engines of the soak.
func BenchmarkStep(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	lib := kvmodel.NewLibrary(kvmodel.LibraryConfig{BlockTokens: 16, Nodes: 20_000, DepthMax: 64, Branch: 0.02, Spaces: []kvmodel.Space{{}}}, rng)
	e := kvmodel.New(lib, kvmodel.Config{DeviceBlocks: 2000, RunningMax: 4}, rng)
	operations := 0
	b.ReportAllocs()
	for b.Loop() {
		for _, ev := range e.Step() {
			operations += len(ev.Hashes)
		}
	}
	b.ReportMetric(float64(operations)/float64(b.N), "operations/op")
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(operations), "ns/operation")
}
