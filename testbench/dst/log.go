package dst

import (
	"fmt"
	"io"
)

// note is a kind of entry in a run's log.
type note uint8

// Entries. The number that names a thing comes first: a replica's, a call's, 0 for the router.
const (
	noteCall note = iota
	noteSubmit
	noteWithdraw
	noteWithdrawn
	notePlaced
	noteReject
	noteReserve
	noteGrant
	noteRefuse
	noteGiveBack
	noteAttempt
	noteAbort
	noteReturn
	noteFailure
	noteEnd
	noteLinger
	noteFinish
	noteDone
	noteLeave
	noteOverrun
	noteState
	noteFailed
	noteGap
	noteFault
	noteHeal
	noteCanary
	noteRestart
	noteEvict
	noteEjected
	noteReplay
	noteIndex

	numNotes
)

var noteForms = [numNotes]string{
	noteCall:      "call %d comes with %d legs",
	noteSubmit:    "call %d submits %d with %d legs",
	noteWithdraw:  "call %d withdraws %d",
	noteWithdrawn: "call %d: %d is withdrawn",
	notePlaced:    "call %d: %d is placed with %d legs",
	noteReject:    "call %d: %d is rejected, kind %d",
	noteReserve:   "replica %d is asked for ticket %d of life %d",
	noteGrant:     "replica %d grants ticket %d",
	noteRefuse:    "replica %d refuses ticket %d, reason %d",
	noteGiveBack:  "replica %d is given back ticket %d",
	noteAttempt:   "call %d starts attempt %d with ticket %d",
	noteAbort:     "call %d aborts attempt %d",
	noteReturn:    "call %d: attempt %d has returned",
	noteFailure:   "call %d: ticket %d has failed, kind %d",
	noteEnd:       "call %d ends ticket %d, reason %d",
	noteLinger:    "call %d leaves ticket %d to linger",
	noteFinish:    "call %d: leg %d finishes after %d tokens",
	noteDone:      "call %d is over, kind %d",
	noteLeave:     "call %d: its client leaves",
	noteOverrun:   "call %d: its client has too much unread",
	noteState:     "replica %d leaves state %d for %d",
	noteFailed:    "actor %d fails",
	noteGap:       "replica %d: cache events are missing after %d, state %d",
	noteReplay:    "replica %d: replay %d is asked for from %d on",
	noteIndex:     "replica %d: its index enters state %d",
	noteFault:     "replica %d: fault %d, call %d",
	noteHeal:      "all is healed",
	noteRestart:   "call %d: leg %d begins anew",
	noteCanary:    "replica %d is sent canary %d",
	noteEjected:   "replica %d is ejected",
	noteEvict:     "replica %d tells the legs of life %d to leave",
}

// record is a run's log: always a digest of it, and its words where somebody reads them.
type record struct {
	digest uint64
	out    io.Writer // nil: nobody reads
}

func (r *record) fold(v uint64) {
	r.digest = (r.digest ^ r.digest>>31 ^ v) * 0x9e3779b97f4a7c15
}

// note writes an entry.
func (w *world) note(n note, who int, a, b uint64) {
	r := &w.log
	r.fold(uint64(n)<<56 ^ uint64(w.now))
	r.fold(uint64(who)<<40 ^ a<<8 ^ b) //nolint:gosec // a number of ours
	if r.out == nil {
		return
	}
	args := []any{who, a, b}
	form := noteForms[n]
	used := 0
	for i := range len(form) {
		if form[i] == '%' {
			used++
		}
	}
	w.explain(form, args[:used]...)
}

// explain adds words for a reader. They are no part of the digest.
func (w *world) explain(format string, args ...any) {
	if w.log.out != nil {
		_, _ = fmt.Fprintf(w.log.out, "%6d %13.6f  "+format+"\n", append([]any{w.events, w.now.Seconds()}, args...)...)
	}
}
