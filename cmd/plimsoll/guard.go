package main

import (
	"strconv"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/process"
)

// guardCommandName is the word that makes the binary the guard of an engine that it has started.
const guardCommandName = "guard"

// exitError ends the process with a code, without a word.
type exitError struct{ code int }

func (e exitError) Error() string { return "exit code " + strconv.Itoa(e.code) }

func guardCommand() *cli.Command {
	return &cli.Command{
		Name:            guardCommandName,
		Usage:           "run an engine for plimsoll serve --launch, and end it with all that it started",
		Hidden:          true, // serve alone starts it
		SkipFlagParsing: true, // they are the engine's
		Action: func(c *cli.Context) error {
			code, err := process.Guard(c.Args().Slice())
			if err != nil {
				return usageError{err}
			}
			if code != 0 {
				return exitError{code}
			}
			return nil
		},
	}
}
