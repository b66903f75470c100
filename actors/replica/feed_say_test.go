package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
)

// TestStateLog: a few changes are written down as they come; of a flood some, and what became of it.
func TestStateLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var l stateLog
	at := time.Unix(1000, 0)
	states := []fleet.IndexState{fleet.IndexLive, fleet.IndexPartial}
	for i := range 100_000 {
		at = at.Add(time.Microsecond)
		l.now(at, log, nowIndex{states[i%2], "x"})
	}
	require.Equal(t, statesLogged, strings.Count(out.String(), "state="))
	l.catchUp(at, log)
	require.Equal(t, statesLogged, strings.Count(out.String(), "\n"), "the span is not over")

	out.Reset()
	at = at.Add(statesSpan)
	l.catchUp(at, log)
	require.Contains(t, out.String(), "changes=99980 state=partial")
	l.catchUp(at, log)
	l.now(at, log, nowIndex{fleet.IndexLive, "x"})
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "state=live")
}
