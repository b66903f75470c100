package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"plimsoll/actors/meter"
	"plimsoll/testbench/record"
)

// recording is a recorder and its file; nil: nothing is recorded.
type recording struct {
	recorder *record.Recorder
	file     *record.File
}

// startRecording records into the configured file, if there is one.
func startRecording(c Config, m *meter.Meter, log *slog.Logger) (*recording, error) {
	if c.Record == nil {
		return nil, nil //nolint:nilnil // nothing is recorded, and that is no error
	}
	file, err := record.OpenFile(*c.Record, int64(c.RecordBytes))
	if err != nil {
		return nil, fmt.Errorf("the file of --record cannot be written: %w", err)
	}
	metrics := m.Record()
	recorder, err := record.New(record.DefaultConfig(), record.Deps{
		To: file, Now: time.Now, Written: metrics.Written, Dropped: metrics.Dropped,
		Failed: func(err error) {
			log.Error("a line of the recording could not be written; more may follow, see plimsoll_record_requests_total", slog.Any("reason", err))
		},
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &recording{recorder, file}, nil
}

// close writes the rest.
func (r *recording) close() error {
	if r == nil {
		return nil
	}
	r.recorder.Close()
	return r.file.Close()
}
