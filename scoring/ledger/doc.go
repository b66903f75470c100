// Package ledger books what requests need on one replica, in KV blocks and seats, so that the replica's capacity holds
// exactly whoever asks.
//
//	          Reserve            Start              End
//	(none) ────────────▶ Reserved ─────▶ Running ─────────▶ Ended
//	  │ Restore             │  Linger      │ Linger           ▲
//	  └─▶ Reserved/Running  └──────▶ Lingering ◀─┘ ──────────┘
//	                                  End, Confirm, or Expire at its bound, which Postpone puts off
//
// Callers: the replica actor owns one ledger and is its only user; the router reads [Load] snapshots and builds claims
// with [Plan]; a new incarnation of the engine calls EndAll; an actor restarted after a fault of ours calls Restore.
//
// Invariants, checked against a naive second ledger in oracle_test.go:
//   - grant: at each grant, booked + claim <= usable in blocks and seats, sharing counted; no exemption when empty
//   - growth: a block past the prediction is booked before it is begun; nothing is granted while there is overdraft and
//     no room for as much once more
//   - once: one grant and one end a ticket; a late or unknown end changes nothing and is counted
//   - zero: when all tickets have ended, the ticket set and the reference map are empty and all sums are zero
//
// Why blocks, how sharing is counted and how foreign use is estimated is in design.md.
package ledger
