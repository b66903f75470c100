package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// azureHead is the first line of Azure's traces.
var azureHead = []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}

// azure reads one of Azure's traces.
type azure struct {
	csv   *csv.Reader
	head  bool // it was read
	start time.Time
	given uint64
	last  time.Duration
}

// Azure reads one of Azure's LLM inference traces. Its errors name the line.
func Azure(r io.Reader) Source {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	c.FieldsPerRecord = len(azureHead)
	return &azure{csv: c}
}

// Next implements [Source].
func (a *azure) Next() (Request, error) {
	if !a.head {
		fields, err := a.csv.Read()
		if err != nil && !errors.Is(err, io.EOF) {
			return Request{}, fmt.Errorf("trace: %w", err)
		}
		if !slices.Equal(fields, azureHead) {
			return Request{}, fmt.Errorf("trace: line 1 is not the head of an Azure trace: %v", azureHead)
		}
		a.head = true
	}
	fields, err := a.csv.Read()
	if errors.Is(err, io.EOF) {
		return Request{}, io.EOF
	}
	if err != nil {
		return Request{}, fmt.Errorf("trace: %w", err)
	}
	r, err := a.request(fields)
	if err == nil {
		err = follows(&r, &a.given, &a.last)
	}
	if err != nil {
		line, _ := a.csv.FieldPos(0)
		return Request{}, fmt.Errorf("trace: line %d: %w", line, err)
	}
	return r, nil
}

func (a *azure) request(fields []string) (Request, error) {
	at, err := azureTime(fields[0])
	if err != nil {
		return Request{}, err
	}
	if a.given == 0 {
		a.start = at
	}
	prompt, err := strconv.Atoi(fields[1])
	if err != nil {
		return Request{}, fmt.Errorf("ContextTokens: %w", err)
	}
	output, err := strconv.Atoi(fields[2])
	if err != nil {
		return Request{}, fmt.Errorf("GeneratedTokens: %w", err)
	}
	if output == 0 {
		output = 1 // its end is a token too
	}
	return Request{At: at.Sub(a.start), PromptTokens: prompt, OutputTokens: output}, nil
}

// azureTime reads a time as the traces of 2023 write it, in UTC, or as those of 2024, with a zone.
func azureTime(text string) (time.Time, error) {
	at, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		at, err = time.Parse("2006-01-02 15:04:05Z07:00", text)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("TIMESTAMP %q is no time such as 2023-11-16 18:15:46.6805900", text)
	}
	return at, nil
}
