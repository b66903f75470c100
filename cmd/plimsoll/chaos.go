package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"plimsoll/testbench/chaos"
)

// errInvariants ends a run in which something did not hold.
var errInvariants = errors.New("an invariant did not hold")

func chaosCommand(t terminal) *cli.Command {
	return &cli.Command{
		Name:  "chaos",
		Usage: "break engines under traffic and check that clients do not notice",
		Description: "Starts simulated engines and a plimsoll serve before them as processes, has clients ask, and kills, stops, slows or\n" +
			"cuts off engines as a plan says. It ends with a verdict for each invariant; exit code 1 says that one did not hold.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "plan", Usage: "run the plan of a YAML `FILE`, or a built-in one by its name", Value: "default"},
			&cli.BoolFlag{Name: "list", Usage: "list the built-in plans and end"},
			&cli.StringFlag{Name: "json", Usage: "write what was recorded to `FILE`"},
			&cli.StringFlag{Name: "html", Usage: "write a picture of the run to `FILE`, a page that needs nothing else"},
			&cli.StringFlag{Name: "logs", Usage: "write the logs of all processes to `FILE`"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("list") {
				return listPlans(t.out)
			}
			plan, err := planOf(c.String("plan"))
			if err == nil {
				err = checkOutputs(c.String, "json", "html", "logs")
			}
			if err != nil {
				return usageError{err}
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return runChaos(ctx, plan, t, chaosFiles{json: c.String("json"), html: c.String("html"), logs: c.String("logs")})
		},
	}
}

func listPlans(w io.Writer) error {
	plans, err := chaos.Builtin()
	if err != nil {
		return err
	}
	for _, p := range plans {
		if _, err := fmt.Fprintf(w, "%-16s %s\n", p.Name, p.About); err != nil {
			return err
		}
	}
	return nil
}

// planOf reads a plan's file, or finds a built-in one.
func planOf(name string) (chaos.Plan, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return chaos.Named(name)
	}
	if err != nil {
		return chaos.Plan{}, err
	}
	return chaos.ParsePlan(text)
}

// chaosFiles are where a run is written to; "" is nowhere.
type chaosFiles struct{ json, html, logs string }

func runChaos(ctx context.Context, plan chaos.Plan, t terminal, files chaosFiles) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	logs := io.Discard
	if files.logs != "" {
		file, err := os.Create(files.logs)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // what is in it is for a look
		logs = file
	}
	progress := chaos.NewTicker(t.err, isTerminal(t.err))
	result, err := chaos.Run(ctx, plan, chaos.Deps{Binary: binary, Logs: logs, Progress: progress.Show})
	progress.End()
	if err != nil {
		return err
	}
	_, err = io.WriteString(t.out, chaos.Summary(result))
	err = errors.Join(err, files.write(plan, result))
	if !result.Held() {
		err = errors.Join(err, errInvariants)
	}
	return err
}

// write writes all that can be written.
func (f chaosFiles) write(plan chaos.Plan, result *chaos.Result) error {
	var errs []error
	if f.json != "" {
		text, err := json.MarshalIndent(result, "", " ")
		if err == nil {
			err = os.WriteFile(f.json, text, 0o600)
		}
		errs = append(errs, err)
	}
	if f.html != "" {
		page, err := chaos.Page(plan, result)
		if err == nil {
			err = os.WriteFile(f.html, page, 0o600)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// isTerminal says whether somebody may be looking.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
