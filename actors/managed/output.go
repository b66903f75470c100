package managed

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"plimsoll/engine/process"
)

// lastLines is how much of its output is logged when an engine has ended by itself.
const lastLines = 20

// output takes what the process prints. It belongs to the process while one runs, else to the keeper.
type output struct {
	name  string
	log   *slog.Logger
	lines *process.Lines
	tail  *process.Tail
	file  *process.LogFile // nil: to the log
	full  bool             // the file could not be written; said once a start
}

func newOutput(cfg Config, log *slog.Logger) (*output, error) {
	o := &output{name: cfg.Name, log: log, tail: process.NewTail(lastLines)}
	o.lines = process.NewLines(o.line)
	if cfg.LogFile == "" {
		return o, nil
	}
	var err error
	o.file, err = process.OpenLogFile(cfg.values(0).Fill(cfg.LogFile), cfg.LogBytes)
	return o, err
}

// forget drops what the last process said.
func (o *output) forget() { o.tail, o.full = process.NewTail(lastLines), false }

// begin notes a start.
func (o *output) begin(start int, words []string) {
	if o.file == nil {
		return
	}
	err := o.file.Rotate()
	if err == nil {
		_, err = fmt.Fprintf(o.file, "plimsoll: start %d of %s: %s\n", start, o.name, process.Join(words))
	}
	o.check(err)
}

// Write implements io.Writer. It never fails: a process must not be held up by its log.
func (o *output) Write(p []byte) (int, error) {
	_, _ = o.lines.Write(p)
	if o.file != nil && !o.full {
		_, err := o.file.Write(p)
		o.check(err)
	}
	return len(p), nil
}

func (o *output) check(err error) {
	if err != nil {
		o.full = true
		o.log.Warn("an engine's log file cannot be written", slog.String("replica", o.name), slog.Any("error", err))
	}
}

func (o *output) line(text string) {
	o.tail.Add(text)
	if o.file == nil && o.log.Enabled(context.Background(), slog.LevelDebug) {
		o.log.Debug("engine says", slog.String("replica", o.name), slog.String("line", text))
	}
}

// last is the end of what the process printed, when it is gone.
func (o *output) last() string {
	o.lines.Flush()
	return strings.TrimSpace(o.tail.String())
}

func (o *output) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}
