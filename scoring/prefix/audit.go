package prefix

// Audit compares what an index predicted of one replica with what its engine reported, and says when the replica's part
// of the index is not to be trusted any more. It is fed with requests whose reported figure means what it says: not with
// those of several choices (engines report the last one's) nor with those that do not read the cache (log probabilities of
// the prompt). It is not safe for concurrent use.
//
// The rule: over the last AuditWindow requests of which something was predicted, the engine found less than three quarters
// of the predicted tokens, and in more than half of them it fell short by at least ShortTokens. The first alone could be
// one long prompt whose blocks were evicted while it waited; the second alone could be many small lags of the feed.
// Under-prediction raises no alarm: the feed was late, and nothing false is claimed.
//
// After an alarm it begins anew, so that a part which is voided and rebuilt is judged by what comes then.
type Audit struct {
	shortTokens int
	window      [AuditWindow]audited
	next        int // place of the next request in the window
	filled      int
	sum         audited // of the window
	short       int     // requests of the window that fell short

	predicted, reported uint64
	alarms              uint64
}

// AuditWindow is how many requests an alarm is judged by.
const AuditWindow = 32

// Of the predicted tokens of a window the engine must find at least auditFound of auditOf.
const (
	auditFound = 3
	auditOf    = 4
)

type audited struct {
	predicted, reported int
}

// AuditStats is what an [Audit] has seen since it was made.
type AuditStats struct {
	PredictedTokens uint64 // cached tokens predicted
	ReportedTokens  uint64 // cached tokens that the engine reported for the same requests
	Alarms          uint64
}

// NewAudit returns an audit that counts a request as short if its engine found at least shortTokens less than predicted:
// two blocks are a good choice, for one may be evicted or recomputed at any time. It panics if that is not positive.
func NewAudit(shortTokens int) *Audit {
	if shortTokens <= 0 {
		panic("prefix: falling short takes at least one token")
	}
	return &Audit{shortTokens: shortTokens}
}

// Request takes one request's predicted and reported cached tokens, and says whether over-prediction is sustained: the
// replica's part of the index is then to be voided and rebuilt.
func (a *Audit) Request(predicted, reported int) (alarm bool) {
	a.predicted += uint64(max(0, predicted))
	a.reported += uint64(max(0, reported))
	if predicted <= 0 {
		return false // nothing was claimed
	}
	if a.filled == AuditWindow {
		a.count(a.window[a.next], -1)
	} else {
		a.filled++
	}
	r := audited{predicted, max(0, reported)}
	a.window[a.next] = r
	a.next = (a.next + 1) % AuditWindow
	a.count(r, 1)
	if a.filled < AuditWindow || a.short <= AuditWindow/2 || a.sum.reported*auditOf >= a.sum.predicted*auditFound {
		return false
	}
	a.alarms++
	a.Reset()
	return true
}

func (a *Audit) count(r audited, sign int) {
	a.sum.predicted += sign * r.predicted
	a.sum.reported += sign * min(r.reported, r.predicted) // what was found beyond the prediction makes up for nothing
	if r.predicted-r.reported >= a.shortTokens {
		a.short += sign
	}
}

// Reset forgets the window: the replica's part of the index begins anew. What it has seen in all stays.
func (a *Audit) Reset() {
	a.next, a.filled, a.short, a.sum = 0, 0, 0, audited{}
}

// Ratio returns how much of the window's predicted tokens the engine found, at most 1; 1 while nothing was predicted.
func (a *Audit) Ratio() float64 {
	if a.sum.predicted == 0 {
		return 1
	}
	return float64(a.sum.reported) / float64(a.sum.predicted)
}

// Stats returns what the audit has seen.
func (a *Audit) Stats() AuditStats {
	return AuditStats{PredictedTokens: a.predicted, ReportedTokens: a.reported, Alarms: a.alarms}
}
