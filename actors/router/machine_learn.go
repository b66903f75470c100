package router

import (
	"time"

	"plimsoll/actors/stream"
	"plimsoll/scoring"
)

// firstToken learns how fast a replica prefills. The prefills of one replica follow each other: what passed before the
// first token of the one before was that one's time.
func (m *machine) firstToken(now time.Time, f stream.FirstToken, vs []view) {
	m.prefilled(now, f.Ticket, vs)
	m.came(now, &f)
	if find(vs, f.Replica) == nil {
		return
	}
	if len(m.first) > len(vs) {
		m.forget(vs)
	}
	took := f.Took
	if last, ok := m.first[f.Replica]; ok {
		took = min(took, max(0, now.Sub(last)))
	}
	m.first[f.Replica] = now
	m.trace.FirstToken(now, f.Ticket, f.Replica, f.Took, took)
	m.policy.OnFirstToken(f.Replica)
	m.learner.FirstToken(now, f.Replica, f.PrefillTokens, f.HitTokens, took)
}

// prefilled lets the next ones go on where one has gone on, or will not.
func (m *machine) prefilled(now time.Time, t scoring.Ticket, vs []view) {
	if m.resumed.end(t) {
		m.pump(now, vs)
	}
}

// forget drops what was learned of replicas that have left the fleet.
func (m *machine) forget(vs []view) {
	for id := range m.first {
		if find(vs, id) == nil {
			delete(m.first, id)
			m.learner.Forget(id)
		}
	}
	m.outliers.prune(vs)
}

// steps learns how fast a replica decodes. A step takes the whole batch, and reads its KV. It is many times slower while a prefill goes
// on, so that a run of steps counts only if there was none from its beginning on: else a busy replica would look like a sick one.
func (m *machine) steps(now time.Time, s stream.Steps, vs []view) {
	v := find(vs, s.Replica)
	if v == nil || v.snap.Load.Reserved > 0 || v.snap.PrefilledAt.After(s.Since) {
		return
	}
	ld := &v.snap.Load
	others := scoring.Tokens(ld.ForeignBlocks) * ld.Limits.BlockTokens
	m.learner.Step(now, s.Replica, max(1, ld.Running)+ld.ForeignSeats, max(s.KVTokens, ld.DecodeKVTokens)+others, s.Gap)
	if slowdown := m.learner.Slowdown(s.Replica); m.outliers.judge(now, s.Replica, m.learner, vs) {
		m.emit(ejected{s.Replica, slowdown, m.outliers.out[s.Replica].until})
	}
}
