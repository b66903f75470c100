// Package enginetest holds what every engine promises, as tests that each adapter and the simulated engine run.
//
//	func TestContract(t *testing.T) { enginetest.Run(t, enginetest.Subject{Open: ..., Wire: &enginetest.Wire{...}}) }
//
//	         any engine     Subject.Open ─────────────▶ Generate, Probe, Close as package engine's comment says
//	         behind HTTP    Wire: scripted servers that answer cut at every byte, and with each fault of the contract
//	                        Recorded: bodies of real servers, and what they must make an adapter say
//
// The names of the tests are the sentences of the contract (engine/doc.go, engine.FailKind). A [Wire] says how a protocol
// looks, never what it means: that is the adapter's. The package is linked by tests only and holds no state.
package enginetest
