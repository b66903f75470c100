package trial

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Bar shows progress in one line that is written over, on a terminal; elsewhere it shows nothing.
type Bar struct {
	w        io.Writer
	terminal bool
	shown    bool
}

// NewBar writes to w.
func NewBar(w io.Writer, terminal bool) *Bar { return &Bar{w: w, terminal: terminal} }

const barWidth = 30

// Show takes a progress. It is called by one goroutine.
func (b *Bar) Show(p Progress) {
	if !b.terminal || p.Total == 0 {
		return
	}
	b.shown = true
	done := float64(p.Arrived) / float64(p.Total)
	full := min(barWidth, int(barWidth*done))
	of := ""
	if p.Runs > 0 {
		of = fmt.Sprintf("%d/%d ", p.Run, p.Runs)
	}
	_, _ = fmt.Fprintf(b.w, "\r\x1b[K[%s%s] %s%s: %d of %d requests, %s of virtual time", strings.Repeat("#", full), strings.Repeat(" ", barWidth-full),
		of, p.What, p.Arrived, p.Total, p.Virtual.Round(time.Second)) // progress is worth no error
}

// End takes the line away.
func (b *Bar) End() {
	if b.shown {
		_, _ = fmt.Fprint(b.w, "\r\x1b[K")
		b.shown = false
	}
}
