// Package matrix compares all routing policies on many cells: traces, fleets, loads and seeds.
//
//	Matrix ──Cells──▶ Bench.Run ──trial.Simulate──▶ one Line a cell, in a file of JSON lines ──Markdown──▶ scoring/policy/RESULTS.md
//
// The file is what is known: a run that was ended goes on with the cells that it lacks. Lines name the build that made them;
// those of other builds count only if that is asked for. Cells of one trace, fleet, load and seed have the same requests at the
// same times under each policy, so that policies are compared in pairs.
//
// Its tool (package bench) is `make bench-policy`; its test runs twelve small cells against committed bounds. Bench owns the
// file while it runs.
package matrix
