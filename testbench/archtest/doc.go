// Package archtest checks the shape of the tree by tests: who may import whom, what pure code does not do, where HTTP is
// served, and what the product's binary does not link. make lint runs it. It holds no state.
//
// A rule stands here only if a machine can judge it and a breach is a mistake; a rule that makes some code worse is changed
// here, with its reason.
package archtest
