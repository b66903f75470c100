package process

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// relation is one process in the system's table.
type relation struct {
	parent int
	start  string // when it started, which tells it from a later process with its ID
	zombie bool
}

// signalAll sends a signal to every living process below this one. A process that starts while the table is read may be
// missed: who must reach all calls it again.
func signalAll(sig syscall.Signal) {
	table := relations()
	children := map[int][]int{}
	for pid, r := range table {
		children[r.parent] = append(children[r.parent], pid)
	}
	next := children[os.Getpid()]
	for len(next) > 0 {
		pid := next[0]
		next = append(next[1:], children[pid]...)
		if r := table[pid]; !r.zombie {
			signalOne(pid, r.start, sig)
		}
	}
}

// signalOne signals a process if it is still the one that started then.
func signalOne(pid int, start string, sig syscall.Signal) {
	p, err := os.FindProcess(pid) // holds on to the process, not to its ID, where the kernel can
	if err != nil {
		return
	}
	defer p.Release() //nolint:errcheck // nothing to be done about it
	if now, ok := relationOf(pid); ok && now.start == start {
		_ = p.Signal(sig) // it may have ended
	}
}

func relations() map[int]relation {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	table := make(map[int]relation, len(names))
	for _, entry := range names {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if r, ok := relationOf(pid); ok {
			table[pid] = r
		}
	}
	return table
}

// relationOf reads /proc/PID/stat (proc_pid_stat(5)).
func relationOf(pid int) (relation, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return relation{}, false
	}
	// The name stands in brackets and may hold anything, brackets too.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const state, parent, start = 0, 1, 19 // fields 3, 4 and 22
	if len(fields) <= start {
		return relation{}, false
	}
	id, err := strconv.Atoi(fields[parent])
	if err != nil {
		return relation{}, false
	}
	return relation{parent: id, start: fields[start], zombie: fields[state] == "Z"}, true
}
