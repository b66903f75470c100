package main

import "github.com/urfave/cli/v2"

func renderCommand(t terminal) *cli.Command {
	return &cli.Command{
		Name:   "render",
		Usage:  "print the prompt that a chat request becomes",
		Flags:  []cli.Flag{tokenizerDirFlag()},
		Action: func(*cli.Context) error { return nil },
	}
}
