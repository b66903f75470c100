package replica

import (
	"log/slog"
	"time"
)

// A feed that goes to and fro, because two engines publish at one address, say, changes its index's state with every batch:
// of that the log gets statesLogged lines each statesSpan, and then one with what has become of it.
const (
	statesLogged = 20
	statesSpan   = 30 * time.Second
)

// stateLog writes a replica's index states down. The zero value has written none.
type stateLog struct {
	began  time.Time // of the present span
	lines  int       // written in it
	unsaid int       // states that were not
	last   nowIndex  // of those
}

// now takes the state that the index is in now.
func (l *stateLog) now(now time.Time, log *slog.Logger, e nowIndex) {
	l.catchUp(now, log)
	if now.Sub(l.began) >= statesSpan {
		l.began, l.lines = now, 0
	}
	if l.lines >= statesLogged {
		l.unsaid, l.last = l.unsaid+1, e
		return
	}
	l.lines++
	log.Info("replica index", slog.String("state", e.state.String()), slog.String("why", e.why))
}

// catchUp tells of what was not written down, once the span is over.
func (l *stateLog) catchUp(now time.Time, log *slog.Logger) {
	if l.unsaid == 0 || now.Sub(l.began) < statesSpan {
		return
	}
	log.Warn("replica index goes to and fro", slog.Int("changes", l.unsaid),
		slog.String("state", l.last.state.String()), slog.String("why", l.last.why))
	l.unsaid = 0
}
