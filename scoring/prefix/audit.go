package prefix

// Audit compares what an index predicted of one replica with what its engine reported, and says when the replica's part
// of the index is not to be trusted any more. It is fed with requests whose reported figure means what it says: not with
// those of several choices (engines report the last one's) nor with those that do not read the cache (log probabilities of
// the prompt). The zero value has seen nothing. It is not safe for concurrent use.
//
// The rule: over the last AuditWindow requests of which something was predicted, the engine found less than three quarters
// of the predicted tokens, and more than a quarter of them fell short. The first alone could be one long prompt whose blocks
// were evicted while it waited; the second alone could be many small lags of the feed. What is wrong may concern a part of
// the traffic only, one adapter's or one popular prefix, so it need not be most of the requests. Under-prediction raises no
// alarm: the feed was late, and nothing false is claimed.
//
// After an alarm it begins anew, so that a part which is voided and rebuilt is judged by what comes then.
type Audit struct {
	window [AuditWindow]audited
	next   int // place of the next request in the window
	filled int

	predicted, found int // tokens, of the window
	short            int // requests of the window that fell short
}

// AuditWindow is how many requests an alarm is judged by.
const AuditWindow = 32

const (
	auditFound = 3.0 / 4 // part of the predicted tokens of a window that the engine must find at least
	auditShort = 1.0 / 4 // part of its requests that may fall short
	// shortBlocks is by how many blocks a request falls short: one may be evicted or recomputed at any time.
	shortBlocks = 2
)

type audited struct {
	predicted, found int // tokens
	short            bool
}

// Request takes one request's predicted and reported cached tokens and the size of the index's blocks in tokens, and says
// whether over-prediction is sustained: the replica's part of the index is then to be voided and rebuilt.
func (a *Audit) Request(predicted, reported, blockTokens int) (alarm bool) {
	if predicted <= 0 {
		return false // nothing was claimed
	}
	// What is found beyond the prediction makes up for nothing.
	r := audited{predicted, min(max(0, reported), predicted), predicted-max(0, reported) >= shortBlocks*blockTokens}
	if a.filled == AuditWindow {
		a.count(a.window[a.next], -1)
	} else {
		a.filled++
	}
	a.window[a.next] = r
	a.next = (a.next + 1) % AuditWindow
	a.count(r, 1)
	if a.filled < AuditWindow || float64(a.short) <= auditShort*AuditWindow || float64(a.found) >= auditFound*float64(a.predicted) {
		return false
	}
	a.Reset()
	return true
}

func (a *Audit) count(r audited, sign int) {
	a.predicted += sign * r.predicted
	a.found += sign * r.found
	if r.short {
		a.short += sign
	}
}

// Reset forgets the window: the replica's part of the index begins anew.
func (a *Audit) Reset() { *a = Audit{} }
