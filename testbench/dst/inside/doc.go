// Command inside plants bugs inside the simulated code, not at the borders between its machines, and looks whether the checkers of
// testbench/dst find them.
//
//	patches/*.txt ──▶ [Patch]: file, old text, new text ──▶ weave: overlay of Go files ──▶ go build -overlay ──▶ one binary
//	                                                                                              │ SOWN=name, one process a plant
//	                                                                                              ▼
//	                                                                      dst seeds until the named checker finds it
//
// The product's files know nothing of it: a patch is applied to a copy that only the Go tool's overlay sees. All patches are woven
// into one build: each function that a patch changes stands there as it is and as it is planted, and goes to the planted one if its
// plant is sown. So a patch must change the insides of functions only.
//
// A patch says what it changes and who must find it:
//
//	name: what is wrong
//	catches: the checker's name
//	seed: from which on it is found at once
//	file: path from the repository's root
//	--- old
//	lines that stand there once
//	--- new
//	lines in their place
//
// with several files, or several places, one after the other. Patches that no longer apply fail this package's tests, which also sow
// each plant at its seed. The search from seed 0 on is make dst-plants.
//
// Callers: make dst-plants, and this package's tests. It holds no state.
package main
