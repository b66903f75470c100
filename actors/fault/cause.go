package fault

// Cause says why a router turned a submission away, where one [Kind] has several causes. For statistics.
type Cause uint8

const (
	Malformed     Cause = iota // there is nothing to continue
	TooLarge                   // no replica of the model, or this server's own limit, takes so much
	SLOFirstToken              // at arrival: its first token would come too late
	SLOPace                    // at arrival: its later tokens would come too slowly
	SLOShed                    // it was let in, and its first token would come too late by now
	QueueFull                  // all are busy and too much waits already
	QueueTimeout               // nobody had room for it in time
	Unserved                   // no replica that could take it serves
	Shed                       // engines shed it, and nobody else can take it
	Broken                     // its engine failed, and nobody else can take it
	Defect                     // a fault of ours

	NumCauses
)

// String returns the label used in metrics.
func (c Cause) String() string {
	switch c {
	case Malformed:
		return "malformed"
	case TooLarge:
		return "too_large"
	case SLOFirstToken:
		return "slo_first_token"
	case SLOPace:
		return "slo_pace"
	case SLOShed:
		return "slo_shed"
	case QueueFull:
		return "queue_full"
	case QueueTimeout:
		return "queue_timeout"
	case Unserved:
		return "unserved"
	case Shed:
		return "shed"
	case Broken:
		return "broken"
	case Defect:
		return "defect"
	case NumCauses:
	}
	return "unknown"
}
