package prefix

// Stats counts what a slot holds now and what happened to it since Add.
type Stats struct {
	Blocks       int // distinct blocks held on the device, of a hybrid model those of each group
	HostBlocks   int // likewise in the host's memory
	DiskBlocks   int // likewise on disk
	Copies       int // block copies held in all tiers, orphans included
	Orphans      int // distinct blocks whose key is not known yet
	Holes        int // held blocks whose parent is not held: unreachable until it returns
	Lingering    int // names without copies that are kept for late stores
	Speculations int
	Void         bool // nothing is known since the last Void

	UnknownParents  uint64 // Stored events whose parent was unknown
	UnknownRemovals uint64 // removals of blocks that were not held
	OrphansDropped  uint64 // orphans given up because there were too many
	OtherBlockSize  uint64 // Stored events of another block size, skipped
	OtherAttention  uint64 // Stored events of groups whose blocks say nothing about hits, skipped
	Malformed       uint64 // Stored events skipped: own parent, or tokens that do not go with the hashes
	Conflicts       uint64 // blocks skipped: the engine's hash, or the parent's, is in use for other content
	Reports         uint64 // Stored events that named again what is held, and were no new copies
	UnknownNames    uint64 // blocks stored by hash alone that nothing had told of lately, ignored
	OffloadFull     uint64 // blocks ignored because a tier below the device holds too many
	Overflows       uint64 // times the slot was voided because it was told of more blocks than its replica can hold
	Voids           uint64 // calls of Void
	Evictions       uint64 // blocks a Routed slot dropped at its capacity
}
