// Package agenda is a virtual clock: what is to happen, each at its time, and what is due first.
//
//	in, at ──▶ [heap by time, then by when it was entered] ──Next──▶ the clock moves there, the event is handled, Done
//
// Simulators of testbench own one each. Equal calls give equal orders: what is due at the same time comes in the order in
// which it was entered. Events are memory that is used again; nobody keeps one after Done.
package agenda
