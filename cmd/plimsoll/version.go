package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

func versionCommand(t terminal) *cli.Command {
	return &cli.Command{
		Name:   "version",
		Usage:  "print the version",
		Action: func(*cli.Context) error { return printVersion(t) },
	}
}

func printVersion(t terminal) error {
	_, err := fmt.Fprintf(t.out, "plimsoll %s %s %s/%s\n", ownVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// ownVersion is the version of the running binary.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(info)
}

// versionOf says from what a binary was built, as far as the Go tool has noted it: the module's version, else the revision.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	version, modified := "devel", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			version += "-" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+modified"
		}
	}
	return version + modified
}
