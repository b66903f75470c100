package admin

import (
	"time"

	"plimsoll/actors/managed"
	"plimsoll/engine"
)

// Process is how an engine is that this node starts itself.
type Process struct {
	Phase    string `json:"phase"` // waiting, starting, serving, ending or closed
	PID      *int   `json:"pid,omitempty"`
	Port     *int   `json:"port,omitempty"`
	Starts   int    `json:"starts"`
	Strikes  int    `json:"strikes"` // failures in a row
	LastExit string `json:"last_exit,omitempty"`
	// LastExitSeconds is how long that is ago.
	LastExitSeconds *float64 `json:"last_exit_seconds,omitempty"`
}

// processOf returns nil for an engine that somebody else has started.
func processOf(now time.Time, e engine.Engine) *Process {
	own, ok := e.(*managed.Engine)
	if !ok {
		return nil
	}
	s := own.Status()
	p := &Process{Phase: s.Phase.String(), Starts: s.Starts, Strikes: s.Strikes, LastExit: s.LastExit}
	if s.PID != 0 {
		p.PID = &s.PID
	}
	if s.Port != 0 {
		p.Port = &s.Port
	}
	if s.LastExit != "" {
		ago := now.Sub(s.LastExitAt).Seconds()
		p.LastExitSeconds = &ago
	}
	return p
}
