package fleet

// IndexState is how much the prefix index knows of a replica.
type IndexState uint8

// States of a replica's part of the index.
const (
	IndexNone        IndexState = iota // there is none: nothing is known of the engine's cache yet
	IndexVoid                          // its feed has broken or has not begun: nothing counts
	IndexLive                          // the engine's events, all of them
	IndexReplaying                     // events are missing and asked for again: what counts may be out of date
	IndexPartial                       // the engine's events from some moment on: what counts is true, but not all that is cached
	IndexApproximate                   // no events: what was routed there, least recently used dropped at its capacity

	NumIndexStates
)

// String returns the word used in metrics, logs and reports.
func (s IndexState) String() string {
	switch s {
	case IndexNone:
		return "none"
	case IndexVoid:
		return "void"
	case IndexLive:
		return "live"
	case IndexReplaying:
		return "replaying"
	case IndexPartial:
		return "partial"
	case IndexApproximate:
		return "approximate"
	case NumIndexStates:
	}
	return "unknown"
}

// IndexStates lists the words of all states.
func IndexStates() []string {
	words := make([]string, NumIndexStates)
	for s := range NumIndexStates {
		words[s] = s.String()
	}
	return words
}
