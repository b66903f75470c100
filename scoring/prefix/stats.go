package prefix

// Stats counts what a slot holds now and what happened to it since Add.
type Stats struct {
	Blocks       int // distinct blocks held
	Copies       int // block copies held, orphans included
	Orphans      int // distinct blocks whose parent was never reported
	Holes        int // held blocks whose parent is not held: unreachable until it returns
	Speculations int
	Void         bool // nothing is known since the last Void

	UnknownParents  uint64 // Stored events whose parent was unknown
	UnknownRemovals uint64 // removals of blocks that were not held
	OrphansDropped  uint64 // orphans given up because there were too many
	OtherBlockSize  uint64 // Stored events of another block size, skipped
	Malformed       uint64 // Stored events skipped: own parent, or tokens that do not go with the hashes
	Conflicts       uint64 // blocks skipped: the engine's hash is already in use for other content
	Overflows       uint64 // times the slot was voided because it was told of more blocks than its replica can hold
	Voids           uint64 // calls of Void
	Evictions       uint64 // blocks a Routed slot dropped at its capacity
}
