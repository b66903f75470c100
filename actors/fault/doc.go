// Package fault is the one list of reasons for which a request is answered with an error.
//
// Every room reports in its own words (a tokenizer's bad input, a ledger's reason, an engine's failure kind); router and
// stream turn them into a [Fault], and the ingress turns a Fault into one HTTP status and an error body. Nothing here
// holds state.
package fault
