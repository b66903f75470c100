// Package quota says whether a tenant may send one more request: so many requests and so many tokens a minute.
//
//	request ──Admit──▶ let in, or how long to wait ── ... ──▶ its tokens ──Charge──▶ what is left of the minute
//
// Each is a bucket that holds a minute's worth and fills evenly (golang.org/x/time/rate). What a request costs is known
// when it is over: a tenant is let in while its bucket of tokens is not empty, and one that has taken more than there was
// waits until the debt is paid. So a prompt of any length can be asked, and over time nobody gets more than its share.
//
// The edge owns one Quota a tenant. It is safe for concurrent use; times are arguments.
package quota
