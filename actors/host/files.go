package host

import "fmt"

// Files says what a node needs open files for beside its clients' connections, and how many there may be.
type Files struct {
	Limit int // that this process may have open
	Fleet int // that its replicas need
}

const (
	// ownFiles are the program, its log, listeners, model files, a recording, metrics, and some for whatever the system opens.
	ownFiles = 64
	// leastConnections are too few to begin with fewer.
	leastConnections = 16
	// SeatsUnknown is how many answers at once are counted for an engine that has not said it: each is a connection.
	SeatsUnknown = 256
	// EngineFiles are connections to an engine beside those of answers: probes, metrics, events and their replay.
	EngineFiles = 8
	// ProcessFiles are the pipes to an engine that we start, and its log.
	ProcessFiles = 8
)

// Connections returns how many connections of clients there may be. asked is what the operator wants, nil for as many as usual,
// or as fit. fewer says why there are not as many as usual; "" if there are.
func (f Files) Connections(asked *int, usual int) (most int, fewer string, err error) {
	room := f.Limit - ownFiles - f.Fleet
	want := usual
	if asked != nil {
		want = *asked
	}
	switch {
	case want <= room:
		return want, "", nil
	case room < leastConnections:
		return 0, "", fmt.Errorf("%s: raise the limit to at least %d", f.short(want), ownFiles+f.Fleet+leastConnections)
	case asked != nil:
		return 0, "", fmt.Errorf("%s: raise the limit, or ask for --max-connections %d at most", f.short(want), room)
	}
	return room, fmt.Sprintf("%s: %d connections are held at most until the limit is raised", f.short(want), room), nil
}

// short says what does not fit.
func (f Files) short(want int) string {
	return fmt.Sprintf("%d connections, %d for the replicas and %d others need %d open files, and this process may have %d (ulimit -n; LimitNOFILE= of a unit)",
		want, f.Fleet, ownFiles, want+f.Fleet+ownFiles, f.Limit)
}
