// Package process runs an engine's server as a process of ours: its command line, its port, its output, and its end with
// all that it started.
//
//	actors/managed ──Start──▶ Process ──fork──▶ plimsoll guard ──fork──▶ the engine ──▶ its workers
//	                            │  control: 'T', 'K', end of file ──▶│    (orphans become the guard's children)
//	                            │◀── report: {"pid":..}, {"exit":..} ─┘
//	                            └◀──────────── output, until all are gone ──── engine, workers
//
// [Guard] is the body of the hidden subcommand of the binary. It is a child subreaper: whatever an engine starts, even what
// detaches itself into a session of its own, is below it, so that the guard ends only when nothing of the engine is left,
// and a new start cannot meet the old one's memory, ports or devices. The control pipe has its only other end in the process
// that started the guard: that process's death, of any kind, is its end of file, at which the guard ends all.
//
// # Who owns what
//
// [Process] belongs to its caller, who must Wait. A [Ports] is shared by all launches of a process, so that no two engines get
// one port. There is no shell anywhere: [Split] cuts words, [Command.Fill] puts values in, and both refuse what only a shell
// would understand.
//
// # Limits
//
// Guards need Linux (prctl, /proc). A guard that is itself killed with -9 takes the engine's main process along
// (PR_SET_PDEATHSIG), not what that had started.
package process
