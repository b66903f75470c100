// Package host holds a node against what its process may have of the machine: open files and memory. cmd/plimsoll asks it once,
// at the start; it keeps no state.
//
//	RLIMIT_NOFILE ─▶ [OpenFiles] ─▶ [Files.Connections] ─▶ how many connections of clients fit beside the fleet's
//	cgroup v1, v2 ─▶ [LimitMemory] ─▶ the garbage collector's limit, unless GOMEMLIMIT says it
//
// The Go runtime has raised the soft limit of open files to the hard one before main begins, and gives processes that we start
// the one that we were started with.
package host
