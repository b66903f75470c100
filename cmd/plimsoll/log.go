package main

import (
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"plimsoll/actors/logbook"
	"plimsoll/actors/meter"
)

// newLogger returns a logger of a checked configuration.
func newLogger(c Config, w io.Writer) *slog.Logger {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	options := &slog.HandlerOptions{Level: levels[c.LogLevel]}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// openLog returns the log of a process that serves. Its reader may stand still or go away: nobody waits for it, and its end is
// not ours. finish gives it a little time for the last lines.
func openLog(c Config, t terminal, m *meter.Meter) (log *slog.Logger, finish func(), err error) {
	book, err := logbook.Open(logbook.DefaultConfig(), logbook.Deps{
		To: t.err, Dropped: m.LineDropped,
		Missing: func(to io.Writer, lines int) {
			newLogger(c, to).Warn("lines of the log are missing here: its reader was too slow, or gone", slog.Int("lines", lines))
		},
	})
	if err != nil {
		return nil, nil, err
	}
	// A handler of the signal, which is not inherited by engines that we start, turns it into an error of the write.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log = newLogger(c, book)
	slog.SetDefault(log) // libraries that have no logger of ours write to the standard one
	return log, book.Close, nil
}

// sayWait is how long the reader of a last word may take.
const sayWait = 2 * time.Second

// say writes a last word, unless nobody reads it.
func say(w io.Writer, text string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.WriteString(w, text)
	}()
	late := time.NewTimer(sayWait)
	defer late.Stop()
	select {
	case <-said:
	case <-late.C:
	}
}
