package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/chaos"
	"plimsoll/testbench/printed"
)

// chaosRun is a plimsoll chaos of its own process, whose temporary files are the test's.
func chaosRun(t *testing.T, args ...string) (cmd *exec.Cmd, out *printed.Text) {
	t.Helper()
	cmd, out = exec.CommandContext(t.Context(), os.Args[0], append([]string{"chaos"}, args...)...), &printed.Text{}
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+t.TempDir())
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	return cmd, out
}

// A whole run with processes of its own: it is a matter of correctness that each answer is whole and right, nothing is left and
// nobody is asked again who has failed. How long gaps lasted and what was found when is for machines that do nothing else.
func TestChaosSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("starts engines and breaks them for 15 seconds")
	}
	folder := t.TempDir()
	record, page, logs := filepath.Join(folder, "r.json"), filepath.Join(folder, "r.html"), filepath.Join(folder, "r.log")
	cmd, out := chaosRun(t, "--plan", "smoke", "--json", record, "--html", page, "--logs", logs)
	err := cmd.Wait()
	t.Log(out.String())
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit) && exit.ExitCode() == 1, "%v", err)

	text, err := os.ReadFile(record)
	require.NoError(t, err)
	var result chaos.Result
	require.NoError(t, json.Unmarshal(text, &result))
	require.Equal(t, result.Held(), cmd.ProcessState.Success(), "the exit code says whether all held")
	held := map[string]chaos.Verdict{}
	for _, v := range result.Verdicts {
		held[v.Name] = v
		require.Contains(t, out.String(), v.Name)
	}
	for _, name := range []string{"outcome", "output", "zero", "panics", "exclusion"} {
		require.Contains(t, held, name)
		require.True(t, held[name].Held, "%s: %s", name, held[name].Detail)
	}
	struck := make([]chaos.Kind, 0, len(result.Faults))
	for _, f := range result.Faults {
		require.Empty(t, f.Error)
		require.Greater(t, f.Over, f.At)
		struck = append(struck, f.Kind)
	}
	require.Equal(t, []chaos.Kind{chaos.Kill, chaos.Stop, chaos.Cut}, struck)
	require.GreaterOrEqual(t, len(result.Streams), 12)
	require.NotEmpty(t, result.Attempts)
	require.NotEmpty(t, result.Samples)

	drawn, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(drawn), "outcome")
	require.NoError(t, wellFormed(picture(t, string(drawn))))
	logged, err := os.ReadFile(logs)
	require.NoError(t, err)
	require.Contains(t, string(logged), `"msg":"listening"`)
}

// picture is the part of a page that is drawn.
func picture(t *testing.T, page string) string {
	t.Helper()
	from, to := strings.Index(page, "<svg"), strings.LastIndex(page, "</svg>")
	require.True(t, from >= 0 && to > from, "the page has no picture")
	return page[from : to+len("</svg>")]
}

func wellFormed(text string) error {
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
