//go:build !linux

package process

import (
	"errors"
	"os/exec"
)

// errNoGuard says that engines cannot be started on this system.
var errNoGuard = errors.New("engines are started on Linux only, which can end one with all that it started: " +
	"start it yourself and name it with --replica")

// Guard is not to be had here.
func Guard([]string) (int, error) { return 0, errNoGuard }

// Supported says why there can be no guard.
func Supported() error { return errNoGuard }

func detach(*exec.Cmd) {}
