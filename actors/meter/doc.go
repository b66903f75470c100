// Package meter turns what the actors report into Prometheus metrics. It is the one place that knows Prometheus.
//
//	actors/ingress, router, replica, kvfeed, tokenizer workers ──typed methods──▶ handles ──▶ registry ──▶ GET /metrics
//
// A [Meter] owns a registry of its own (no global one). Rooms hold handles ([Ingress], [Router], [Replica], [Tokenizer],
// [Feed]) that are resolved once, when the thing they speak of is set up, so that reporting costs an atomic add or two. A
// nil Meter gives nil handles, and every method of a nil handle does nothing: who needs no metrics passes none.
//
// Replicas come and go, and their names may never come again. A [Registered] is one that is in the fleet; the system, which
// owns the fleet, holds it. At its end the replica's series are deleted, and what is reported of it late makes none.
//
// Invariants: every name is declared in names.go with its help; names carry base units (seconds, tokens, blocks, bytes);
// label values come from closed sets: enums, or the names of models and of the replicas there are, of which at most
// [Config.LabelValuesMax] each are told apart; the rest is counted under "other"; a series with a replica's name exists only
// while one of that name is registered. All methods are safe for concurrent use.
package meter
