// Package report turns samples into the figures and tables that proofs and benchmarks print. It holds no state.
package report
