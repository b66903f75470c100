package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
)

// usageError is a mistake in what was asked for, as against a failure in doing it.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// terminal is the process's edge, an argument so that tests can stand in for it.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) (string, bool)
	environ  func() []string // all variables, as NAME=value
}

func main() {
	os.Exit(run(os.Args, terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.LookupEnv, environ: os.Environ}))
}

// run runs one command and returns its exit code.
func run(args []string, t terminal) int {
	err := newApp(t).Run(args)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	}
	say(t.err, fmt.Sprintf("plimsoll: %s\n", strings.TrimSpace(err.Error())))
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

func newApp(t terminal) *cli.App {
	app := &cli.App{
		Name:      "plimsoll",
		Usage:     "serve LLM engine replicas behind one OpenAI API",
		Reader:    t.in,
		Writer:    t.out,
		ErrWriter: t.err,
		Commands:  []*cli.Command{serveCommand(t), simCommand(t), renderCommand(t), tokenizeCommand(t), chaosCommand(t), dstCommand(t), replayCommand(t), explainCommand(t), versionCommand(t)},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError{fmt.Errorf("there is no command %q. %s See plimsoll --help", c.Args().First(),
					cli.SuggestCommand(c.App.Commands, c.Args().First()))}
			}
			return cli.ShowAppHelp(c)
		},
		Flags: []cli.Flag{&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version", DisableDefaultText: true}},
		Before: func(c *cli.Context) error {
			if !c.Bool("version") {
				return nil
			}
			return errors.Join(printVersion(t), exitError{})
		},
		HideVersion:               true, // the library's has a form of its own
		DisableSliceFlagSeparator: true, // a --replica has commas of its own
		OnUsageError:              usageMistake,
		ExitErrHandler:            func(*cli.Context, error) {}, // run prints the error and chooses the code
	}
	for _, command := range app.Commands {
		command.OnUsageError = usageMistake
		command.HideHelpCommand = true
		command.Action = withoutArguments(command.Action)
	}
	app.Commands = append(app.Commands, completionCommand(t), guardCommand())
	return app
}

func usageMistake(c *cli.Context, err error, _ bool) error {
	// The flag package gives this error no type.
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usageError{err}
	}
	nearest := cli.SuggestFlag(c.Command.Flags, strings.TrimLeft(name, "-"), false)
	return usageError{fmt.Errorf("there is no flag --%s: do you mean %s? See %s --help", name, nearest, c.Command.HelpName)}
}

// withoutArguments refuses what stands behind the flags: no command takes any.
func withoutArguments(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Args().Present() {
			return usageError{fmt.Errorf("plimsoll %s takes flags only, not %q: see plimsoll %s --help",
				c.Command.Name, c.Args().First(), c.Command.Name)}
		}
		return action(c)
	}
}
