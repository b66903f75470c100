package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

func versionCommand(t terminal) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Action: func(*cli.Context) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			_, err := fmt.Fprintln(t.out, versionLine(info))
			return err
		},
	}
}

// versionLine says what was built from what, as far as the Go tool has noted it.
func versionLine(info *debug.BuildInfo) string {
	version, revision, modified := info.Main.Version, "", ""
	if version == "" {
		version = "(devel)"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = " " + s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				modified = "+modified"
			}
		}
	}
	return fmt.Sprintf("plimsoll %s%s%s %s %s/%s", version, revision, modified, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
